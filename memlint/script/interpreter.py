"""Reads a script as a person does: from top to bottom, following values into calls.

One abstract run of the module. Branches are followed on both sides and joined; loops are run once
with what they reassign forgotten first; functions of the script are run where they are called,
with the arguments of the call, and once with unknown arguments where nothing in the file calls
them. Nothing is executed. What is not understood is unknown, and the run is bounded.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterable
from typing import Any

from memlint.script.records import Record
from memlint.script.state import State
from memlint.script.values import (
    ABSENT,
    UNKNOWN,
    Choice,
    Class,
    Constant,
    Function,
    How,
    Object,
    Origin,
    Partial,
    Sequence,
    Slot,
    Symbol,
    Unknown,
    Value,
    merge,
    merge_slots,
    options,
    truth,
)

# Bounds: a run stops following calls, never the script.
MAX_CALL_DEPTH = 8
MAX_STATEMENTS = 30_000
MAX_RUNS_OF_ONE_FUNCTION = 6

_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
}
_BUILTIN_NAMES = frozenset(
    dir(__builtins__) if not isinstance(__builtins__, dict) else __builtins__
)

# Class methods that make an instance of their class.
_CONSTRUCTORS = frozenset(
    {"from_pretrained", "from_config", "from_dict", "from_json_file", "from_file", "from_args"}
)

# handler(interpreter, record) -> the call's value, or None where the handler has nothing to say
Handler = Callable[["Interpreter", Record], Value | None]


class Interpreter:
    """One abstract run over one module.

    handlers: what known callables do, by qualified name, or by ``.method`` for methods of objects.
    """

    def __init__(self, handlers: dict[str, Handler]) -> None:
        self.handlers = handlers
        self.state = State()
        self.records: list[Record] = []
        self.values: dict[ast.expr, Value] = {}
        self.objects: list[Object] = []
        self.imports: list[tuple[ast.Import | ast.ImportFrom, ast.alias, str]] = []
        self.scope = 0
        self.parents: dict[int, int | None] = {0: None}
        self.global_names: dict[int, dict[str, int]] = {}
        self.contexts: tuple[str, ...] = ()
        self.branches = 0
        self.loops = 0
        self.depth = 0
        self.steps = 0
        self.function: ast.AST | None = None
        self.returns: list[Value] = []
        self.defined: list[Function] = []
        self.runs: dict[ast.AST, int] = {}
        self.active: set[ast.AST] = set()
        self.generators: set[ast.AST] = set()
        # Modules whose names were all imported (``from trl import *``).
        self.stars: list[str] = []
        # The instance that methods which nothing calls are run on.
        self.selves: dict[ast.ClassDef, Object] = {}
        self._order = 0

    # -- the run ---------------------------------------------------------------------------------

    def run(self, module: ast.Module) -> None:
        self.block(module.body)
        self.state.dead = False
        self._run_uncalled(0)

    def _run_uncalled(self, start: int) -> None:
        """Run what was defined since ``start`` and never called, arguments unknown."""
        index = start
        while index < len(self.defined):
            function = self.defined[index]
            index += 1
            if function.node not in self.runs:
                self.call_function(function, None)

    # -- names -----------------------------------------------------------------------------------

    def new_scope(self, parent: int | None) -> int:
        number = len(self.parents)
        self.parents[number] = parent
        return number

    def lookup(self, name: str) -> Slot | None:
        scope: int | None = self.global_names.get(self.scope, {}).get(name, self.scope)
        while scope is not None:
            slot = self.state.get((scope, name))
            if slot is not None:
                return slot
            scope = self.parents[scope]
        return None

    def bind(self, name: str, value: Value, owner: ast.AST | None = None) -> None:
        scope = self.global_names.get(self.scope, {}).get(name, self.scope)
        self.state.set((scope, name), Slot(value, How.OTHER, owner))

    # -- objects ---------------------------------------------------------------------------------

    def new_object(self, **fields: Any) -> Object:
        thing = Object(**fields)
        self.objects.append(thing)
        return thing

    def set_slot(self, thing: Object, name: str, slot: Slot) -> None:
        thing.names.setdefault(name, []).append(slot)
        self.state.set((id(thing), name), slot)

    def get_slot(self, thing: Object, name: str) -> Slot | None:
        if name not in thing.names:
            return None
        slot = self.state.get((id(thing), name))
        return slot if slot is not None else merge_slots(thing.names[name])

    def slots(self, thing: Object) -> dict[str, Slot]:
        found = {}
        for name in thing.names:
            slot = self.get_slot(thing, name)
            if slot is not None and slot.value is not ABSENT:
                found[name] = slot
        return found

    def new_dict(self, node: ast.AST | None) -> Object:
        return self.new_object(type="dict", node=node)

    def copy_slots(self, source: Object, target: Object) -> None:
        for name, slot in self.slots(source).items():
            self.set_slot(target, name, slot)
        target.open = target.open or source.open

    # -- statements ------------------------------------------------------------------------------

    def block(self, statements: Iterable[ast.stmt]) -> None:
        for statement in statements:
            if self.state.dead:
                return
            self.steps += 1
            handler = _STATEMENTS.get(type(statement))
            if handler is not None:
                handler(self, statement)

    def fork(self, *bodies: Callable[[], None]) -> None:
        """Run each body on a state of its own and join what comes out."""
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

    def _expr_statement(self, node: ast.Expr) -> None:
        self.eval(node.value)

    def _assign(self, node: ast.Assign) -> None:
        value = self.eval(node.value)
        for target in node.targets:
            self.assign(target, value, node)

    def _ann_assign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.assign(node.target, self.eval(node.value), node)

    def _aug_assign(self, node: ast.AugAssign) -> None:
        right = self.eval(node.value)
        left = self.eval(node.target)
        if isinstance(left, Object) and left.type == "dict" and isinstance(node.op, ast.BitOr):
            self.update_dict(left, right)
            return
        self.assign(node.target, self._binary(node.op, left, right, None), node)

    def assign(self, target: ast.expr, value: Value, owner: ast.AST) -> None:
        match target:
            case ast.Name(id=name):
                self.bind(name, value, owner)
            case ast.Attribute(value=inner, attr=attribute):
                for thing in options(self.eval(inner)):
                    if isinstance(thing, Object):
                        self.set_slot(thing, attribute, Slot(value, How.ATTRIBUTE, owner))
            case ast.Subscript(value=inner, slice=key_node):
                key = self.eval(key_node)
                for thing in options(self.eval(inner)):
                    if not isinstance(thing, Object):
                        continue
                    if isinstance(key, Constant) and isinstance(key.value, str):
                        self.set_slot(thing, key.value, Slot(value, How.SUBSCRIPT, owner))
                    elif thing.type == "dict":
                        thing.open = True
            case ast.Tuple(elts=targets) | ast.List(elts=targets):
                self._unpack(targets, value, owner)
            case ast.Starred(value=inner):
                self.assign(inner, UNKNOWN, owner)

    def _unpack(self, targets: list[ast.expr], value: Value, owner: ast.AST) -> None:
        starred = any(isinstance(target, ast.Starred) for target in targets)
        values: tuple[Value, ...] = (UNKNOWN,) * len(targets)
        if isinstance(value, Sequence) and not (value.open or starred):
            values = value.items if len(value.items) == len(targets) else values
        for target, one in zip(targets, values, strict=True):
            self.assign(target, one, owner)

    def _delete(self, node: ast.Delete) -> None:
        for target in node.targets:
            match target:
                case ast.Name(id=name):
                    self.bind(name, ABSENT)
                case ast.Subscript(value=inner, slice=key_node):
                    key = self.eval(key_node)
                    for thing in options(self.eval(inner)):
                        if isinstance(thing, Object) and isinstance(key, Constant):
                            self.set_slot(thing, str(key.value), Slot(ABSENT))
                case ast.Attribute(value=inner, attr=attribute):
                    for thing in options(self.eval(inner)):
                        if isinstance(thing, Object):
                            self.set_slot(thing, attribute, Slot(ABSENT))

    def _import(self, node: ast.Import) -> None:
        for alias in node.names:
            self.imports.append((node, alias, alias.name))
            if alias.asname:
                self.bind(alias.asname, Symbol(alias.name), node)
            else:
                top = alias.name.split(".")[0]
                self.bind(top, Symbol(top), node)

    def _import_from(self, node: ast.ImportFrom) -> None:
        module = "." * node.level + (node.module or "")
        for alias in node.names:
            name = f"{module}.{alias.name}" if node.module else f"{module}{alias.name}"
            self.imports.append((node, alias, name))
            if alias.name == "*":
                if module not in self.stars:
                    self.stars.append(module)
            else:
                self.bind(alias.asname or alias.name, Symbol(name), node)

    def _if(self, node: ast.If) -> None:
        decided = truth(self.eval(node.test))
        if decided is None and _is_main_guard(node.test):
            decided = True
        if decided is None and _is_type_checking(node.test):
            self.fork(lambda: self.block(node.body))
            return
        if decided is not None:
            self.block(node.body if decided else node.orelse)
            return
        self.fork(lambda: self.block(node.body), lambda: self.block(node.orelse))

    def _loop(self, node: ast.For | ast.AsyncFor | ast.While) -> None:
        endless = False
        if isinstance(node, ast.While):
            decided = truth(self.eval(node.test))
            if decided is False:
                self.block(node.orelse)
                return
            endless = decided is True
        else:
            iterated = self.eval(node.iter)
        for name in _stored_names(node.body):
            slot = self.lookup(name)
            if slot is not None:
                self.bind(name, merge([slot.value, UNKNOWN]))
        base = self.state
        self.state = State(base)
        self.loops += 1
        self.branches += 1
        if not isinstance(node, ast.While):
            item = iterated.items if isinstance(iterated, Sequence) and not iterated.open else ()
            self.assign(node.target, merge(item) if item else UNKNOWN, node)
        self.block(node.body)
        self.loops -= 1
        self.branches -= 1
        body = self.state
        body.dead = False
        self.state = base
        base.join([body] if endless else [body, State(base)])
        self.block(node.orelse)

    def _with(self, node: ast.With | ast.AsyncWith) -> None:
        before = self.contexts
        for item in node.items:
            value = self.eval(item.context_expr)
            name = self.name_of(item.context_expr)
            if name:
                self.contexts = (*self.contexts, name)
            if item.optional_vars is not None:
                self.assign(item.optional_vars, value, node)
        self.block(node.body)
        self.contexts = before

    def _try(self, node: Any) -> None:
        base = self.state
        self.state = body = State(base)
        self.branches += 1
        self.block(node.body)
        self.block(node.orelse)
        branches = [body]
        for handler in node.handlers:
            # The body may have failed anywhere: what it bound may or may not be there.
            self.state = State(base)
            for key, slot in body.facts.items():
                self.state.set(key, merge_slots([slot, base.get(key)]))
            if handler.type is not None:
                self.eval(handler.type)
            if handler.name:
                self.bind(handler.name, UNKNOWN)
            self.block(handler.body)
            branches.append(self.state)
        self.branches -= 1
        self.state = base
        base.join(branches)
        dead, base.dead = base.dead, False
        self.block(node.finalbody)
        base.dead = base.dead or dead

    def _match(self, node: ast.Match) -> None:
        self.eval(node.subject)

        def run(case: ast.match_case) -> Callable[[], None]:
            def body() -> None:
                for part in ast.walk(case.pattern):
                    name = getattr(part, "name", None) or getattr(part, "rest", None)
                    if isinstance(name, str):
                        self.bind(name, UNKNOWN)
                if case.guard is not None:
                    self.eval(case.guard)
                self.block(case.body)

            return body

        self.fork(*[run(case) for case in node.cases], lambda: None)

    def _define_function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        made = []
        for decorator in node.decorator_list:
            self.eval(decorator)
            if isinstance(decorator, ast.Call) and self.records:
                made.append(self.records[-1])
        for default in [*node.args.defaults, *node.args.kw_defaults]:
            if default is not None:
                self.eval(default)
        function = Function(node, self.scope, None, None, tuple(made))
        self.defined.append(function)
        self.bind(node.name, function, node)

    def _define_class(self, node: ast.ClassDef) -> None:
        bases = tuple(self.eval(base) for base in node.bases)
        for keyword in node.keywords:
            self.eval(keyword.value)
        is_dataclass = False
        for decorator in node.decorator_list:
            self.eval(decorator)
            name = self.name_of(decorator) or ""
            is_dataclass |= name.rsplit(".", 1)[-1] == "dataclass"
        is_dataclass |= any(isinstance(base, Class) and base.is_dataclass for base in bases)
        scope = self.new_scope(self.scope)
        made = Class(node, scope, bases, is_dataclass)
        outer, self.scope = self.scope, scope
        start = len(self.defined)
        self.block(node.body)
        self.scope = outer
        for function in self.defined[start:]:
            # Methods do not see the names of their class.
            function.owner = function.owner or made
            function.scope = outer if function.scope == scope else function.scope
        self.bind(node.name, made, node)

    def _return(self, node: ast.Return) -> None:
        self.returns.append(self.eval(node.value) if node.value else Constant(None))
        self.state.dead = True

    def _stop(self, node: ast.stmt) -> None:
        if isinstance(node, ast.Raise) and node.exc is not None:
            self.eval(node.exc)
        self.state.dead = True

    def _global(self, node: ast.Global) -> None:
        names = self.global_names.setdefault(self.scope, {})
        names.update(dict.fromkeys(node.names, 0))

    def _nonlocal(self, node: ast.Nonlocal) -> None:
        names = self.global_names.setdefault(self.scope, {})
        for name in node.names:
            scope = self.parents[self.scope]
            while scope:
                if self.state.get((scope, name)) is not None:
                    names[name] = scope
                    break
                scope = self.parents[scope]

    def _assert(self, node: ast.Assert) -> None:
        self.eval(node.test)

    # -- expressions -----------------------------------------------------------------------------

    def eval(self, node: ast.expr) -> Value:
        handler = _EXPRESSIONS.get(type(node))
        if handler is None:
            for child in ast.iter_child_nodes(node):
                if isinstance(child, ast.expr):
                    self.eval(child)
            return UNKNOWN
        value = handler(self, node)
        before = self.values.get(node)
        if before is None:
            self.values[node] = value
        elif before is not value:
            self.values[node] = merge([before, value])
        return value

    def _constant(self, node: ast.Constant) -> Value:
        return Constant(node.value, node)

    def _name(self, node: ast.Name) -> Value:
        slot = self.lookup(node.id)
        if slot is not None:
            if not isinstance(slot.value, Choice):
                return UNKNOWN if slot.value is ABSENT else slot.value
            # Where some path leaves the name unbound, using it there would be a NameError.
            bound = [one for one in options(slot.value) if one is not ABSENT]
            return merge(bound)
        if node.id in _BUILTIN_NAMES:
            return Symbol(node.id)
        return Symbol(f"{self.stars[0]}.{node.id}") if len(self.stars) == 1 else UNKNOWN

    def _attribute(self, node: ast.Attribute) -> Value:
        value = self.eval(node.value)
        if not isinstance(value, Choice):
            return self._attribute_of(value, node)
        return merge([self._attribute_of(one, node) for one in value.options])

    def _attribute_of(self, value: Value, node: ast.Attribute) -> Value:
        match value:
            case Symbol(name=name):
                return Symbol(f"{name}.{node.attr}", node)
            case Object():
                return self.attribute(value, node.attr)
            case Class():
                slot = self.class_slot(value, node.attr)
                return slot.value if slot is not None else UNKNOWN
            case _:
                return UNKNOWN

    def attribute(self, thing: Object, name: str) -> Value:
        """``thing.name``: its own slot, its class's attribute, or a method bound to it."""
        if thing.type != "dict":
            slot = self.get_slot(thing, name)
            if slot is not None and slot.value is not ABSENT:
                return slot.value
        if thing.cls is not None:
            slot = self.class_slot(thing.cls, name)
            if slot is not None:
                value = slot.value
                if isinstance(value, Function):
                    return Function(value.node, value.scope, thing, value.owner, value.options)
                return value
        return UNKNOWN

    def class_slot(self, cls: Class, name: str) -> Slot | None:
        slot = self.state.get((cls.scope, name))
        if slot is not None:
            return slot
        for base in cls.bases:
            if isinstance(base, Class):
                slot = self.class_slot(base, name)
                if slot is not None:
                    return slot
        return None

    def _subscript(self, node: ast.Subscript) -> Value:
        inner = self.eval(node.value)
        key = self.eval(node.slice)
        if not isinstance(key, Constant):
            return UNKNOWN
        found = []
        for one in options(inner):
            if isinstance(one, Object) and isinstance(key.value, str):
                slot = self.get_slot(one, key.value)
                found.append(slot.value if slot and slot.value is not ABSENT else UNKNOWN)
            elif isinstance(one, Sequence) and isinstance(key.value, int) and not one.open:
                inside = -len(one.items) <= key.value < len(one.items)
                found.append(one.items[key.value] if inside else UNKNOWN)
            else:
                found.append(UNKNOWN)
        return merge(found)

    def _sequence(self, node: ast.List | ast.Tuple | ast.Set) -> Value:
        items: list[Value] = []
        is_open = False
        for element in node.elts:
            if isinstance(element, ast.Starred):
                inner = self.eval(element.value)
                if isinstance(inner, Sequence) and not inner.open:
                    items.extend(inner.items)
                else:
                    is_open = True
            else:
                items.append(self.eval(element))
        kind = {ast.List: "list", ast.Tuple: "tuple"}.get(type(node), "set")
        return Sequence(tuple(items), kind, node, is_open)

    def _dict(self, node: ast.Dict) -> Value:
        made = self.new_dict(node)
        for key_node, value_node in zip(node.keys, node.values, strict=True):
            value = self.eval(value_node)
            if key_node is None:
                self.update_dict(made, value)
                continue
            key = self.eval(key_node)
            if isinstance(key, Constant) and isinstance(key.value, str):
                self.set_slot(made, key.value, Slot(value, How.ITEM, node))
            elif not isinstance(key, Constant):
                made.open = True
        return made

    def update_dict(self, target: Object, source: Value) -> None:
        if isinstance(source, Choice):
            # ``**({"a": 1} if x else {})``: what only some options hold may be missing.
            things = [one for one in source.options if isinstance(one, Object)]
            if len(things) != len(source.options):
                target.open = True
            names = {name for thing in things for name in self.slots(thing)}
            for name in names:
                held = [self.slots(thing).get(name) for thing in things]
                before = self.get_slot(target, name)
                self.set_slot(target, name, merge_slots([slot or before for slot in held]))
            target.open |= any(thing.open for thing in things)
        elif isinstance(source, Object) and source.type == "dict":
            self.copy_slots(source, target)
        else:
            target.open = True

    def _if_exp(self, node: ast.IfExp) -> Value:
        decided = truth(self.eval(node.test))
        if decided is not None:
            return self.eval(node.body if decided else node.orelse)
        self.branches += 1
        values = [self.eval(node.body), self.eval(node.orelse)]
        self.branches -= 1
        return merge(values)

    def _bool_op(self, node: ast.BoolOp) -> Value:
        wanted = isinstance(node.op, ast.Or)
        values = []
        for operand in node.values:
            value = self.eval(operand)
            decided = truth(value)
            if decided is wanted:
                values.append(value)
                break
            if decided is None or operand is node.values[-1]:
                values.append(value)
        return values[0] if len(values) == 1 else merge([*values, UNKNOWN])

    def _unary(self, node: ast.UnaryOp) -> Value:
        value = self.eval(node.operand)
        if isinstance(node.op, ast.Not):
            decided = truth(value)
            return UNKNOWN if decided is None else Constant(not decided, node)
        if isinstance(value, Constant) and isinstance(value.value, int | float):
            if isinstance(node.op, ast.USub):
                return Constant(-value.value, node, value.origin)
            if isinstance(node.op, ast.UAdd):
                return Constant(value.value, node, value.origin)
        return UNKNOWN

    def _bin_op(self, node: ast.BinOp) -> Value:
        return self._binary(node.op, self.eval(node.left), self.eval(node.right), node)

    def _binary(self, op: ast.operator, left: Value, right: Value, node: ast.expr | None) -> Value:
        if isinstance(left, Constant) and isinstance(right, Constant):
            values = (left.value, right.value)
            numbers = all(isinstance(value, int | float) for value in values)
            strings = all(isinstance(value, str) for value in values)
            if numbers or (strings and isinstance(op, ast.Add)):
                calculate = _BINARY.get(type(op))
                if calculate is not None:
                    try:
                        result = calculate(*values)
                    except (ArithmeticError, TypeError, ValueError):
                        return UNKNOWN
                    literal = left.origin == right.origin == Origin.LITERAL
                    origin = Origin.LITERAL if literal else _outside(left.origin, right.origin)
                    return Constant(result, node, origin)
                if isinstance(op, ast.Pow) and numbers and abs(values[1]) <= 64:  # type: ignore[arg-type]
                    try:
                        return Constant(values[0] ** values[1], node)  # type: ignore[operator]
                    except (ArithmeticError, ValueError):
                        return UNKNOWN
        if isinstance(op, ast.BitOr) and isinstance(left, Object) and left.type == "dict":
            made = self.new_dict(node)
            self.update_dict(made, left)
            self.update_dict(made, right)
            return made
        if isinstance(op, ast.Add) and isinstance(left, Sequence) and isinstance(right, Sequence):
            return Sequence(left.items + right.items, left.kind, node, left.open or right.open)
        return UNKNOWN

    def _compare(self, node: ast.Compare) -> Value:
        left = self.eval(node.left)
        rights = [self.eval(comparator) for comparator in node.comparators]
        if len(rights) != 1:
            return UNKNOWN
        right, op = rights[0], type(node.ops[0])
        if isinstance(left, Constant) and isinstance(right, Constant) and op in _COMPARE:
            if left.origin == right.origin == Origin.LITERAL:
                try:
                    return Constant(bool(_COMPARE[op](left.value, right.value)), node)
                except TypeError:
                    return UNKNOWN
            return UNKNOWN
        against_none = isinstance(right, Constant) and right.value is None
        if op in (ast.Is, ast.IsNot) and against_none and _is_something(left):
            return Constant(op is ast.IsNot, node)
        return UNKNOWN

    def _joined(self, node: ast.JoinedStr) -> Value:
        parts: list[str] = []
        known = True
        origin = Origin.LITERAL
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                value = self.eval(part.value)
                plain = part.format_spec is None and part.conversion == -1
                if plain and isinstance(value, Constant) and isinstance(value.value, str | int):
                    parts.append(str(value.value))
                    origin = value.origin if value.origin != Origin.LITERAL else origin
                else:
                    known = False
            elif isinstance(part, ast.Constant):
                parts.append(str(part.value))
        return Constant("".join(parts), node, origin) if known else UNKNOWN

    def _lambda(self, node: ast.Lambda) -> Value:
        function = Function(node, self.scope)
        self.defined.append(function)
        return function

    def _comprehension(self, node: Any) -> Value:
        outer = self.scope
        self.scope = self.new_scope(outer)
        self.loops += 1
        for generator in node.generators:
            iterated = self.eval(generator.iter)
            known = isinstance(iterated, Sequence) and not iterated.open and iterated.items
            item = merge(iterated.items) if known and isinstance(iterated, Sequence) else UNKNOWN
            self.assign(generator.target, item, node)
            for condition in generator.ifs:
                self.eval(condition)
        self.branches += 1
        if isinstance(node, ast.DictComp):
            self.eval(node.key)
            self.eval(node.value)
        else:
            self.eval(node.elt)
        self.branches -= 1
        self.loops -= 1
        self.scope = outer
        if isinstance(node, ast.DictComp):
            made = self.new_dict(node)
            made.open = True
            return made
        return UNKNOWN

    def _named(self, node: ast.NamedExpr) -> Value:
        value = self.eval(node.value)
        self.assign(node.target, value, node)
        return value

    def _await(self, node: ast.Await) -> Value:
        return self.eval(node.value)

    def _yield(self, node: ast.Yield | ast.YieldFrom) -> Value:
        if self.function is not None:
            self.generators.add(self.function)
        if node.value is not None:
            self.eval(node.value)
        return UNKNOWN

    # -- calls -----------------------------------------------------------------------------------

    def name_of(self, node: ast.expr) -> str | None:
        """The qualified name that an already evaluated expression (or its callee) stands for."""
        if isinstance(node, ast.Call):
            node = node.func
        value = self.values.get(node)
        if isinstance(value, Symbol):
            return value.name
        return f"?.{node.attr}" if isinstance(node, ast.Attribute) else None

    def _call(self, node: ast.Call) -> Value:
        receiver: Value | None = None
        if isinstance(node.func, ast.Attribute):
            receiver = self.eval(node.func.value)
            callee = merge([self._attribute_of(one, node.func) for one in options(receiver)])
            before = self.values.get(node.func)
            if before is None or before is callee:
                self.values[node.func] = callee
            else:
                self.values[node.func] = merge([before, callee])
        else:
            callee = self.eval(node.func)
        self._order += 1
        record = Record(
            node,
            "",
            self._order,
            receiver=receiver,
            contexts=self.contexts,
            conditional=self.branches > 0,
            in_loop=self.loops > 0,
            function=self.function,
        )
        self._arguments(record)
        # A name that is bound in one arm and None in the other is still that name when called.
        callees = [
            one
            for one in options(callee)
            if not isinstance(one, Unknown) and not (isinstance(one, Constant))
        ]
        target = callees[0] if len(callees) == 1 else (callee if not callees else None)
        if target is None:
            record.name = "?"
            self._take(record)
            results = []
            for one in callees[:3]:
                if isinstance(one, Function) and self.can_follow(one):
                    self.branches += 1
                    results.append(self.call_function(one, record))
                    self.branches -= 1
                else:
                    results.append(UNKNOWN)
            return merge([*results, UNKNOWN])
        value = self.apply(target, record)
        record.result = value
        return value

    def _arguments(self, record: Record) -> None:
        arguments: list[Value] = []
        for argument in record.node.args:
            if isinstance(argument, ast.Starred):
                inner = self.eval(argument.value)
                if isinstance(inner, Sequence) and not inner.open:
                    arguments.extend(inner.items)
                else:
                    record.open_arguments = True
            else:
                arguments.append(self.eval(argument))
        record.arguments = tuple(arguments)
        splatted = None
        for keyword in record.node.keywords:
            value = self.eval(keyword.value)
            if keyword.arg is not None:
                record.keywords[keyword.arg] = Slot(value, How.KEYWORD, record.node)
                continue
            splatted = splatted or self.new_dict(None)
            self.update_dict(splatted, value)
        if splatted is not None:
            for name, slot in splatted.names.items():
                current = self.get_slot(splatted, name) or slot[-1]
                if current.value is not ABSENT:
                    record.keywords.setdefault(name, current)
            record.open_keywords = splatted.open
        for value in [*record.arguments, *(slot.value for slot in record.keywords.values())]:
            for one in options(value):
                if isinstance(one, Object):
                    record.snapshots[id(one)] = self.slots(one)

    def _take(self, record: Record) -> None:
        self.records.append(record)

    def apply(self, callee: Value, record: Record) -> Value:
        """Call ``callee``: record it, and say what comes out."""
        match callee:
            case Symbol(name=name):
                record.name = name
                self._take(record)
                handler = self.handlers.get(name)
                if handler is not None:
                    value = handler(self, record)
                    if value is not None:
                        return value
                return self.made_by(record, name)
            case Class():
                return self._instantiate(callee, record)
            case Function():
                record.name = _function_name(callee)
                self._take(record)
                return self.call_function(callee, record) if self.can_follow(callee) else UNKNOWN
            case Partial(callee=inner, made_by=made):
                record.arguments = made.arguments[1:] + record.arguments
                record.keywords = {**made.keywords, **record.keywords}
                record.open_keywords |= made.open_keywords
                record.snapshots = {**made.snapshots, **record.snapshots}
                return self.apply(inner, record)
            case Object():
                record.name = f"{callee.type or '?'}.__call__"
                record.receiver = callee
                self._take(record)
                return UNKNOWN
        method = record.node.func.attr if isinstance(record.node.func, ast.Attribute) else ""
        kind = record.receiver.type if isinstance(record.receiver, Object) else None
        record.name = f"{kind or '?'}.{method}" if method else "?"
        self._take(record)
        handler = self.handlers.get(f".{method}")
        if handler is not None:
            value = handler(self, record)
            if value is not None:
                return value
        return self.made_by(record, None)

    def made_by(self, record: Record, kind: str | None) -> Object:
        """A new object that the call made; its slots are the call's keywords.

        ``kind`` is the callee's qualified name: a class, or a class's own constructor.
        """
        if kind is not None:
            head, _, last = kind.rpartition(".")
            if head and last in _CONSTRUCTORS:
                kind = head
            elif not last[:1].isupper():
                kind = None
        made = self.new_object(type=kind, made_by=record, node=record.node)
        for name, slot in record.keywords.items():
            self.set_slot(made, name, slot)
        made.open = record.open_keywords
        return made

    def _instantiate(self, cls: Class, record: Record) -> Value:
        library = library_base(cls)
        record.name = library or cls.node.name
        record.subclass = cls.node
        self._take(record)
        made = self.new_object(type=library, made_by=record, cls=cls, node=record.node)
        made.open = record.open_keywords
        self.selves[cls.node] = made
        if cls.is_dataclass:
            self.set_fields(cls, made)
        if library is not None or cls.is_dataclass:
            names = [field for field, _ in self.fields(cls)] if not library else []
            for name, value in zip(names, record.arguments, strict=False):
                self.set_slot(made, name, Slot(value, How.POSITIONAL, record.node))
            for name, slot in record.keywords.items():
                self.set_slot(made, name, slot)
        init = self.class_slot(cls, "__init__")
        if init is not None and isinstance(init.value, Function) and self.can_follow(init.value):
            function = init.value
            # Its own constructor decides what becomes of the keywords.
            made.open = record.open_keywords = record.open_keywords or library is not None
            self.call_function(
                Function(function.node, function.scope, made, function.owner), record
            )
        return made

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

    def set_fields(self, cls: Class, made: Object, origin: Origin = Origin.FIELD) -> None:
        """Give an instance the defaults of its class's fields."""
        for name, statement in self.fields(cls):
            if statement.value is None:
                self.set_slot(made, name, Slot(UNKNOWN, How.FIELD, statement))
                continue
            value = self.values.get(statement.value, UNKNOWN)
            if isinstance(value, Object) and value.made_by is not None:
                maker = value.made_by
                if maker.name.rsplit(".", 1)[-1] in ("field", "Field", "HfArg"):
                    slot = maker.keywords.get("default")
                    value = slot.value if slot is not None else UNKNOWN
            if isinstance(value, Constant):
                value = Constant(value.value, value.node, origin)
            elif isinstance(value, Symbol):
                value = Symbol(value.name, value.node, origin)
            self.set_slot(made, name, Slot(value, How.FIELD, statement))

    def can_follow(self, function: Function) -> bool:
        return (
            self.depth < MAX_CALL_DEPTH
            and self.steps < MAX_STATEMENTS
            and function.node not in self.active
            and self.runs.get(function.node, 0) < MAX_RUNS_OF_ONE_FUNCTION
        )

    def call_function(self, function: Function, record: Record | None) -> Value:
        """Run a function of the script, with a call's arguments or (None) with unknown ones."""
        node = function.node
        self.runs[node] = self.runs.get(node, 0) + 1
        saved = (self.scope, self.returns, self.contexts, self.function, self.branches, self.loops)
        self.scope = self.new_scope(function.scope)
        self.returns = []
        self.function = node
        self.depth += 1
        self.active.add(node)
        if record is None:
            self.branches = self.loops = 0
            self.contexts = ()
        start = len(self.defined)
        self._bind_parameters(function, record)
        dead = self.state.dead
        self.state.dead = False
        if isinstance(node, ast.Lambda):
            self.returns.append(self.eval(node.body))
        else:
            for decorator in node.decorator_list:
                name = self.name_of(decorator)
                if name:
                    self.contexts = (*self.contexts, name)
            self.block(node.body)
            if not self.state.dead:
                self.returns.append(Constant(None))
            if node in self.generators:
                self.returns = [UNKNOWN]
        self.state.dead = dead
        self._run_uncalled(start)
        value = merge(self.returns)
        self.active.discard(node)
        self.depth -= 1
        self.scope, self.returns, self.contexts, self.function, self.branches, self.loops = saved
        return value

    def _bind_parameters(self, function: Function, record: Record | None) -> None:
        arguments = function.node.args
        parameters = [*arguments.posonlyargs, *arguments.args]
        given: list[Value] = list(record.arguments) if record else []
        keywords = dict(record.keywords) if record else {}
        is_method = function.owner is not None and not _is_static(function.node)
        if is_method and parameters:
            bound = function.bound
            if bound is None and function.owner is not None:
                bound = self.selves.get(function.owner.node)
                if bound is None:
                    bound = self.new_object(type=library_base(function.owner), cls=function.owner)
                    bound.open = True
                    self.selves[function.owner.node] = bound
            if _is_classmethod(function.node):
                bound = function.owner or bound
            if bound is not None:
                given.insert(0, bound)
        defaults = _defaults(arguments)
        for index, parameter in enumerate([*parameters, *arguments.kwonlyargs]):
            positional = index < len(parameters)
            if positional and index < len(given):
                value = given[index]
            elif parameter.arg in keywords:
                value = keywords.pop(parameter.arg).value
            elif record is None or record.open_arguments or record.open_keywords:
                value = self._parameter_default(function, parameter.arg, defaults, record)
            else:
                default = defaults.get(parameter.arg)
                value = self.values.get(default, UNKNOWN) if default is not None else UNKNOWN
                if isinstance(value, Constant):
                    value = Constant(value.value, value.node, Origin.PARAMETER)
            self.bind(parameter.arg, value)
        if arguments.vararg:
            self.bind(arguments.vararg.arg, UNKNOWN)
        if arguments.kwarg:
            rest = self.new_dict(None)
            for name, slot in keywords.items():
                self.set_slot(rest, name, slot)
            rest.open = record is None or record.open_keywords
            self.bind(arguments.kwarg.arg, rest)

    def _parameter_default(
        self,
        function: Function,
        name: str,
        defaults: dict[str, ast.expr],
        record: Record | None,
    ) -> Value:
        """What a parameter is when the call is not seen: a command line's default, or unknown."""
        if record is not None:
            return UNKNOWN
        default = defaults.get(name)
        value = self.values.get(default, UNKNOWN) if default is not None else None
        return command_line_default(function, name, value)

    # -- what handlers use -----------------------------------------------------------------------

    def argument(self, record: Record, index: int, name: str) -> Slot | None:
        """An argument of a call, by position or keyword."""
        if name in record.keywords:
            return record.keywords[name]
        if index < len(record.arguments):
            return Slot(record.arguments[index], How.POSITIONAL, record.node)
        return None


def library_base(cls: Class) -> str | None:
    """The qualified name of the library class that a class of the script derives from."""
    for base in cls.bases:
        for one in options(base):
            if isinstance(one, Symbol) and "." in one.name and not one.name.startswith("."):
                return one.name
            if isinstance(one, Class):
                found = library_base(one)
                if found is not None:
                    return found
    return None


def command_line_default(function: Function, name: str, default: Value | None) -> Value:
    """The default of a parameter that a command line (click, typer, fire) fills in."""
    for made in function.options:
        if made.name.rsplit(".", 1)[-1] != "option":
            continue
        names = [
            one.value.lstrip("-").replace("-", "_")
            for one in made.arguments
            if isinstance(one, Constant) and isinstance(one.value, str)
        ]
        names = [part for one in names for part in one.split("/")]
        if name in names:
            slot = made.keywords.get("default")
            if slot is not None and isinstance(slot.value, Constant):
                return Constant(slot.value.value, slot.value.node, Origin.CLICK)
            flag = made.keywords.get("is_flag")
            if slot is None and flag is not None and truth(flag.value):
                return Constant(False, None, Origin.CLICK)
            return UNKNOWN
    if any(made.name.rsplit(".", 1)[-1] == "command" for made in function.options):
        if isinstance(default, Constant):
            return Constant(default.value, default.node, Origin.CLICK)
        if isinstance(default, Object) and default.made_by is not None:
            maker = default.made_by
            if maker.name in ("typer.Option", "typer.Argument") and maker.arguments:
                first = maker.arguments[0]
                if isinstance(first, Constant) and first.value is not ...:
                    return Constant(first.value, first.node, Origin.CLICK)
    return UNKNOWN


def _outside(left: Origin, right: Origin) -> Origin:
    return left if left != Origin.LITERAL else right


def _is_something(value: Value) -> bool:
    """Whether a value is certainly not None."""
    if isinstance(value, Object):
        return value.type is not None
    return isinstance(value, Function | Class | Sequence)


def _defaults(arguments: ast.arguments) -> dict[str, ast.expr]:
    """Parameter name -> default expression."""
    parameters = [*arguments.posonlyargs, *arguments.args]
    found = dict(
        zip(
            [
                parameter.arg
                for parameter in parameters[len(parameters) - len(arguments.defaults) :]
            ],
            arguments.defaults,
            strict=True,
        )
    )
    for parameter, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        if default is not None:
            found[parameter.arg] = default
    return found


def _stored_names(statements: list[ast.stmt]) -> set[str]:
    return {
        node.id
        for statement in statements
        for node in ast.walk(statement)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }


def _is_main_guard(test: ast.expr) -> bool:
    return (
        isinstance(test, ast.Compare)
        and isinstance(test.left, ast.Name)
        and test.left.id == "__name__"
    )


def _is_type_checking(test: ast.expr) -> bool:
    name = test.attr if isinstance(test, ast.Attribute) else getattr(test, "id", "")
    return name == "TYPE_CHECKING"


def _is_static(node: ast.AST) -> bool:
    return _has_decorator(node, "staticmethod")


def _is_classmethod(node: ast.AST) -> bool:
    return _has_decorator(node, "classmethod")


def _has_decorator(node: ast.AST, name: str) -> bool:
    return any(
        isinstance(decorator, ast.Name) and decorator.id == name
        for decorator in getattr(node, "decorator_list", ())
    )


def _function_name(function: Function) -> str:
    return getattr(function.node, "name", "<lambda>")


_STATEMENTS: dict[type[ast.stmt], Callable[[Interpreter, Any], None]] = {
    ast.Expr: Interpreter._expr_statement,
    ast.Assign: Interpreter._assign,
    ast.AnnAssign: Interpreter._ann_assign,
    ast.AugAssign: Interpreter._aug_assign,
    ast.Delete: Interpreter._delete,
    ast.Import: Interpreter._import,
    ast.ImportFrom: Interpreter._import_from,
    ast.If: Interpreter._if,
    ast.For: Interpreter._loop,
    ast.AsyncFor: Interpreter._loop,
    ast.While: Interpreter._loop,
    ast.With: Interpreter._with,
    ast.AsyncWith: Interpreter._with,
    ast.Try: Interpreter._try,
    ast.TryStar: Interpreter._try,
    ast.Match: Interpreter._match,
    ast.FunctionDef: Interpreter._define_function,
    ast.AsyncFunctionDef: Interpreter._define_function,
    ast.ClassDef: Interpreter._define_class,
    ast.Return: Interpreter._return,
    ast.Raise: Interpreter._stop,
    ast.Break: Interpreter._stop,
    ast.Continue: Interpreter._stop,
    ast.Global: Interpreter._global,
    ast.Nonlocal: Interpreter._nonlocal,
    ast.Assert: Interpreter._assert,
}

_EXPRESSIONS: dict[type[ast.expr], Callable[[Interpreter, Any], Value]] = {
    ast.Constant: Interpreter._constant,
    ast.Name: Interpreter._name,
    ast.Attribute: Interpreter._attribute,
    ast.Subscript: Interpreter._subscript,
    ast.List: Interpreter._sequence,
    ast.Tuple: Interpreter._sequence,
    ast.Set: Interpreter._sequence,
    ast.Dict: Interpreter._dict,
    ast.IfExp: Interpreter._if_exp,
    ast.BoolOp: Interpreter._bool_op,
    ast.UnaryOp: Interpreter._unary,
    ast.BinOp: Interpreter._bin_op,
    ast.Compare: Interpreter._compare,
    ast.JoinedStr: Interpreter._joined,
    ast.Lambda: Interpreter._lambda,
    ast.ListComp: Interpreter._comprehension,
    ast.SetComp: Interpreter._comprehension,
    ast.GeneratorExp: Interpreter._comprehension,
    ast.DictComp: Interpreter._comprehension,
    ast.NamedExpr: Interpreter._named,
    ast.Await: Interpreter._await,
    ast.Yield: Interpreter._yield,
    ast.YieldFrom: Interpreter._yield,
    ast.Call: Interpreter._call,
}
