"""Reads a script as a person does: from top to bottom, following values into calls.

One abstract run of the module. Branches are followed on both sides and joined; loops are run once
with what they reassign forgotten first; functions of the script are run where they are called,
with the arguments of the call, and once with unknown arguments where nothing in the file calls
them. Nothing is executed. What is not understood is unknown, and the run is bounded.

The run itself is here: scopes, objects, forks. ``statements``, ``expressions`` and ``functions``
say what each kind of node does to it.
"""

import ast
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property

from memlint.engine.arguments import default_of_field
from memlint.engine.binding import set_bindings
from memlint.engine.command_line import CommandLine
from memlint.engine.expressions import EXPRESSIONS, name_value
from memlint.engine.fields import FIELDS, field_of
from memlint.engine.forwards import (
    LAUNCHERS,
    ForwardRun,
    Part,
    is_module,
    part_of,
    size_of_vocabulary,
)
from memlint.engine.functions import call_function
from memlint.engine.imported import project_constant, run_scripts_above
from memlint.engine.modes import is_known_module
from memlint.engine.nodes import Index, indexed
from memlint.engine.project import Project
from memlint.engine.setters import Setters
from memlint.engine.state import State
from memlint.engine.statements import STATEMENTS
from memlint.engine.tensors import Tensor, Use, detached, note
from memlint.engine.uncalled import callers_first
from memlint.engine.used_as import calls_elsewhere, calls_of_models
from memlint.engine.values import (
    ABSENT,
    MAPPINGS,
    MAX_SIZE,
    UNKNOWN,
    Binding,
    Class,
    Constant,
    Function,
    How,
    Invocation,
    Object,
    OneOf,
    Provenance,
    Symbol,
    Unknown,
    Value,
    merge,
    merge_bindings,
)

# What all values that a script makes may hold together, about 32 MB.
MAX_MADE = 1 << 22
# What a copied binding counts for: it takes as much memory as so many values.
_BINDING = 16
# Of smaller objects any number may be kept: their calls are as many as the script's lines.
_SMALL = 64 * _BINDING
# What gives a value that was made elsewhere.
_LOOKUPS = frozenset({ast.Attribute, ast.Subscript, ast.NamedExpr})

# effect(interpreter, invocation) -> the call's value, or None where it has nothing to say
CallEffect = Callable[["Interpreter", Invocation], Value | None]


def _of_class(thing: Object, value: Value) -> Value:
    """What an instance has from its class; that of a class without a library's base may have got
    numbers and texts by ``setattr(self, name, ...)`` of names that are not known."""
    if isinstance(value, Function):
        return Function(value.node, value.scope, thing, value.owner, value.options)
    is_set = thing.open and thing.type is None and isinstance(value, Constant)
    return UNKNOWN if is_set else value


class Interpreter:
    """One abstract run over one module.

    effects: what known callables do, by qualified name, or by ``.method`` for methods of objects.
    command_line: what a launch command gives to the script's parsers.
    lines: the text of the module.
    """

    def __init__(
        self,
        effects: dict[str, CallEffect],
        project: Project | None = None,
        command_line: CommandLine | None = None,
        lines: Sequence[str] = (),
    ) -> None:
        self.effects = effects
        self.lines = lines
        self.project = project
        self.command_line = command_line
        # What flags of absl and files of variables give, by qualified names and by ``$NAME``.
        self.outside: dict[str, Value] = {}
        # How many processes a launch command starts on all machines.
        self.processes: int | None = None
        # The scopes of the project's modules, None while one runs; and the file of each scope.
        self.module_scopes: dict[str, int | None] = {}
        self.homes: dict[int, str] = {}
        # The scripts that lead to the file, those that were run with the orders of their calls, and
        # the packages that they import.
        self.scripts: set[str] = set()
        self.led_by: list[tuple[str, int, int]] = []
        self.packages_above: set[str] = set()
        self.module_depth = 0
        self.state = State()
        self.invocations: list[Invocation] = []
        self.values: dict[ast.expr, Value] = {}
        self.objects: list[Object] = []
        # What the body made whose handler runs, by its class.
        self.retried: dict[str, Object] = {}
        self.imports: list[tuple[ast.Import | ast.ImportFrom, ast.alias, str]] = []
        self.classes: list[ast.ClassDef] = []
        # All classes of all files, their instances, the files, the texts of the other
        # files, and who sets what in them.
        self.class_values: list[Class] = []
        self.instances: list[Object] = []
        self.trees: list[ast.Module] = []
        self.texts: list[str] = []
        self._setters = Setters()
        self._calls_elsewhere: set[ast.Call] = set()
        self._files_with_models = 0
        # Bindings of objects that may be something else by now.
        self.unsure: set[Binding] = set()
        self.scope = 0
        self.parents: dict[int, int | None] = {0: None}
        # The names that each scope ever bound: where a name is not among them, no state has it.
        self.bound: dict[int, set[str]] = {0: set()}
        self.global_names: dict[int, dict[str, int]] = {}
        self.contexts: tuple[str, ...] = ()
        # Whether anything has changed the gradient mode.
        self.sets_gradients = False
        self.branches = 0
        self.loops = 0
        self.loop_nest: tuple[ast.AST, ...] = ()
        # Whether the function that runs is reached from the top of the script, or none runs; and
        # whether it runs itself because nothing had called it.
        self.called = True
        self.guessed = False
        self.depth = 0
        self.steps = 0
        # The sizes of all values that expressions made.
        self.made = 0
        self.function: ast.AST | None = None
        self.method: Function | None = None
        self.returns: list[Value] = []
        self.defined: list[Function] = []
        self.runs: dict[ast.AST, int] = {}
        # Those that run, by where they are defined: a decorator's wrapper is many functions.
        self.active: set[tuple[ast.AST, int]] = set()
        # Decorators of the project, whose wrappers are run.
        self.decorators: set[ast.expr] = set()
        # Functions that something out of sight was given, and may call at any time.
        self.handed_over: set[ast.AST] = set()
        # For each function, the order of the calls that its runs make, from and to.
        self.extents: dict[ast.AST, list[tuple[int, int]]] = {}
        self.generators: set[ast.AST] = set()
        # Modules whose names were all imported (``from trl import *``).
        self.stars: dict[str, None] = {}
        # Those of the files that have run, by their scope.
        self.stars_of: dict[int, tuple[str, ...]] = {}
        # The instance that methods which nothing calls are run on.
        self.selves: dict[ast.ClassDef, Object] = {}
        # Any of several instances of a class, by how many there are.
        self.joint: dict[ast.ClassDef, tuple[int, Object]] = {}
        # The models that trainers of the script's own classes are made with, and the method of one
        # that runs and that a library calls in every step.
        self.models_given: dict[ast.ClassDef, list[Value]] = {}
        self.hook: ast.AST | None = None
        # What each loop's body binds: a function's loops are met at each of its runs.
        self.stored_names: dict[ast.AST, frozenset[str]] = {}
        self._order = 0
        # The order of the last call that the top of the script reaches.
        self.end_of_top = 0
        # Forward passes, what reads their tensors, and the modules whose mode the script sets.
        self.forwards: list[ForwardRun] = []
        self.has_tensors = False
        # The passes of the script's own modules that run, outermost first.
        self.own_passes: list[ForwardRun] = []
        self.parts: dict[tuple[int, str], Part] = {}
        # By scope, the parameters that such a pass is given something of which nothing is known:
        # who calls it with targets has some.
        self.passed: set[tuple[int, str]] = set()
        self.tensor_uses: list[Use] = []
        self.modules: dict[int | str, Value] = {}
        # For each loop, the names that a step leaves bound to outputs or tensors, once a run.
        self.loop_ends: dict[ast.AST, list[dict[str, Binding]]] = {}
        # Between which calls lists were filled.
        self.filled: dict[ast.AST, tuple[int, int]] = {}
        # By function and path, the data sets that are written to files.
        self.saved: dict[tuple[object, str], Value] = {}

    # -- the run ---------------------------------------------------------------------------------

    def run(self, module: ast.Module) -> None:
        self.trees.append(module)
        self.block(module.body)
        self.state.unreachable = False
        run_scripts_above(self)
        self.end_of_top = self._order
        self.run_uncalled(0)

    def run_uncalled(self, start: int) -> None:
        """Run what was defined since ``start`` and never called, arguments unknown."""
        while start < len(self.defined):
            defined, start = self.defined[start:], len(self.defined)
            for function in callers_first(defined, self.lines, self.runs):
                call_function(self, function, None)

    @property
    def setters(self) -> Setters:
        """Who sets what in the files that were read so far."""
        for tree in self.trees[self._setters.files :]:
            self._setters.read(tree)
        return self._setters

    @cached_property
    def index(self) -> Index:
        """The nodes of the module, and what is around each."""
        return indexed(self.trees[0])

    @cached_property
    def calls_of_models(self) -> frozenset[ast.Call]:
        """The calls in the module whose callee is used as a model."""
        return calls_of_models(self.index[1])

    @property
    def calls_of_models_elsewhere(self) -> set[ast.Call]:
        """Such calls in the other files that were read so far."""
        for tree in self.trees[1 + self._files_with_models :]:
            self._calls_elsewhere |= calls_elsewhere(tree)
            self._files_with_models += 1
        return self._calls_elsewhere

    def root_scope(self) -> int:
        """The scope of the module that runs."""
        scope = self.scope
        while (parent := self.parents[scope]) is not None:
            scope = parent
        return scope

    # -- names -----------------------------------------------------------------------------------

    def new_scope(self, parent: int | None) -> int:
        number = len(self.parents)
        self.parents[number] = parent
        self.bound[number] = set()
        self.state.allocated.add(number)
        return number

    def lookup(self, name: str) -> Binding | None:
        scope: int | None = self.scope
        declared = self.global_names.get(self.scope)
        if declared is not None:
            scope = declared.get(name, scope)
        while scope is not None:
            if name in self.bound[scope]:
                key = (scope, name)
                state: State | None = self.state
                while state is not None:  # State.get, which is asked most of all here
                    binding = state.facts.get(key)
                    if binding is not None:
                        return binding
                    state = state.parent
            scope = self.parents[scope]
        return None

    def bind(self, name: str, value: Value, owner: ast.AST | None = None) -> None:
        scope = self.scope
        declared = self.global_names.get(scope)
        if declared is not None:
            scope = declared.get(name, scope)
        self.bound[scope].add(name)
        self.state.facts[scope, name] = Binding(value, How.OTHER, owner)

    # -- objects ---------------------------------------------------------------------------------

    def new_object(
        self,
        type: str | None = None,  # noqa: A002
        made_by: Invocation | None = None,
        base: Object | None = None,
        cls: Class | None = None,
        node: ast.AST | None = None,
        *,
        from_command_line: bool = False,
    ) -> Object:
        if node is None and made_by is not None:
            node = made_by.node
        thing = Object(type, made_by, base, cls, node, from_command_line)
        self.objects.append(thing)
        if cls is not None:
            self.instances.append(thing)
        self.state.allocated.add(id(thing))
        return thing

    def set_binding(self, thing: Object, name: str, binding: Binding) -> None:
        thing.names.setdefault(name, []).append(binding)
        self.state.facts[id(thing), name] = binding

    def get_binding(self, thing: Object, name: str) -> Binding | None:
        if name not in thing.names:
            return None
        binding = self.state.get((id(thing), name))
        return binding if binding is not None else merge_bindings(thing.names[name])

    def bindings(self, thing: Object) -> dict[str, Binding]:
        found = {}
        for name in thing.names:
            binding = self.get_binding(thing, name)
            if binding is not None and binding.value is not ABSENT:
                found[name] = binding
        return found

    def kept_bindings(self, thing: Object) -> dict[str, Binding] | None:
        """Return the bindings, to be kept as they are now; None where that takes too much.

        Then others may exist too.
        """
        size = len(thing.names) * _BINDING
        if size > _SMALL:
            if not self.has_room(size):
                thing.open = True
                return None
            self.made += size
        return self.bindings(thing)

    def new_dict(self, node: ast.AST | None) -> Object:
        return self.new_object(type="dict", node=node)

    def copy_bindings(self, source: Object, target: Object) -> None:
        size = len(source.names) * _BINDING
        if not self.has_room(size):
            target.open = True
            return
        self.made += size
        set_bindings(self, target, self.bindings(source))
        target.open = target.open or source.open

    def block(self, statements: Iterable[ast.stmt]) -> None:
        for statement in statements:
            if self.state.unreachable:
                return
            self.steps += 1
            handler = STATEMENTS.get(type(statement))
            if handler is not None:
                handler(self, statement)

    def fork(
        self, *bodies: Callable[[], None], taken: tuple[int, Provenance] | None = None
    ) -> None:
        """Run each body on a state of its own and join what comes out.

        taken: the body that runs where the defaults hold that whoever starts the script may change,
        and how these reach it: a name that several give a number or a text has that of this one.
        """
        base = self.state
        branches = []
        self.branches += 1
        for body in bodies:
            self.state = State(base)
            body()
            branches.append(self.state)
        self.branches -= 1
        self.state = base
        base.join(branches)
        if taken is not None and not branches[taken[0]].unreachable:
            self._prefer(branches[taken[0]], branches, taken[1])

    def _prefer(self, taken: State, branches: list[State], origin: Provenance) -> None:
        for key in {key for one in branches if not one.unreachable for key in one.facts}:
            binding, joined = taken.get(key), self.state.facts.get(key)
            value = binding.value if binding is not None else None
            if binding is None or joined is None or not isinstance(value, Constant):
                continue
            if joined.value != value:
                origin = value.origin if value.origin is not Provenance.LITERAL else origin
                value = Constant(value.value, value.node, origin)
                self.state.facts[key] = Binding(value, binding.how, binding.owner)

    def bounded(self, value: Value) -> Value:
        """``value``, which was just made; unknown where it, or all that was made, is too large.

        A name that is doubled eighty times would hold more than any memory.
        """
        if not self.has_room(value.size):
            return UNKNOWN
        self.made += value.size
        return value

    def has_room(self, size: int) -> bool:
        """True if a value of this size may be made."""
        return size <= MAX_SIZE and self.made + size <= MAX_MADE

    def eval(self, node: ast.expr) -> Value:
        values = self.values
        kind = node.__class__
        if kind is ast.Name:
            value = name_value(self, node)  # type: ignore[arg-type]
        elif kind is ast.Constant:
            known = values.get(node)
            if known is None:
                constant = Constant(node.value, node)  # type: ignore[attr-defined]
                known = values[node] = self.bounded(constant)
            return known
        else:
            handler = EXPRESSIONS.get(kind)
            if handler is None:
                for child in ast.iter_child_nodes(node):
                    if isinstance(child, ast.expr):
                        self.eval(child)
                return UNKNOWN
            value = handler(self, node)
            if value.size > 1 and kind not in _LOOKUPS:
                value = self.bounded(value)
        before = values.get(node)
        if before is None:
            values[node] = value
        elif before is not value:
            values[node] = merge((before, value))
        return value

    def attribute(self, thing: Object, name: str) -> Value:
        """``thing.name``: its own binding, its class's attribute, or a method bound to it."""
        if thing.type != "dict":
            binding = self.get_binding(thing, name)
            if binding is not None and binding.value is not ABSENT:
                return binding.value
        if thing.cls is not None:
            binding = self.class_binding(thing.cls, name)
            if binding is not None:
                return _of_class(thing, binding.value)
        if name == "module" and (is_known_module(self, thing) or is_module(thing)):
            return thing
        if name == "device" and thing.type in LAUNCHERS:
            return Constant("cuda")
        return part_of(self, thing, name) or size_of_vocabulary(thing, name) or UNKNOWN

    @property
    def has_outputs(self) -> bool:
        """True if a forward pass was met, or a field of what may be an output."""
        return self.has_tensors or bool(self.forwards)

    def attribute_of(self, value: Value, node: ast.Attribute) -> Value:
        """``value.attr`` of one value."""
        match value:
            case Symbol():
                return self._member(value, node)
            case Object():
                found = self.attribute(value, node.attr)
                if found is not UNKNOWN or value.type is not None:
                    return found
            case Class():
                binding = self.class_binding(value, node.attr)
                return binding.value if binding is not None else UNKNOWN
            case Tensor():
                note(self, value, node.attr, node)
                return detached(value, node) if node.attr == "data" else UNKNOWN
            case Unknown():
                pass
            case _:
                return UNKNOWN
        # What comes from nobody knows where may be a model's output.
        return (field_of(self, value, node.attr, node) if node.attr in FIELDS else None) or UNKNOWN

    def _member(self, value: Symbol, node: ast.Attribute) -> Value:
        """What a library's module, class or function has under a name."""
        if value.name == "object":
            # It stands for a library that may be missing: ``except ImportError: Trainer = object``.
            return UNKNOWN
        name = f"{value.name}.{node.attr}"
        if name in self.outside:
            return self.outside[name]
        before = self.values.get(node)
        # One value a place: the same again is no news.
        if isinstance(before, Symbol) and before.name == name:
            return before
        return project_constant(self, Symbol(name, node))

    def class_binding(self, cls: Class, name: str) -> Binding | None:
        binding = self.state.get((cls.scope, name)) if name in self.bound[cls.scope] else None
        if binding is not None:
            return binding
        for base in cls.bases:
            if isinstance(base, Class):
                binding = self.class_binding(base, name)
                if binding is not None:
                    return binding
        return None

    def update_dict(self, target: Object, source: Value) -> None:
        if isinstance(source, OneOf):
            things = [one for one in source.options if isinstance(one, Object)]
            target.open |= len(things) != len(source.options)
            self._update_from(target, things)
        elif isinstance(source, Object) and source.type in MAPPINGS:
            self.copy_bindings(source, target)
        else:
            target.open = True

    def _update_from(self, target: Object, things: list[Object]) -> None:
        """``**({"a": 1} if x else {})``: what only some options hold may be missing."""
        size = sum(len(thing.names) for thing in things) * _BINDING
        if not self.has_room(size):
            target.open = True
            return
        self.made += size
        bound = [self.bindings(thing) for thing in things]
        for name in set().union(*bound):
            before = self.get_binding(target, name)
            held = [bindings.get(name) or before for bindings in bound]
            self.set_binding(target, name, merge_bindings(held))
        target.open |= any(thing.open for thing in things)

    def name_of(self, node: ast.expr) -> str | None:
        """The qualified name that an already evaluated expression (or its callee) stands for."""
        if isinstance(node, ast.Call):
            node = node.func
        value = self.values.get(node)
        if isinstance(value, Symbol):
            return value.name
        return f"?.{node.attr}" if isinstance(node, ast.Attribute) else None

    def fields(self, cls: Class) -> list[tuple[str, ast.AnnAssign]]:
        """The dataclass fields of a class of the script, its bases' first."""
        found: dict[str, ast.AnnAssign] = {}
        for base in cls.bases:
            if isinstance(base, Class):
                found.update(self.fields(base))
        for statement in cls.node.body:
            if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                found[statement.target.id] = statement
        return list(found.items())

    def set_fields(self, cls: Class, made: Object, origin: Provenance = Provenance.FIELD) -> None:
        """Give an instance the defaults of its class's fields."""
        for name, statement in self.fields(cls):
            if statement.value is None:
                self.set_binding(made, name, Binding(UNKNOWN, How.FIELD, statement))
                continue
            value = self.values.get(statement.value, UNKNOWN)
            if isinstance(value, Object) and value.made_by is not None:
                maker = value.made_by
                if maker.name.rsplit(".", 1)[-1] in ("field", "Field", "HfArg"):
                    value = default_of_field(self, maker)
            if isinstance(value, Constant):
                value = Constant(value.value, value.node, origin)
            elif isinstance(value, Symbol):
                value = Symbol(value.name, value.node, origin)
            self.set_binding(made, name, Binding(value, How.FIELD, statement))

    def argument(self, invocation: Invocation, index: int, name: str) -> Binding | None:
        """An argument of a call, by position or keyword."""
        if name in invocation.keywords:
            return invocation.keywords[name]
        if index < len(invocation.arguments):
            return Binding(invocation.arguments[index], How.POSITIONAL, invocation.node)
        return None
