"""What operations make of tensors: one table says it for each method and function."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING

from memlint.engine.answers import any_of
from memlint.engine.subscripts import is_number
from memlint.engine.tensors import (
    FOLDS,
    Positions,
    Role,
    Tensor,
    Width,
    derived,
    note,
    tensor_from,
    tensors_in,
)
from memlint.engine.values import UNKNOWN, Constant, OneOf, Symbol, Value, merge, options

if TYPE_CHECKING:
    from memlint.engine.interpreter import Interpreter
    from memlint.engine.values import Invocation

Arguments = tuple[Value, ...]
Changes = dict[str, object]

_SAME = frozenset({"requires_grad_", "retain_grad", "cuda", "to_local"})
_VIEWS = frozenset(
    {
        *("view", "view_as", "transpose", "permute", "squeeze", "unsqueeze", "expand"),
        *("expand_as", "swapaxes", "movedim", "narrow", "unflatten", "t", "chunk", "split"),
    }
)
_MAYBE_COPIES = frozenset({"contiguous", "reshape", "flatten", "reshape_as"})
_CASTS = {
    "float": "torch.float32",
    "double": "torch.float64",
    "half": "torch.float16",
    "bfloat16": "torch.bfloat16",
}
_COPIES = frozenset(
    {
        *("clone", "cpu", "exp", "log", "neg", "mul", "div", "add", "sub", "pow", "clamp", "where"),
        *("masked_fill", "tanh", "sigmoid", "logsigmoid", "relu", "nan_to_num", "abs", "sqrt"),
        *("dropout", "sort", "cumsum", "roll", "flip", "repeat", "repeat_interleave"),
    }
)
_IN_PLACE = frozenset({"mul_", "div_", "add_", "sub_", "clamp_", "masked_fill_", "exp_", "log_"})
_REDUCTIONS = frozenset(
    {
        *("sum", "mean", "max", "min", "argmax", "argmin", "logsumexp", "norm", "prod", "any"),
        *("all", "amax", "amin", "nansum", "nanmean", "var", "std", "topk", "median"),
    }
)
_NO_GRADIENT = frozenset({"argmax", "argmin", "any", "all"})
PICKS = frozenset({"gather", "take_along_dim"})
_SOFTMAX = {"softmax": Role.PROBABILITIES, "log_softmax": Role.LOG_PROBABILITIES}
# Functions of libraries from logits and tokens to the log-probability of each token.
TOKEN_LOGPROBS = frozenset({"selective_log_softmax", "logprobs_from_logits"})
_NUMBERS = frozenset({"item", "tolist"})
# What reads no values of a tensor.
MEASURES = frozenset(
    {"shape", "size", "device", "dtype", "ndim", "dim", "numel", "requires_grad", "is_cuda"}
)
_LOSSES = frozenset(
    {
        *("cross_entropy", "nll_loss", "kl_div", "binary_cross_entropy_with_logits", "mse_loss"),
        *("binary_cross_entropy", "l1_loss", "smooth_l1_loss", "huber_loss"),
    }
)
# Modules that compute a loss, by the function that they stand for.
LOSS_MODULES = {
    "CrossEntropyLoss": "cross_entropy",
    "NLLLoss": "nll_loss",
    "KLDivLoss": "kl_div",
    "BCEWithLogitsLoss": "binary_cross_entropy_with_logits",
    "MSELoss": "mse_loss",
}
_JOINS = frozenset({"cat", "concat", "concatenate", "stack", "hstack", "vstack"})
_FUNCTION_PACKAGES = ("torch.", "torch.nn.functional.")
_LAST_DIMENSIONS = (-1, 2)


def method(run: Interpreter, invocation: Invocation, name: str) -> Value | None:
    """``tensor.float()``: what a method of a tensor returns; None for all other receivers."""
    receiver = invocation.receiver
    if isinstance(receiver, Tensor):
        return _operation(invocation, name, receiver, invocation.arguments)
    if not isinstance(receiver, OneOf):
        return None
    given = [one for one in receiver.options if isinstance(one, Tensor)]
    if not given:
        return None
    results = [_operation(invocation, name, one, invocation.arguments) for one in given]
    return merge(results if len(given) == len(receiver.options) else [*results, UNKNOWN])


def called(run: Interpreter, invocation: Invocation, name: str) -> Value | None:
    """What a library's function returns for tensors; None where it gets none.

    What an unknown function makes of a tensor is unknown, and may be computed from it.
    """
    given = tensors_in(invocation)
    if not given:
        return None
    for tensor in given:
        note(run, tensor, name, invocation.node)
    package, _, short = name.rpartition(".")
    if short in TOKEN_LOGPROBS and isinstance(first := _input(invocation, "logits"), Tensor):
        role = Role.LOG_PROBABILITIES
        return tensor_from(first, short, invocation.node, role=role, width=Width.ONE, copy=True)
    if f"{package}." in _FUNCTION_PACKAGES:
        if short in _JOINS:
            return _joined(given, short, invocation)
        first = _input(invocation)
        if isinstance(first, OneOf):
            return merge([_choice(invocation, short, one) for one in first.options])
        if isinstance(first, Tensor):
            return _operation(invocation, short, first, invocation.arguments[1:])
    if short[:1].isupper() or "." not in name:
        return None
    return derived(given, name, invocation.node)


def loss_module(run: Interpreter, invocation: Invocation, kind: str) -> Value | None:
    """``criterion(logits, labels)`` with a loss of ``torch.nn``."""
    name = LOSS_MODULES.get(kind.rpartition(".")[2])
    given = tensors_in(invocation)
    if name is None or not given:
        return None
    for tensor in given:
        note(run, tensor, name, invocation.node)
    return _operation(invocation, name, given[0], invocation.arguments[1:])


def arithmetic(run: Interpreter, left: Value, right: Value, node: ast.expr | None) -> Value | None:
    """``logits / temperature``, ``loss + penalty``; None where no tensor takes part."""
    sides = [_only(left), _only(right)]
    given = [one for one in sides if one is not None]
    if not given:
        return None
    if node is not None:
        for one in (*options(left), *options(right)):
            if isinstance(one, Tensor):
                note(run, one, "arithmetic", node)
    wide = max(given, key=lambda one: (one.as_large_as_logits, one.role is Role.LOSS))
    made = tensor_from(wide, "arithmetic", node, copy=True)
    if len(given) == 2:
        made.sources = tuple(given)
        made.graph = any_of(one.graph for one in given)
        if given[0].forward is not given[1].forward:
            made.forward = wide.forward if wide.as_large_as_logits else None
    return made


def _choice(invocation: Invocation, name: str, value: Value) -> Value:
    if isinstance(value, Tensor):
        return _operation(invocation, name, value, invocation.arguments[1:])
    return UNKNOWN


def _input(invocation: Invocation, name: str = "input") -> Value:
    if invocation.arguments:
        return invocation.arguments[0]
    binding = invocation.keywords.get(name)
    return binding.value if binding is not None else UNKNOWN


def _only(value: Value) -> Tensor | None:
    """The tensor that a value is; the first of several that stand for the same on all paths."""
    found = [one for one in options(value) if isinstance(one, Tensor)]
    kinds = {(one.role, one.width, one.positions, id(one.forward)) for one in found}
    return found[0] if len(kinds) == 1 else None


# -- the table -------------------------------------------------------------------------------------


def _operation(invocation: Invocation, name: str, tensor: Tensor, arguments: Arguments) -> Value:
    """What the operation ``name`` makes of ``tensor``. ``arguments``: those after the tensor."""
    operation = _OPERATIONS.get(name)
    if operation is None:
        return derived((tensor,), name, invocation.node)
    changes = operation(invocation, name, tensor, arguments) if callable(operation) else operation
    if isinstance(changes, Value):
        return changes
    return tensor_from(tensor, name, invocation.node, **changes)


def _laid_out(_invocation: Invocation, _name: str, tensor: Tensor, _rest: Arguments) -> Changes:
    """A copy where the memory is not laid out as wanted, which a shifted tensor's is not."""
    cut = tensor.positions not in (Positions.ALL, Positions.UNKNOWN) and tensor.copy is False
    return {"copy": True if cut else None if tensor.sources else False}


def _cast_to(tensor: Tensor, dtype: str) -> Changes:
    """A copy, but of a tensor that has that type already."""
    return {"dtype": dtype, "copy": None if tensor.dtype is None else tensor.dtype != dtype}


def _cast(invocation: Invocation, _name: str, tensor: Tensor, arguments: Arguments) -> Changes:
    values = [*arguments, *(binding.value for binding in invocation.keywords.values())]
    for value in values:
        if isinstance(value, Symbol) and value.name.startswith("torch."):
            wide = value.name == "torch.float"
            return _cast_to(tensor, "torch.float32" if wide else value.name)
    return {"dtype": None, "copy": None}


def _dimension(invocation: Invocation, arguments: tuple[Value, ...]) -> object:
    """The dimension that an operation works on: a number, None where not given, UNKNOWN."""
    binding = invocation.keywords.get("dim") or invocation.keywords.get("axis")
    value = binding.value if binding is not None else arguments[0] if arguments else None
    if value is None:
        return None
    return value.value if isinstance(value, Constant) else UNKNOWN


def _is_last(dimension: object, tensor: Tensor) -> bool | None:
    if dimension is UNKNOWN or not isinstance(dimension, int):
        return None
    return dimension in _LAST_DIMENSIONS or (dimension == 1 and _is_flat(tensor))


def _is_flat(tensor: Tensor) -> bool:
    """True if rows and positions were folded into one dimension: ``logits.view(-1, words)``."""
    folded = tensor.passes(*FOLDS)
    return folded or tensor.positions is Positions.LAST


def _softmax(invocation: Invocation, name: str, tensor: Tensor, arguments: Arguments) -> Changes:
    dtype = invocation.keywords.get("dtype")
    given = dtype.value if dtype is not None else None
    cast = given.name if isinstance(given, Symbol) else tensor.dtype
    over_words = (
        _is_last(_dimension(invocation, arguments), tensor) and tensor.width is Width.LOGITS
    )
    return {"role": _SOFTMAX[name] if over_words else Role.UNKNOWN, "copy": True, "dtype": cast}


def _logged(_invocation: Invocation, _name: str, tensor: Tensor, _rest: Arguments) -> Changes:
    """``softmax(logits).log()``: a log-softmax in two steps."""
    shares = tensor.role is Role.PROBABILITIES
    return {"role": Role.LOG_PROBABILITIES if shares else tensor.role, "copy": True}


def _picked(invocation: Invocation, _name: str, tensor: Tensor, arguments: Arguments) -> Changes:
    """``gather``: one entry a position, where the index has one column."""
    last = _is_last(_dimension(invocation, arguments), tensor)
    single = last and _has_one_column(_index(invocation))
    return {"width": Width.ONE if single else Width.UNKNOWN, "copy": True}


def _index(invocation: Invocation) -> ast.expr | None:
    """The index of a ``gather``, as it is written."""
    for keyword in invocation.node.keywords:
        if keyword.arg == "index":
            return keyword.value
    return invocation.node.args[-1] if invocation.node.args else None


def _has_one_column(index: ast.expr | None) -> bool:
    """``tokens.unsqueeze(-1)`` or ``tokens[..., None]``."""
    match index:
        case ast.Call(func=ast.Attribute(attr="unsqueeze")):
            return True
        case ast.Call(func=ast.Attribute(value=inner, attr="to" | "long" | "clone" | "int")):
            return _has_one_column(inner)
        case ast.Call(func=ast.Attribute(attr="view" | "reshape"), args=[*_, last]):
            return is_number(last)
        case ast.Subscript(slice=ast.Tuple(elts=[*_, ast.Constant(value=None)])):
            return True
    return False


def _loss(invocation: Invocation, _name: str, tensor: Tensor, _rest: Arguments) -> Changes:
    reduction = invocation.keywords.get("reduction")
    unreduced = reduction is not None and not (
        isinstance(reduction.value, Constant) and reduction.value.value in ("mean", "sum")
    )
    positions = tensor.positions if unreduced else Positions.NONE
    return {"role": Role.LOSS, "width": Width.ONE, "positions": positions, "copy": True}


def _reduced(invocation: Invocation, name: str, tensor: Tensor, arguments: Arguments) -> Changes:
    dimension = _dimension(invocation, arguments)
    width, positions = tensor.width, Positions.NONE
    if dimension is None:
        width = Width.ONE
    elif tensor.width is Width.LOGITS:
        last = _is_last(dimension, tensor)
        width = Width.ONE if last else Width.LOGITS if last is False else Width.UNKNOWN
        positions = Positions.NONE if last is False else tensor.positions
    elif tensor.width is not Width.ONE:
        positions = Positions.UNKNOWN
    return {
        "role": tensor.role if tensor.role is Role.LOSS else Role.UNKNOWN,
        "width": width,
        "positions": positions,
        "copy": True,
        "graph": False if name in _NO_GRADIENT else tensor.graph,
    }


def _joined(given: list[Tensor], name: str, invocation: Invocation) -> Tensor:
    widest = max(given, key=lambda one: one.as_large_as_logits)
    made = tensor_from(widest, name, invocation.node, copy=True)
    made.sources = tuple(given)
    made.graph = any_of(one.graph for one in given)
    if any(one.forward is not widest.forward for one in given):
        made.forward = None
    return made


# What an operation makes: a tensor with other facts, a value that is none, or what a function says.
_OPERATIONS: dict[
    str, Changes | Value | Callable[[Invocation, str, Tensor, Arguments], Changes]
] = {
    **dict.fromkeys(_NUMBERS | MEASURES, UNKNOWN),
    **dict.fromkeys(("backward", "register_hook"), Constant(None)),
    **{name: {} for name in _SAME | _VIEWS | _IN_PLACE},
    "detach": {"graph": False},
    "detach_": {"graph": False},
    **{name: {"copy": True} for name in _COPIES},
    "log": _logged,
    "numpy": {"copy": True, "graph": False},
    **dict.fromkeys(_CASTS, lambda _made, name, tensor, _rest: _cast_to(tensor, _CASTS[name])),
    **dict.fromkeys(("to", "type"), _cast),
    **dict.fromkeys(_MAYBE_COPIES, _laid_out),
    **dict.fromkeys(_SOFTMAX, _softmax),
    **dict.fromkeys(PICKS, _picked),
    **dict.fromkeys(_LOSSES, _loss),
    **dict.fromkeys(_REDUCTIONS, _reduced),
}
