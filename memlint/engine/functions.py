"""Calls: recording them, running the script's own functions, making instances."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from memlint.engine import modes, operations
from memlint.engine.arguments import bind_parameters, evaluate_arguments
from memlint.engine.binding import set_bindings
from memlint.engine.definitions import keywords_kept
from memlint.engine.forwards import (
    PRODUCTS,
    forward,
    is_module,
    logits_of_head,
    logits_of_weights,
    module_of,
    one_of_modules,
    own_forward,
)
from memlint.engine.frames import frame_of, return_to
from memlint.engine.imported import project_value
from memlint.engine.project import is_elsewhere
from memlint.engine.setters import forget_what_others_set
from memlint.engine.tensors import Output, derived, note, tensors_in
from memlint.engine.uncalled import GET_MODEL, TRAINING_HOOKS
from memlint.engine.values import (
    MODELS_OF_DATA,
    SETTINGS,
    UNKNOWN,
    Absent,
    Binding,
    Class,
    Constant,
    Function,
    FunctionNode,
    How,
    Invocation,
    Object,
    OneOf,
    Partial,
    Provenance,
    Symbol,
    Unknown,
    Value,
    library_base,
    merge,
    merge_bindings,
    options,
)

if TYPE_CHECKING:
    from memlint.engine.interpreter import Interpreter


MAX_CALL_DEPTH = 8
MAX_STATEMENTS = 30_000
MAX_RUNS_OF_ONE_FUNCTION = 6
MORE_RUNS = 2  # for each script after the first that leads to a file

# Class methods that make an instance of their class.
_CONSTRUCTORS = frozenset(
    {
        *("from_pretrained", "from_config", "from_dict", "from_json_file", "from_file"),
        *("from_args", "from_argparse_args"),
    }
)


def call(run: Interpreter, node: ast.Call) -> Value:
    callee, receiver = _callee(run, node.func)
    run._order += 1
    # By place: half of the time that keywords take.
    where = (run.branches > 0, run.loops > 0, run.function, run.loop_nest)
    mode = modes.gradients(run)
    invocation = Invocation(node, "", run._order, receiver, run.contexts, mode, *where)
    evaluate_arguments(run, invocation)
    if not isinstance(callee, OneOf):
        return apply(run, callee, invocation)
    # A name that is bound in one arm and None, or not, in the other is that name when called.
    callees = [one for one in callee.options if not isinstance(one, Unknown | Constant | Absent)]
    if len(callees) > 1:
        callees = _imported_twice(run, callees)
    if len(callees) > 1:
        return _call_one_of(run, callees, invocation)
    return apply(run, callees[0] if callees else callee, invocation)


def _imported_twice(run: Interpreter, callees: list[Value]) -> list[Value]:
    """One callee where all are the same of another file, imported as the script may be started:
    ``try: import utils``, ``except ImportError: from . import utils``."""
    names = [one.name.lstrip(".").split(".")[-2:] for one in callees if isinstance(one, Symbol)]
    if run.project is None or len(names) < len(callees) or names != names[:1] * len(names):
        return callees
    there: list[Value] = [
        one for one in callees if isinstance(one, Symbol) and project_value(run, one.name)
    ]
    return there[:1] or callees


def _callee(run: Interpreter, func: ast.expr) -> tuple[Value, Value | None]:
    if not isinstance(func, ast.Attribute):
        return run.eval(func), None
    receiver = run.eval(func.value)
    inherited = _inherited(run, func)
    if inherited is not None:
        return inherited, inherited.bound
    if isinstance(receiver, OneOf):
        callee = merge([run.attribute_of(one, func) for one in receiver.options])
    else:
        callee = run.attribute_of(receiver, func)
    before = run.values.get(func, callee)
    run.values[func] = callee if before is callee else merge([before, callee])
    return callee, receiver


def _inherited(run: Interpreter, func: ast.Attribute) -> Function | None:
    """The method of a base that ``super().method`` stands for, of the instance at hand."""
    method = run.method
    if method is None or method.owner is None or not _is_super(run, func):
        return None
    instance = method.bound or run.selves.get(method.owner.node)
    for base in method.owner.bases:
        binding = run.class_binding(base, func.attr) if isinstance(base, Class) else None
        if binding is not None and isinstance(found := binding.value, Function):
            return Function(found.node, found.scope, instance, found.owner, found.options)
    return None


def _is_super(run: Interpreter, func: ast.expr) -> bool:
    """True for a method of ``super()``."""
    called = func.value if isinstance(func, ast.Attribute) else None
    return isinstance(called, ast.Call) and run.name_of(called) == "super"


def _call_one_of(run: Interpreter, callees: list[Value], invocation: Invocation) -> Value:
    """Call one of several things, by the path."""
    invocation.name = _shared_name(callees)
    names = [_library_name(run, one) for one in callees]
    invocation.candidates = tuple(one for one in names if one) if all(names) else ()
    run.invocations.append(invocation)
    roots = [one.root if isinstance(one, Object) else one for one in callees]
    if all(isinstance(one, Object) and one.cls and is_module(one) for one in roots):
        return _call_own_modules(run, callees, invocation)
    results = [_followed(run, one, invocation) for one in callees[:3]]
    module = one_of_modules(run, invocation, callees)
    if module is not None:
        return forward(run, invocation, *module)
    return merge([*results, UNKNOWN])


def _shared_name(callees: list[Value]) -> str:
    """The name of a method of several instances, as a call of one's has it; else a mark."""
    names = {
        getattr(one.node, "name", "?") if isinstance(one, Function) else "?" for one in callees
    }
    return names.pop() if len(names) == 1 else "?"


def _followed(run: Interpreter, callee: Value, invocation: Invocation) -> Value:
    """What one of several functions returns, of this file or of another."""
    if isinstance(callee, Symbol) and run.project is not None:
        callee = project_value(run, callee.name) or callee
    if not isinstance(callee, Function) or not can_follow(run, callee):
        return UNKNOWN
    run.branches += 1
    value = call_function(run, callee, invocation)
    run.branches -= 1
    return value


def _library_name(run: Interpreter, callee: Value) -> str | None:
    """What of a library is called; of a class without a constructor of its own, its base."""
    if isinstance(callee, Class) and run.class_binding(callee, "__init__") is None:
        return library_base(callee)
    return callee.name if isinstance(callee, Symbol) else None


def _call_own_modules(run: Interpreter, callees: list[Value], invocation: Invocation) -> Value:
    """Call one of several modules of the script's own, or one that is wrapped on some paths alone:
    ``model = DDP(model)`` under ``if ddp``. Of several of one class, the first whose vocabulary is
    known stands for all, of this file first: one that is made of a checkpoint's settings is like
    the others."""
    by_class: dict[ast.AST, dict[int, Object]] = {}
    for one in callees:
        if isinstance(one, Object) and one.root.cls is not None:
            by_class.setdefault(one.root.cls.node, {}).setdefault(id(one.root), one)
    results: list[Value] = []
    run.branches += 1
    for alike in by_class.values():
        start = len(run.forwards)
        for one in sorted(alike.values(), key=lambda one: is_elsewhere(one.root.node)):
            del run.forwards[start:]
            value = _call_object(run, one, invocation)
            if any(each.words for each in run.forwards[start:]):
                break
        results.append(value)
    run.branches -= 1
    return merge(results)


def apply(run: Interpreter, callee: Value, invocation: Invocation) -> Value:
    """Call ``callee``: record it, and say what comes out."""
    match callee:
        case Symbol():
            return _call_symbol(run, callee, invocation)
        case Class():
            return _instantiate(run, callee, invocation)
        case Function():
            invocation.name = getattr(callee.node, "name", "<lambda>")
            run.invocations.append(invocation)
            return _call_followed(run, callee, invocation)
        case Partial(callee=inner, made_by=made):
            invocation.arguments = made.arguments[1:] + invocation.arguments
            invocation.keywords = {**made.keywords, **invocation.keywords}
            invocation.open_keywords |= made.open_keywords
            invocation.snapshots = {**made.snapshots, **invocation.snapshots}
            invocation.is_partial = True
            return apply(run, inner, invocation)
        case Object():
            invocation.name = f"{callee.type or '?'}.__call__"
            invocation.receiver = callee
            run.invocations.append(invocation)
            return _call_object(run, callee, invocation)
    return _call_unknown(run, callee, invocation)


def _call_symbol(run: Interpreter, callee: Symbol, invocation: Invocation) -> Value:
    """Call something of a library, or of another file of the project."""
    invocation.name = callee.name
    effect = run.effects.get(callee.name)
    if run.project is not None and effect is None:
        known = project_value(run, callee.name)
        if known is not None and _is_followed(known):
            return _call_elsewhere(run, known, invocation)
        if isinstance(known, Class):
            _run_loss_elsewhere(run, known)
    run.invocations.append(invocation)
    value = effect(run, invocation) if effect is not None else None
    if value is None and run.own_passes and callee.name in PRODUCTS:
        value = logits_of_weights(run, invocation.node)
    if value is None and run.has_tensors:
        value = operations.called(run, invocation, callee.name)
    if value is not None:
        return value
    if callee.name.endswith((".eval", ".train")):
        modes.set_training_of(run, invocation, callee.name)
    return _run_forward(run, callee, invocation) or made_by(run, invocation, callee.name)


def _call_unknown(run: Interpreter, callee: Value, invocation: Invocation) -> Value:
    """Call something that is not followed: nearly always a method of what a library made."""
    func, receiver = invocation.node.func, invocation.receiver
    method = func.attr if isinstance(func, ast.Attribute) else ""
    # What a script binds as an attribute is none of a library's methods.
    kind = None
    if isinstance(receiver, Object) and not (receiver.cls and method in receiver.names):
        kind = receiver.type
    invocation.name = f"{kind or '?'}.{method}" if method else "?"
    run.invocations.append(invocation)
    if method == "__init__" and run.method is not None:
        _note_constructor(run, run.method, invocation)
    value = operations.method(run, invocation, method) if run.has_tensors and method else None
    if value is None:
        effect = run.effects.get(f".{method}")
        value = effect(run, invocation) if effect is not None else None
    if value is not None:
        return value
    return _run_forward(run, callee, invocation) or _unfollowed(run, invocation)


def _run_forward(run: Interpreter, callee: Value, invocation: Invocation) -> Output | None:
    """What a module's forward pass returns; None where the call is of no module."""
    module = module_of(run, invocation, callee)
    return forward(run, invocation, *module) if module is not None else None


# Whose classes the script's own may be derived from and are run all the same.
_FOLLOWED = ("torch.", "typing.", "lightning.", "pytorch_lightning.")


def _is_followed(value: Value) -> bool:
    """True if what another file of the project defines is run: what the libraries' trainers and
    configurations are derived from is known by its name alone."""
    if not isinstance(value, Class):
        return True
    library = library_base(value)
    if library is None or library.startswith(_FOLLOWED):
        return True
    return library.startswith("transformers.") and library.endswith("PreTrainedModel")


def _run_loss_elsewhere(run: Interpreter, trainer: Class) -> None:
    """Run the loss that a trainer of another file computes, as its library does in every step."""
    binding = run.class_binding(trainer, "compute_loss")
    method = binding.value if binding is not None else None
    if not isinstance(method, Function) or method.node in run.runs or not can_follow(run, method):
        return
    if is_elsewhere(method.node) and library_base(trainer) is not None:
        call_function(run, method, None)


def _call_elsewhere(run: Interpreter, callee: Value, invocation: Invocation) -> Value:
    """A function or a class of another file, which keeps its qualified name."""
    name = invocation.name
    if isinstance(callee, Class):
        made = _instantiate(run, callee, invocation)
        invocation.name, invocation.subclass = name, None
        return made
    run.invocations.append(invocation)
    return _call_followed(run, callee, invocation)


def _call_followed(run: Interpreter, callee: Value, invocation: Invocation) -> Value:
    """What a function of the project returns, which is run if the bounds let it."""
    if isinstance(callee, Function) and can_follow(run, callee):
        return call_function(run, callee, invocation)
    return _unfollowed(run, invocation)


def _unfollowed(run: Interpreter, invocation: Invocation) -> Value:
    """What a function returns that is not followed: maybe something made of its tensors."""
    given = tensors_in(invocation) if run.has_tensors else []
    for tensor in given:
        note(run, tensor, invocation.name, invocation.node)
    if given:
        return derived(given, invocation.name, invocation.node)
    return made_by(run, invocation, None)


def _call_object(run: Interpreter, callee: Object, invocation: Invocation) -> Value:
    """``thing(...)``: a module's forward pass, a loss, an instance with ``__call__``."""
    logits = logits_of_head(run, invocation, callee)
    if logits is not None:
        return logits
    # ``torch.compile(model)`` runs what it wraps.
    own = callee if callee.cls is not None else callee.root
    for name in ("__call__", "forward") if own.cls is not None else ():
        assert own.cls is not None
        binding = run.class_binding(own.cls, name)
        if binding is not None and isinstance(binding.value, Function):
            return _call_own(run, own, binding.value, invocation)
    if callee.type is not None and run.has_tensors:
        value = operations.loss_module(run, invocation, callee.type)
        if value is not None:
            return value
    output = _run_forward(run, callee, invocation)
    if output is not None:
        return output
    given = tensors_in(invocation) if run.has_tensors else []
    return _unfollowed(run, invocation) if given else UNKNOWN


def _call_own(
    run: Interpreter, callee: Object, function: Function, invocation: Invocation
) -> Value:
    """An instance of the script's own class is called: what its method returns."""
    made = own_forward(run, invocation, callee) if is_module(callee) else None
    # The passes of evaluation do not use up the runs of those that train.
    recorded = made is not None and made.gradients is not False
    if not can_follow(run, function, MAX_RUNS_OF_ONE_FUNCTION * (1 + recorded)):
        return UNKNOWN
    bound = Function(function.node, function.scope, callee, function.owner, function.options)
    run.own_passes += [made] if made is not None else []
    value = call_function(run, bound, invocation)
    if made is not None:
        run.own_passes.pop()
    if made is not None and value is UNKNOWN:
        made.output = Output(made, invocation)
        return made.output
    return value


def made_by(run: Interpreter, invocation: Invocation, kind: str | None) -> Object:
    """A new object that the call made; its bindings are the call's keywords.

    ``kind`` is the callee's qualified name: a class, or a class's own constructor.
    """
    if kind is not None:
        head, _, last = kind.rpartition(".")
        if head and last in _CONSTRUCTORS:
            kind = head
        elif not last[:1].isupper():
            kind = None
    _make_model(run, invocation)
    made = run.new_object(kind, invocation)
    for value in invocation.arguments:
        _hand_over(run, value)
    for name, binding in invocation.keywords.items():
        _hand_over(run, binding.value)
        run.set_binding(made, name, binding)
    made.open = invocation.open_keywords
    if kind == "torch.nn.ModuleDict":
        for parts in invocation.arguments[:1]:
            run.update_dict(made, parts)
    tried = run.retried.get(kind or "")
    return made if tried is None else _joined(run, tried, made)


def _make_model(run: Interpreter, invocation: Invocation) -> None:
    """``Trainer(model_init=build)`` trains what the function returns."""
    keywords, build = invocation.keywords, invocation.keywords.get("model_init")
    if build is None or not isinstance(build.value, Function) or not can_follow(run, build.value):
        return
    given = [*(keywords[name].value for name in ("model",) if name in keywords)]
    if all(one == Constant(None) for one in [*given, *invocation.arguments[:1]]):
        model = call_function(run, build.value, None)
        keywords["model"] = Binding(model, How.OTHER, invocation.node)


# What a library calls of a data set or a collator.
_OF_ROWS = ("__getitem__", "__iter__", "__call__")


def _hand_over(run: Interpreter, value: Value) -> None:
    """Note a function that a library may call, and run what it calls of another file."""
    if isinstance(value, Symbol) and run.project is not None:
        value = project_value(run, value.name) or value
    functions: list[Value] = [value]
    if isinstance(value, Function):
        run.handed_over.add(value.node)
    elif isinstance(value, Object) and value.root.cls is not None:
        functions = [run.attribute(value, name) for name in _OF_ROWS]
    for one in functions:
        if not isinstance(one, Function) or one.node in run.runs:
            continue
        if is_elsewhere(one.node) and can_follow(run, one):
            call_function(run, one, None)


def _joined(run: Interpreter, tried: Object, made: Object) -> Object:
    """The object that a body tried to make, or that the handler of its failure makes."""
    for name in dict.fromkeys((*tried.names, *made.names)):
        both = (run.state.get((id(each), name)) for each in (tried, made))
        run.set_binding(tried, name, merge_bindings(both))
    tried.open |= made.open
    return tried


def _instantiate(run: Interpreter, cls: Class, invocation: Invocation) -> Value:
    library = library_base(cls)
    invocation.name = library or cls.node.name
    invocation.subclass = cls.node
    _make_model(run, invocation)
    run.invocations.append(invocation)
    made = run.new_object(type=library, made_by=invocation, cls=cls)
    made.open = invocation.open_keywords
    run.selves[cls.node] = made
    is_tuple = library in ("typing.NamedTuple", "typing_extensions.NamedTuple")
    if cls.is_dataclass or is_tuple:
        # ``**settings``, or the environment, decides over the defaults.
        outside = invocation.open_keywords or library in SETTINGS
        run.set_fields(cls, made, Provenance.PARSED_FIELD if outside else Provenance.FIELD)
    if library is not None or cls.is_dataclass:
        names = [field for field, _ in run.fields(cls)] if not library or is_tuple else []
        for name, value in zip(names, invocation.arguments, strict=False):
            run.set_binding(made, name, Binding(value, How.POSITIONAL, invocation.node))
        set_bindings(run, made, invocation.keywords)
    if _is_model(cls):
        _open_parts(run, cls, made, invocation)
    _construct(run, made, cls, invocation)
    if cls.is_dataclass and not library:
        finish(run, made, invocation)
    _run_loss_elsewhere(run, cls)
    return made


def _construct(run: Interpreter, made: Object, cls: Class, invocation: Invocation) -> None:
    """Run a class's own constructor, which decides what becomes of the keywords. Nothing is known
    of them where it was called too often or too deep, or is one of several."""
    init = run.attribute(made, "__init__")
    if isinstance(init, Function) and can_follow(run, init):
        made.open = invocation.open_keywords or _hides_keywords(cls, made.type)
        call_function(run, init, invocation)
        invocation.open_keywords = made.open
    elif run.class_binding(cls, "__init__") is not None:
        made.open = invocation.open_keywords = True
    if not isinstance(init, Function):
        _note_model(run, cls, invocation)


def _hides_keywords(cls: Class, library: str | None) -> bool:
    """True if its constructor may give its library's other keywords than it gets."""
    if library is None:
        return False
    return not isinstance(cls.bases[0], Symbol) or keywords_kept(cls.node) is None


def _is_model(cls: Class) -> bool:
    """True if pydantic fills the fields of a class: mappings become instances of their classes."""
    bases = [one for base in cls.bases for one in options(base)]
    return any(
        one.name in MODELS_OF_DATA if isinstance(one, Symbol) else _is_model(one)
        for one in bases
        if isinstance(one, Symbol | Class)
    )


def _open_parts(run: Interpreter, cls: Class, made: Object, invocation: Invocation) -> None:
    outer, run.scope = run.scope, run.parents[cls.scope] or 0
    kinds = {name: run.eval(field.annotation) for name, field in run.fields(cls)}
    run.scope = outer
    for name, kind in kinds.items():
        binding = run.get_binding(made, name)
        given = binding.value if binding is not None else None
        if isinstance(kind, Class) and isinstance(given, Object) and given.type == "dict":
            inner = _bare_call(run, invocation)
            inner.keywords = dict(run.bindings(given))
            run.set_binding(made, name, Binding(_instantiate(run, kind, inner), How.FILE))


def finish(run: Interpreter, made: Object, invocation: Invocation) -> None:
    """Run the ``__post_init__`` of a dataclass."""
    after = run.attribute(made, "__post_init__")
    if isinstance(after, Function) and can_follow(run, after):
        call_function(run, after, _bare_call(run, invocation))


def _bare_call(run: Interpreter, invocation: Invocation) -> Invocation:
    call = ast.copy_location(ast.Call(invocation.node.func, [], []), invocation.node)
    return Invocation(call, "", run._order)


def _note_constructor(run: Interpreter, own: Function, invocation: Invocation) -> None:
    """Note whose constructor one of the script's own calls, and the model that it gets."""
    if isinstance(own.bound, Object) and own.bound.cls is not None:
        _note_model(run, own.bound.cls, invocation)
    bases = (
        own.owner.bases if own.owner is not None and _is_super(run, invocation.node.func) else ()
    )
    match bases:
        case [Symbol(name=base), *_]:
            invocation.name = f"{base}.__init__"


def _note_model(run: Interpreter, cls: Class, invocation: Invocation) -> None:
    """Note the model that a library's trainer gets, from the constructor of a class or as its."""
    given = run.argument(invocation, 0, "model")
    family = [cls]
    for one in family:  # grows meanwhile
        run.models_given.setdefault(one.node, []).append(given.value if given else UNKNOWN)
        family += [base for base in one.bases if isinstance(base, Class)]


def _bind_model(run: Interpreter, owner: Class, parameters: list[ast.arg]) -> None:
    """Bind what is the model in a method of a trainer: a parameter, and ``self.model``."""
    models = run.models_given.get(owner.node)
    if parameters and models:
        run.bind(parameters[0].arg, merge(models))
        run.set_binding(run.selves[owner.node], "model", Binding(merge(models)))


def _hook_of_trainer(function: Function) -> str:
    """The name of a method that a library's trainer may call; empty for what is none."""
    owner = library_base(function.owner) if function.owner is not None else None
    return getattr(function.node, "name", "") if (owner or "").endswith("Trainer") else ""


def can_follow(run: Interpreter, function: Function, most: int = MAX_RUNS_OF_ONE_FUNCTION) -> bool:
    """True if a function may be run once more, after fewer runs than the most of one."""
    return (
        run.depth < MAX_CALL_DEPTH
        and run.steps < MAX_STATEMENTS
        and (function.node, function.scope) not in run.active
        and run.runs.get(function.node, 0) < most + MORE_RUNS * len(run.led_by)
    )


def call_function(run: Interpreter, function: Function, invocation: Invocation | None) -> Value:
    """Run a function of the script, with a call's arguments or (None) with unknown ones."""
    node = function.node
    # A run with unknown arguments does not use up those of callers.
    run.runs[node] = run.runs.get(node, 0) + (invocation is not None)
    first, start = run._order, len(run.defined)
    frame, mode = frame_of(run), modes.saved(run)
    run.guessed = invocation is None
    run.scope = run.new_scope(function.scope)
    run.returns = []
    run.function, run.method = node, function
    run.depth += 1
    run.active.add((node, function.scope))
    if invocation is None:
        _enter_uncalled(run, function)
    elif run.handed_over:
        forget_what_others_set(run, function, run.handed_over)
    bind_parameters(run, function, invocation)
    hook = _hook_of_trainer(function)
    if invocation is None and function.owner is not None and hook in GET_MODEL:
        _bind_model(run, function.owner, node.args.args[1:2])
    run.hook = node if hook in TRAINING_HOOKS else run.hook
    unreachable = run.state.unreachable
    run.state.unreachable = False
    _run_body(run, node)
    run.state.unreachable = unreachable
    value = merge(run.returns)
    if not isinstance(value, Function):  # which is for the caller to run
        run.run_uncalled(start)
    run.extents.setdefault(node, []).append((first, run._order))
    run.active.discard((node, function.scope))
    run.depth -= 1
    return_to(run, frame)
    if invocation is None or getattr(node, "decorator_list", None):
        modes.restore(run, mode)
    return value


def decorated(run: Interpreter, function: Function, decorators: list[Value]) -> Function:
    """What stands for a function: what the project's decorators, innermost last, make of it."""
    nodes = getattr(function.node, "decorator_list", ())
    for node, value in reversed(list(zip(nodes, decorators, strict=True))):
        decorator = project_value(run, value.name) if isinstance(value, Symbol) else value
        if isinstance(decorator, Function) and can_follow(run, decorator):
            call = Invocation(ast.copy_location(ast.Call(node, [], []), node), "", run._order)
            call.arguments = (function,)
            made = call_function(run, decorator, call)
            if isinstance(made, Function):
                run.decorators.add(node)
                function = made
    return function


def _enter_uncalled(run: Interpreter, function: Function) -> None:
    """Nothing is around a function that nobody calls, and a method may be a library's hook."""
    run.branches = run.loops = 0
    run.contexts = run.loop_nest = ()
    run.called = False
    if modes.gradients(run) is None:
        # Who runs it does so outside of the context in which it was handed over.
        modes.set_gradients(run, True)
    forget_what_others_set(run, function, _others(run, function))
    if function.owner is not None:
        name = getattr(function.node, "name", "")
        modes.enter_hook(run, name)
        if _hook_of_trainer(function) in TRAINING_HOOKS:
            # A library calls it, whoever else does.
            run.guessed = False
        if name == "training_step" and _is_of_lightning(function.owner):
            # Its trainer runs it in each step.
            run.loop_nest, run.loops = (function.node,), 1


def _others(run: Interpreter, function: Function) -> set[ast.AST] | None:
    """What may have set something else than the script says; None: all."""
    owner = function.owner
    if owner is None or not getattr(function.node, "name", "").endswith("_dataloader"):
        return None
    setup = run.class_binding(owner, "setup")
    if setup is None or not isinstance(setup.value, Function) or not _is_of_lightning(owner):
        return None
    return set(run.setters.by_function) - {setup.value.node}


def _is_of_lightning(owner: Class) -> bool:
    return (library_base(owner) or "").endswith((".LightningModule", ".LightningDataModule"))


def _run_body(run: Interpreter, node: FunctionNode) -> None:
    if isinstance(node, ast.Lambda):
        run.returns.append(run.eval(node.body))
        return
    for decorator in node.decorator_list:
        if decorator in run.decorators:
            continue
        name = run.name_of(decorator)
        if name:
            run.contexts = (*run.contexts, name)
        modes.enter_decorator(run, name, run.values.get(decorator, UNKNOWN))
    run.block(node.body)
    if not run.state.unreachable:
        run.returns.append(Constant(None))
    if node in run.generators:
        run.returns = [UNKNOWN]
