"""Calls: recording them, running the script's own functions, making instances.

A run stops following calls at its bounds, never the script.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from memlint.script import modes, tensors
from memlint.script.forwards import (
    forward,
    is_module,
    module_of,
    one_of_modules,
    own_forward,
)
from memlint.script.invocations import Record
from memlint.script.tensors import Output
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
    options,
    truth,
)

if TYPE_CHECKING:
    from memlint.script.interpreter import Interpreter


MAX_CALL_DEPTH = 8
MAX_STATEMENTS = 30_000
MAX_RUNS_OF_ONE_FUNCTION = 6

# Class methods that make an instance of their class.
_CONSTRUCTORS = frozenset(
    {"from_pretrained", "from_config", "from_dict", "from_json_file", "from_file", "from_args"}
)


def call(run: Interpreter, node: ast.Call) -> Value:
    receiver: Value | None = None
    if isinstance(node.func, ast.Attribute):
        receiver = run.eval(node.func.value)
        if isinstance(receiver, Choice):
            callee = merge([run.attribute_of(one, node.func) for one in receiver.options])
        else:
            callee = run.attribute_of(receiver, node.func)
        before = run.values.get(node.func)
        if before is None or before is callee:
            run.values[node.func] = callee
        else:
            run.values[node.func] = merge([before, callee])
    else:
        callee = run.eval(node.func)
    run._order += 1
    record = Record(
        node,
        "",
        run._order,
        receiver=receiver,
        contexts=run.contexts,
        gradients=modes.gradients(run),
        conditional=run.branches > 0,
        in_loop=run.loops > 0,
        function=run.function,
        loops=run.loop_nest,
    )
    _arguments(run, record)
    target: Value | None = callee
    if isinstance(callee, Choice):
        # A name that is bound in one arm and None in the other is still that name when called.
        callees = [one for one in callee.options if not isinstance(one, Unknown | Constant)]
        target = callees[0] if len(callees) == 1 else (callee if not callees else None)
    if target is None:
        record.name = "?"
        if all(isinstance(one, Symbol) for one in callees):
            record.candidates = tuple(one.name for one in callees if isinstance(one, Symbol))
        _take(run, record)
        results = []
        for one in callees[:3]:
            if isinstance(one, Function) and can_follow(run, one):
                run.branches += 1
                results.append(call_function(run, one, record))
                run.branches -= 1
            else:
                results.append(UNKNOWN)
        module = one_of_modules(run, record, callees)
        if module is not None:
            return forward(run, record, *module)
        return merge([*results, UNKNOWN])
    return apply(run, target, record)


def _arguments(run: Interpreter, record: Record) -> None:
    arguments: list[Value] = []
    for argument in record.node.args:
        if isinstance(argument, ast.Starred):
            inner = run.eval(argument.value)
            if isinstance(inner, Sequence) and not inner.open:
                arguments.extend(inner.items)
            else:
                record.open_arguments = True
        else:
            arguments.append(run.eval(argument))
    record.arguments = tuple(arguments)
    splatted = None
    for keyword in record.node.keywords:
        value = run.eval(keyword.value)
        if keyword.arg is not None:
            record.keywords[keyword.arg] = Slot(value, How.KEYWORD, record.node)
            continue
        splatted = splatted or run.new_dict(None)
        run.update_dict(splatted, value)
    if splatted is not None:
        for name, slot in splatted.names.items():
            current = run.get_slot(splatted, name) or slot[-1]
            if current.value is not ABSENT:
                record.keywords.setdefault(name, current)
        record.open_keywords = splatted.open
    for value in arguments:
        _remember(run, record, value)
    for given in record.keywords.values():
        _remember(run, record, given.value)


def _remember(run: Interpreter, record: Record, value: Value) -> None:
    """Keep the slots of an argument as they are now."""
    if isinstance(value, Object):
        record.snapshots[id(value)] = run.slots(value)
    elif isinstance(value, Choice):
        for one in value.options:
            if isinstance(one, Object):
                record.snapshots[id(one)] = run.slots(one)


def _take(run: Interpreter, record: Record) -> None:
    run.records.append(record)


def apply(run: Interpreter, callee: Value, record: Record) -> Value:
    """Call ``callee``: record it, and say what comes out."""
    if isinstance(callee, Symbol):
        record.name = callee.name
        handler = run.handlers.get(callee.name)
        if run.project is not None and handler is None:
            known = run.project_value(callee.name)
            if known is not None and _is_followed(known):
                return _call_elsewhere(run, known, record)
        _take(run, record)
        if handler is not None:
            value = handler(run, record)
            if value is not None:
                return value
        if run.has_tensors:
            value = tensors.called(run, record, callee.name)
            if value is not None:
                return value
        if callee.name.endswith((".eval", ".train")):
            modes.set_training_of(run, record, callee.name)
        module = module_of(run, record, callee)
        if module is not None:
            return forward(run, record, *module)
        return made_by(run, record, callee.name)
    match callee:
        case Class():
            return _instantiate(run, callee, record)
        case Function():
            record.name = _function_name(callee)
            _take(run, record)
            if can_follow(run, callee):
                return call_function(run, callee, record)
            return _unfollowed(run, record)
        case Partial(callee=inner, made_by=made):
            record.arguments = made.arguments[1:] + record.arguments
            record.keywords = {**made.keywords, **record.keywords}
            record.open_keywords |= made.open_keywords
            record.snapshots = {**made.snapshots, **record.snapshots}
            return apply(run, inner, record)
        case Object():
            record.name = f"{callee.type or '?'}.__call__"
            record.receiver = callee
            _take(run, record)
            return _call_object(run, callee, record)
    method = record.node.func.attr if isinstance(record.node.func, ast.Attribute) else ""
    kind = record.receiver.type if isinstance(record.receiver, Object) else None
    record.name = f"{kind or '?'}.{method}" if method else "?"
    _take(run, record)
    if run.has_tensors and method:
        value = tensors.method(run, record, method)
        if value is not None:
            return value
    handler = run.handlers.get(f".{method}")
    if handler is not None:
        value = handler(run, record)
        if value is not None:
            return value
    module = module_of(run, record, callee)
    if module is not None:
        return forward(run, record, *module)
    return _unfollowed(run, record) if run.has_tensors else made_by(run, record, None)


def _is_followed(value: Value) -> bool:
    """Whether what another file of the project defines is run: what the libraries' trainers and
    configurations are derived from is known by its name alone."""
    if not isinstance(value, Class):
        return True
    library = library_base(value)
    return library is None or library.startswith(("torch.", "typing."))


def _call_elsewhere(run: Interpreter, callee: Value, record: Record) -> Value:
    """A function or a class of another file, which keeps its qualified name."""
    name = record.name
    if isinstance(callee, Class):
        made = _instantiate(run, callee, record)
        record.name, record.subclass = name, None
        return made
    _take(run, record)
    if isinstance(callee, Function) and can_follow(run, callee):
        return call_function(run, callee, record)
    return _unfollowed(run, record)


def _unfollowed(run: Interpreter, record: Record) -> Value:
    """What a function returns that is not followed: maybe something made of its tensors."""
    given = tensors.tensors_in(record) if run.has_tensors else []
    for tensor in given:
        tensors.note(run, tensor, record.name, record.node)
    if given:
        return tensors.derived(given, record.name, record.node)
    return made_by(run, record, None)


def _call_object(run: Interpreter, callee: Object, record: Record) -> Value:
    """``thing(...)``: a module's forward pass, a loss, an instance with ``__call__``."""
    if callee.cls is not None:
        for name in ("__call__", "forward"):
            slot = run.class_slot(callee.cls, name)
            if slot is not None and isinstance(slot.value, Function):
                return _call_own(run, callee, slot.value, record)
    if callee.type is not None and run.has_tensors:
        value = tensors.loss_module(run, record, callee.type)
        if value is not None:
            return value
    module = module_of(run, record, callee)
    if module is not None:
        return forward(run, record, *module)
    given = tensors.tensors_in(record) if run.has_tensors else []
    return _unfollowed(run, record) if given else UNKNOWN


def _call_own(run: Interpreter, callee: Object, function: Function, record: Record) -> Value:
    """An instance of the script's own class is called: what its method returns."""
    made = own_forward(run, record, callee) if is_module(callee) else None
    if not can_follow(run, function):
        return UNKNOWN
    bound = Function(function.node, function.scope, callee, function.owner, function.options)
    value = call_function(run, bound, record)
    if made is not None and value is UNKNOWN:
        made.output = Output(made, record)
        return made.output
    return value


def made_by(run: Interpreter, record: Record, kind: str | None) -> Object:
    """A new object that the call made; its slots are the call's keywords.

    ``kind`` is the callee's qualified name: a class, or a class's own constructor.
    """
    if kind is not None:
        head, _, last = kind.rpartition(".")
        if head and last in _CONSTRUCTORS:
            kind = head
        elif not last[:1].isupper():
            kind = None
    made = run.new_object(kind, record, node=record.node)
    for name, slot in record.keywords.items():
        run.set_slot(made, name, slot)
    made.open = record.open_keywords
    return made


def _instantiate(run: Interpreter, cls: Class, record: Record) -> Value:
    library = library_base(cls)
    record.name = library or cls.node.name
    record.subclass = cls.node
    _take(run, record)
    made = run.new_object(type=library, made_by=record, cls=cls, node=record.node)
    made.open = record.open_keywords
    run.selves[cls.node] = made
    is_tuple = library in ("typing.NamedTuple", "typing_extensions.NamedTuple")
    if cls.is_dataclass or is_tuple:
        run.set_fields(cls, made)
    if library is not None or cls.is_dataclass:
        names = [field for field, _ in run.fields(cls)] if not library or is_tuple else []
        for name, value in zip(names, record.arguments, strict=False):
            run.set_slot(made, name, Slot(value, How.POSITIONAL, record.node))
        for name, slot in record.keywords.items():
            run.set_slot(made, name, slot)
    init = run.class_slot(cls, "__init__")
    if init is not None and isinstance(init.value, Function) and can_follow(run, init.value):
        function = init.value
        # Its own constructor decides what becomes of the keywords.
        made.open = record.open_keywords = record.open_keywords or library is not None
        call_function(run, Function(function.node, function.scope, made, function.owner), record)
    return made


def can_follow(run: Interpreter, function: Function) -> bool:
    return (
        run.depth < MAX_CALL_DEPTH
        and run.steps < MAX_STATEMENTS
        and function.node not in run.active
        and run.runs.get(function.node, 0) < MAX_RUNS_OF_ONE_FUNCTION
    )


def call_function(run: Interpreter, function: Function, record: Record | None) -> Value:
    """Run a function of the script, with a call's arguments or (None) with unknown ones."""
    node = function.node
    # A run with unknown arguments does not use up those of callers.
    run.runs[node] = run.runs.get(node, 0) + (record is not None)
    first = run._order
    saved = (run.scope, run.returns, run.contexts, run.function, run.branches, run.loops)
    nest, called, mode = run.loop_nest, (run.called, run.guessed), modes.saved(run)
    run.guessed = record is None
    run.scope = run.new_scope(function.scope)
    run.returns = []
    run.function = node
    run.depth += 1
    run.active.add(node)
    if record is None:
        run.branches = run.loops = 0
        run.contexts = run.loop_nest = ()
        run.called = False
        if function.owner is not None:
            modes.enter_hook(run, getattr(node, "name", ""))
    start = len(run.defined)
    _bind_parameters(run, function, record)
    dead = run.state.dead
    run.state.dead = False
    if isinstance(node, ast.Lambda):
        run.returns.append(run.eval(node.body))
    else:
        for decorator in node.decorator_list:
            name = run.name_of(decorator)
            if name:
                run.contexts = (*run.contexts, name)
            modes.enter_decorator(run, name, run.values.get(decorator, UNKNOWN))
        run.block(node.body)
        if not run.state.dead:
            run.returns.append(Constant(None))
        if node in run.generators:
            run.returns = [UNKNOWN]
    run.state.dead = dead
    run._run_uncalled(start)
    value = merge(run.returns)
    run.extents.setdefault(node, []).append((first, run._order))
    run.active.discard(node)
    run.depth -= 1
    run.scope, run.returns, run.contexts, run.function, run.branches, run.loops = saved
    run.loop_nest = nest
    run.called, run.guessed = called
    if record is None or getattr(node, "decorator_list", None):
        modes.restore(run, mode)
    return value


def _bind_parameters(run: Interpreter, function: Function, record: Record | None) -> None:
    arguments = function.node.args
    parameters = [*arguments.posonlyargs, *arguments.args]
    given: list[Value] = list(record.arguments) if record else []
    keywords = dict(record.keywords) if record else {}
    is_method = function.owner is not None and not _is_static(function.node)
    if is_method and parameters:
        bound = function.bound
        if bound is None and function.owner is not None:
            bound = run.selves.get(function.owner.node)
            if bound is None:
                bound = run.new_object(type=library_base(function.owner), cls=function.owner)
                bound.open = True
                run.selves[function.owner.node] = bound
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
            value = _parameter_default(run, function, parameter.arg, defaults, record)
        elif any(
            made.name.rpartition(".")[2] in ("option", "command") for made in function.options
        ):
            # ``main()`` of a click command: the command line gives the arguments.
            value = _parameter_default(run, function, parameter.arg, defaults, None)
        else:
            default = defaults.get(parameter.arg)
            value = run.values.get(default, UNKNOWN) if default is not None else UNKNOWN
            if isinstance(value, Constant):
                value = Constant(value.value, value.node, Origin.PARAMETER)
        if "logits" in parameter.arg:
            graph = modes.gradients(run) if record else None
            value = tensors.parameter(run, parameter.arg, value, graph)
        run.bind(parameter.arg, value)
    if arguments.vararg:
        run.bind(arguments.vararg.arg, UNKNOWN)
    if arguments.kwarg:
        rest = run.new_dict(None)
        for name, slot in keywords.items():
            run.set_slot(rest, name, slot)
        rest.open = record is None or record.open_keywords
        run.bind(arguments.kwarg.arg, rest)


def _parameter_default(
    run: Interpreter,
    function: Function,
    name: str,
    defaults: dict[str, ast.expr],
    record: Record | None,
) -> Value:
    """What a parameter is when the call is not seen: a command line's default, or unknown."""
    if record is not None:
        return UNKNOWN
    default = defaults.get(name)
    value = run.values.get(default, UNKNOWN) if default is not None else None
    return command_line_default(function, name, value)


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
