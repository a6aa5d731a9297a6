"""Modes that the run carries: gradients on or off, autocast, training or evaluation of a module."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import TYPE_CHECKING

from memlint.engine.uncalled import EVALUATION_HOOKS
from memlint.engine.values import (
    ABSENT,
    UNKNOWN,
    Binding,
    Constant,
    Function,
    Object,
    OneOf,
    Opaque,
    Symbol,
    Unknown,
    Value,
    options,
)

if TYPE_CHECKING:
    from memlint.engine.interpreter import Interpreter
    from memlint.engine.values import Invocation

_GRADIENTS = (0, "<gradients>")
_AUTOCAST = (0, "<autocast>")
_TRAINING = "<training>"

_OFF = frozenset({"no_grad", "inference_mode", "_no_grad"})
# Context managers that leave gradients as they are. Of any other nothing is known.
_NEUTRAL = frozenset(
    {
        *("autocast", "nullcontext", "open", "tqdm", "trange", "record_function", "profile"),
        *("Progress", "accumulate", "no_sync", "join", "main_process_first", "suppress", "stream"),
        *("local_main_process_first", "catch_warnings", "device", "TemporaryDirectory"),
        *("sdpa_kernel", "sdp_kernel", "start_run", "redirect_stdout", "Live", "status"),
        *("disable_adapter", "unwrap_model_for_generation", "summon_full_params", "Timer"),
        *("GatheredParameters", "ThreadPoolExecutor", "ProcessPoolExecutor", "Pool", "timer"),
        *("save_on_cpu", "saved_tensors_hooks", "offload_activations", "SummaryWriter", "init"),
        "no_backward_sync",
    }
)
_NEUTRAL_DECORATORS = frozenset(
    {
        *("staticmethod", "classmethod", "property", "compile", "wraps", "command", "option"),
        *("argument", "main", "record", "lru_cache", "cache", "cached_property", "overload"),
        *("override", "jit", "task", "flow", "profile", "fixture", "abstractmethod", "script"),
        *("find_executable_batch_size", "callback", "group", "pass_context", "typechecked"),
        *("function", "local_entrypoint", "remote"),
    }
)
# Methods that a trainer or a module's own caller runs in a mode that is not seen here.
_HOOKS_OF_CALLERS = frozenset(
    {
        *("evaluation_step", "evaluate", "predict", "prediction_loop", "on_evaluate"),
        *("forward", "__call__"),
    }
)
# What makes another module of one: its mode is its own from then on.
_COPYING = frozenset({"deepcopy", "copy", "create_reference_model"})


# -- gradients -------------------------------------------------------------------------------------


def gradients(run: Interpreter) -> bool | None:
    """True if autograd records; None where that is not known."""
    if not run.sets_gradients:
        return True
    binding = run.state.get(_GRADIENTS)
    if binding is None:
        return True
    if not isinstance(binding.value, OneOf):
        return _answer(binding.value, unset=True)
    answers = {_answer(one, unset=True) for one in options(binding.value)}
    return answers.pop() if len(answers) == 1 else None


def _answer(value: Value, *, unset: bool | None) -> bool | None:
    if value is ABSENT:
        return unset
    return value.value if isinstance(value, Constant) and isinstance(value.value, bool) else None


def set_gradients(run: Interpreter, on: bool | None) -> None:
    run.sets_gradients = True
    run.state.facts[_GRADIENTS] = Binding(UNKNOWN if on is None else Constant(on))


def enter_hook(run: Interpreter, name: str) -> None:
    """A method that a library calls in a mode that is not seen here."""
    if name in EVALUATION_HOOKS | _HOOKS_OF_CALLERS:
        set_gradients(run, None)


def in_evaluation_hook(function: ast.AST | None) -> bool:
    """True if no backward pass follows a function, as a library calls it to evaluate."""
    return isinstance(function, ast.FunctionDef) and function.name in EVALUATION_HOOKS


def is_off_around(ancestors: Iterable[ast.AST]) -> bool:
    """True if gradients are off for a node that no path reaches, by what is written around it."""
    for around in ancestors:
        if isinstance(around, ast.FunctionDef | ast.AsyncFunctionDef):
            guards = around.decorator_list
            if around.name in EVALUATION_HOOKS:
                return True
        elif isinstance(around, ast.With | ast.AsyncWith):
            guards = [item.context_expr for item in reversed(around.items)]
        else:
            continue
        for guard in guards:
            decided = _written_mode(guard)
            if decided is not None:
                return decided == "off"
    return False


def _written_mode(guard: ast.expr) -> str | None:
    """What a context or decorator does by its name and constant; None where it leaves the mode."""
    callee = guard.func if isinstance(guard, ast.Call) else guard
    name = callee.attr if isinstance(callee, ast.Attribute) else getattr(callee, "id", "")
    given = (
        [*guard.args, *(one.value for one in guard.keywords)]
        if callee is not guard and isinstance(guard, ast.Call)
        else []
    )
    flag = given[0].value if given and isinstance(given[0], ast.Constant) else None
    if name in _OFF:
        return "off" if name != "inference_mode" or not given or flag is True else "unknown"
    if name == "enable_grad":
        return "on"
    if name in ("set_grad_enabled", "_set_grad_enabled"):
        return "off" if flag is False else "on"
    return None


def autocast(run: Interpreter) -> Value:
    """The dtype of the autocast that is on (a Symbol), ABSENT where none is, UNKNOWN."""
    binding = run.state.get(_AUTOCAST)
    return ABSENT if binding is None else binding.value


def saved(run: Interpreter) -> tuple[Binding | None, Binding | None]:
    """The modes that a ``with`` restores when it is left."""
    return run.state.get(_GRADIENTS), run.state.get(_AUTOCAST)


def restore(run: Interpreter, before: tuple[Binding | None, Binding | None]) -> None:
    for key, binding in zip((_GRADIENTS, _AUTOCAST), before, strict=True):
        if binding is not None:
            run.state.facts[key] = binding
        elif run.state.get(key) is not None:
            run.state.facts[key] = Binding(ABSENT)


def enter(run: Interpreter, name: str | None, value: Value) -> None:
    """``with value:``, where ``name`` is what made the manager as far as one thing did."""
    if name is None and isinstance(value, OneOf):
        makers = {maker(one) for one in value.options}
        modes = {_mode(run, maker, None) for maker in makers}
        if any("autocast" in (one or "") for one in makers):
            run.state.facts[_AUTOCAST] = Binding(UNKNOWN)
        if None in makers or len(modes) != 1 or modes == {"unknown"}:
            _lose(run)
        return
    made = value.made_by if isinstance(value, Object) else None
    _apply(run, name, made)


def enter_decorator(run: Interpreter, name: str | None, value: Value) -> None:
    """A decorator around the function that is run now."""
    short = (name or "").rpartition(".")[2]
    if short in _NEUTRAL_DECORATORS:
        return
    made = value.made_by if isinstance(value, Object) else None
    _apply(run, name, made)


def maker(value: Value) -> str | None:
    made_by = value.made_by if isinstance(value, Object) else None
    return made_by.name if made_by is not None else None


def _mode(run: Interpreter, name: str | None, made: Invocation | None) -> str:
    """What a context does to gradients: ``off``, ``on``, ``neutral`` or ``unknown``."""
    short = (name or "").rpartition(".")[2]
    if short in _OFF:
        return _switched(made, "mode") if short == "inference_mode" else "off"
    if short == "enable_grad":
        return "on"
    if short in ("set_grad_enabled", "_set_grad_enabled"):
        answer = _flag(made, "mode")
        return "unknown" if answer is None else "on" if answer else "off"
    if short in _NEUTRAL or "autocast" in short:
        return "neutral"
    return "unknown"


def _switched(made: Invocation | None, name: str) -> str:
    if made is None or not (made.arguments or made.keywords):
        return "off"
    answer = _flag(made, name)
    return "unknown" if answer is None else "off" if answer else "neutral"


def _flag(made: Invocation | None, name: str) -> bool | None:
    """The one truth value that a call is given; True where it is given none."""
    if made is None:
        return None
    binding = made.keywords.get(name)
    value = binding.value if binding is not None else made.arguments[0] if made.arguments else None
    if value is None:
        return True
    return value.value if isinstance(value, Constant) and isinstance(value.value, bool) else None


def _apply(run: Interpreter, name: str | None, made: Invocation | None) -> None:
    mode = _mode(run, name, made)
    if mode == "unknown":
        _lose(run)
    elif mode != "neutral":
        set_gradients(run, mode == "on")
    if name is not None and "autocast" in name.rpartition(".")[2]:
        run.state.facts[_AUTOCAST] = Binding(_autocast_dtype(made))


def _lose(run: Interpreter) -> None:
    """An unknown context: it may turn gradients off, and will hardly turn them on."""
    if gradients(run) is True:
        set_gradients(run, None)


def _autocast_dtype(made: Invocation | None) -> Value:
    if made is None:
        return UNKNOWN
    enabled = made.keywords.get("enabled")
    if enabled is not None and not (
        isinstance(enabled.value, Constant) and enabled.value.value is True
    ):
        off = isinstance(enabled.value, Constant) and enabled.value.value is False
        return ABSENT if off else UNKNOWN
    binding = made.keywords.get("dtype")
    values = [binding.value] if binding is not None else list(made.arguments[1:2])
    for value in values:
        return value if isinstance(value, Symbol) else UNKNOWN
    on_cuda = made.name.startswith("torch.cuda") or (
        bool(made.arguments)
        and isinstance(made.arguments[0], Constant)
        and made.arguments[0].value == "cuda"
    )
    return Symbol("torch.float16") if on_cuda else UNKNOWN


# -- train and eval --------------------------------------------------------------------------------


def module_root(value: Value) -> Value:
    """The innermost module that a wrapper (PEFT, DDP, compile) shares its mode with."""
    while isinstance(value, Object) and value.base is not None:
        made = value.made_by
        if made is not None and made.name.rpartition(".")[2] in _COPYING:
            break
        value = value.base
    return value


def training(run: Interpreter, module: Value) -> bool | None:
    """True if a module was last put in training mode; None where the script does not say."""
    answers = set()
    for one in options(module):
        key = _key(module_root(one))
        binding = run.state.get(key) if key is not None else None
        found = options(binding.value) if binding is not None else ()
        answers |= {_answer(each, unset=None) for each in found} or {None}
    return answers.pop() if len(answers) == 1 else None


def _key(root: Value) -> tuple[int, str] | None:
    if isinstance(root, Symbol):
        return 0, f"{_TRAINING} {root.name}"
    return (id(root), _TRAINING) if isinstance(root, Object | Opaque) else None


def is_known_module(run: Interpreter, value: Value) -> bool:
    """True if the script sets the mode of a value, as it does for modules only."""
    root = module_root(value)
    return (root.name if isinstance(root, Symbol) else id(root)) in run.modules


def set_training_of(run: Interpreter, invocation: Invocation, name: str) -> None:
    """``model.eval()`` for a model that is imported from elsewhere."""
    head, _, method = name.rpartition(".")
    on = False if method == "eval" else flag_of(invocation)
    run.modules[head] = UNKNOWN
    run.state.facts[0, f"{_TRAINING} {head}"] = Binding(UNKNOWN if on is None else Constant(on))


def set_training(run: Interpreter, invocation: Invocation, on: bool | None) -> Value | None:
    """``model.eval()``, ``model.train(mode)``: the module's mode from here on."""
    receiver = invocation.receiver
    if receiver is None or isinstance(receiver, Symbol | Function):
        return None
    binding = Binding(UNKNOWN if on is None else Constant(on))
    found = []
    for known in _identities(run, invocation, options(receiver)):
        root = module_root(known)
        key = _key(root)
        if key is not None:
            run.state.facts[key] = binding
            run.modules[id(root)] = root
            found.append(known)
    return found[0] if len(found) == 1 and receiver is not UNKNOWN else None


def _identities(
    run: Interpreter, invocation: Invocation, values: tuple[Value, ...]
) -> tuple[Value, ...]:
    """The modules that a value may be; one new module where it may be something unknown."""
    found = tuple(one for one in values if one is not ABSENT)
    if len(found) == len(values) and all(type(one) is not Unknown for one in found):
        return values
    if any(isinstance(one, Object) for one in found):
        return found
    known = _identified(run, invocation, UNKNOWN)
    return (known,) if known is not UNKNOWN else found


def _identified(run: Interpreter, invocation: Invocation, value: Value) -> Value:
    """A module of which nothing is known gets an identity, so that its mode can be followed."""
    if type(value) is not Unknown or not isinstance(invocation.node.func, ast.Attribute):
        return value
    holder = invocation.node.func.value
    known = Opaque()
    match holder:
        case ast.Name(id=name):
            _bind(run, name, known)
        case ast.Attribute(value=inner, attr=attribute):
            owner = run.values.get(inner)
            if type(owner) is Unknown and isinstance(inner, ast.Name):
                owner = run.new_object(node=inner)
                _bind(run, inner.id, owner)
            if not isinstance(owner, Object):
                return value
            run.set_binding(owner, attribute, Binding(known))
        case _:
            return value
    return known


def _bind(run: Interpreter, name: str, value: Value) -> None:
    if run.lookup(name) is not None:
        rebind(run, name, value)
        return
    # A name that is bound nowhere: another cell or file defines it.
    run.bound[0].add(name)
    run.state.facts[0, name] = Binding(value)


def flag_of(invocation: Invocation) -> bool | None:
    """The mode that ``train(mode)`` sets."""
    return _flag(invocation, "mode")


def rebind(run: Interpreter, name: str, value: Value) -> None:
    """Give a name another value where it is bound, as changing an object in place does."""
    scope: int | None = run.global_names.get(run.scope, {}).get(name, run.scope)
    while scope is not None:
        if name in run.bound[scope]:
            binding = run.state.get((scope, name))
            if binding is not None:
                run.state.facts[scope, name] = Binding(value, binding.how, binding.owner)
                return
        scope = run.parents[scope]
