"""What a model call returns, and what the operations on it make of it.

A forward pass returns an ``Output``; its fields, and all that is computed from them, are
``Tensor`` values: what they stand for, how wide they are, which positions they cover, whether they
are copies and whether autograd records them. One table says what each operation does to that.

The interpreter makes tensors only where a field of an output is read, so that scripts without
forward passes pay nothing. A tensor counts as unknown to everything that asks for settings.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import TYPE_CHECKING

from memlint.script.values import (
    UNKNOWN,
    Choice,
    Constant,
    Object,
    Sequence,
    Symbol,
    Unknown,
    Value,
    merge,
    options,
)

if TYPE_CHECKING:
    from memlint.script.forwards import ForwardRun
    from memlint.script.interpreter import Interpreter
    from memlint.script.invocations import Record


class Role(StrEnum):
    """What a tensor stands for."""

    LOGITS = "logits"
    LOSS = "loss"
    HIDDEN_STATES = "hidden states"
    ATTENTIONS = "attention weights"
    CACHE = "keys and values"
    LOG_PROBABILITIES = "log-probabilities"
    PROBABILITIES = "probabilities"
    UNKNOWN = "unknown"


class Width(StrEnum):
    """How many numbers a position has. LOGITS: as many as the model's head gives, which are the
    words of the vocabulary for a language model and the labels for a classifier."""

    LOGITS = "as the logits"
    HIDDEN = "hidden size"
    ONE = "one"
    UNKNOWN = "unknown"


class Positions(StrEnum):
    """Which positions of the sequences a tensor covers. SHIFTED: all but one, at an end.
    SOME: a part, such as the completion's. NONE: it is reduced to a number."""

    ALL = "all"
    SHIFTED = "all but one"
    SOME = "some"
    LAST = "one"
    NONE = "none"
    UNKNOWN = "unknown"


class Tensor(Unknown):
    """A tensor computed from a forward pass.

    dtype: qualified name where an operation sets it, None where it is the model's own or unknown.
    copy: whether it has memory of its own, of about its source's size; False for a view of its
        source or its source itself; None where that depends.
    graph: whether autograd records it; None where the gradient mode is not known.
    forward: the pass that it comes from, None where no single one is known.
    sources: the tensors that it was computed from. operation: by what (``float``, ``[]``, ...).
    node: the expression that makes it.
    """

    __slots__ = (
        "copy",
        "dtype",
        "forward",
        "graph",
        "node",
        "operation",
        "positions",
        "role",
        "sources",
        "width",
    )

    def __init__(
        self,
        role: Role = Role.UNKNOWN,
        width: Width = Width.UNKNOWN,
        positions: Positions = Positions.UNKNOWN,
        *,
        dtype: str | None = None,
        copy: bool | None = None,
        graph: bool | None = None,
        forward: ForwardRun | None = None,
        sources: tuple[Tensor, ...] = (),
        operation: str = "",
        node: ast.expr | None = None,
    ) -> None:
        self.role = role
        self.width = width
        self.positions = positions
        self.dtype = dtype
        self.copy = copy
        self.graph = graph
        self.forward = forward
        self.sources = sources
        self.operation = operation
        self.node = node

    def __repr__(self) -> str:
        return f"<tensor {self.role.value}, width {self.width.value}, positions {self.positions}>"

    @property
    def as_large_as_logits(self) -> bool:
        """Whether it has the head's width at more than one position."""
        return self.width is Width.LOGITS and self.positions in (
            Positions.ALL,
            Positions.SHIFTED,
            Positions.SOME,
        )

    def history(self) -> Iterator[Tensor]:
        """The tensor and those that it was computed from, nearest first, each once."""
        pending, seen = [self], set()
        for tensor in pending:  # grows meanwhile
            if id(tensor) in seen:
                continue
            seen.add(id(tensor))
            yield tensor
            pending.extend(tensor.sources)

    def passes(self, *operations: str) -> bool:
        """Whether one of ``operations`` lies between the model and it."""
        return any(tensor.operation in operations for tensor in self.history())

    @property
    def storage(self) -> frozenset[int]:
        """The memory that it keeps alive: its own, or that of what it is a view of."""
        if self.copy or not self.sources:
            return frozenset({id(self)})
        held = frozenset().union(*(source.storage for source in self.sources))
        return held | {id(self)} if self.copy is None else held


class Output(Object):
    """What a forward pass returns: fields that are read by name, by place, or unpacked."""

    __slots__ = ("forward", "made")

    def __init__(self, forward: ForwardRun, record: Record) -> None:
        super().__init__(None, record, node=record.node)
        self.forward = forward
        self.made: dict[str, Tensor] = {}


class Use(tuple[Tensor, str, ast.expr]):
    """(tensor, operation, node): what reads a tensor, in the order of the run."""

    __slots__ = ()


# -- fields of outputs -----------------------------------------------------------------------------

# Field -> role, width, positions.
FIELDS: dict[str, tuple[Role, Width, Positions]] = {
    "logits": (Role.LOGITS, Width.LOGITS, Positions.ALL),
    "loss": (Role.LOSS, Width.ONE, Positions.NONE),
    "hidden_states": (Role.HIDDEN_STATES, Width.HIDDEN, Positions.ALL),
    "last_hidden_state": (Role.HIDDEN_STATES, Width.HIDDEN, Positions.ALL),
    "attentions": (Role.ATTENTIONS, Width.UNKNOWN, Positions.ALL),
    "past_key_values": (Role.CACHE, Width.UNKNOWN, Positions.ALL),
}


def field_of(run: Interpreter, value: Value, name: str, node: ast.expr) -> Tensor | None:
    """``output.logits``; of what is not known to be an output, as far as the name says so."""
    known = FIELDS.get(name)
    if known is None:
        return None
    if isinstance(value, Output):
        made = value.made.get(name)
        if made is None:
            made = value.made[name] = _field(run, known, name, value.forward, node)
        return made
    return _field(run, known, name, None, node)


def _field(
    run: Interpreter,
    known: tuple[Role, Width, Positions],
    name: str,
    forward: ForwardRun | None,
    node: ast.expr,
) -> Tensor:
    role, width, positions = known
    run.has_tensors = True
    graph = forward.gradients if forward is not None else None
    if role is Role.LOGITS and forward is not None:
        positions = forward.logits_kept
    return Tensor(
        role,
        width,
        positions,
        copy=True,
        graph=graph,
        forward=forward,
        operation=name,
        node=node,
    )


def element(run: Interpreter, output: Output, place: int, node: ast.expr) -> Value:
    """``output[0]``: the loss where labels are given, else the logits."""
    labels = output.forward.labels
    if place < 0 or labels is None or place > 1:
        return _unknown_field(run, output, node)
    names = ("loss", "logits") if labels else ("logits", "past_key_values")
    made = field_of(run, output, names[place], node)
    return made if made is not None else UNKNOWN


def _unknown_field(run: Interpreter, output: Output, node: ast.expr) -> Tensor:
    run.has_tensors = True
    return Tensor(
        graph=output.forward.gradients,
        forward=output.forward,
        operation="[]",
        node=node,
    )


def unpacked(run: Interpreter, output: Output, count: int, node: ast.AST) -> tuple[Value, ...]:
    """``loss, logits = model(...)``."""
    where = node.value if isinstance(node, ast.Assign) else output.node
    assert isinstance(where, ast.expr)
    return tuple(element(run, output, place, where) for place in range(count))


def item(run: Interpreter, inner: Value, key: Value, node: ast.Subscript) -> Value | None:
    """``tensor[:, :-1]``, ``output["logits"]``, ``output[:2]``; None for all other values."""
    found = [_item(run, one, key, node) for one in options(inner)]
    if all(one is None for one in found):
        return None
    return merge([one if one is not None else UNKNOWN for one in found])


def _item(run: Interpreter, value: Value, key: Value, node: ast.Subscript) -> Value | None:
    if isinstance(value, Tensor):
        note(run, value, "[]", node)
        return _indexed(value, node)
    if not isinstance(value, Output):
        return None
    if isinstance(key, Constant) and isinstance(key.value, str):
        slot = run.get_slot(value, key.value)
        if slot is not None:
            return slot.value
        return field_of(run, value, key.value, node) or UNKNOWN
    if isinstance(key, Constant) and type(key.value) is int:
        return element(run, value, key.value, node)
    match node.slice:
        case ast.Slice(lower=None, upper=ast.Constant(value=int(count)), step=None) if count > 0:
            places = range(count)
            return Sequence(tuple(element(run, value, one, node) for one in places), "tuple")
    return _unknown_field(run, value, node)


def rows_of(run: Interpreter, node: ast.expr, default: Value) -> Value:
    """What a loop over an expression binds: the rows of a tensor, or of several by ``zip``.

    default: what it binds where no tensor takes part.
    """
    match node:
        case ast.Call(func=ast.Name(id="zip"), args=given):
            rows = [rows_of(run, one, UNKNOWN) for one in given]
            known = any(isinstance(one, Tensor) for row in rows for one in options(row))
            return Sequence(tuple(rows), "tuple") if known else default
        case ast.Call(func=ast.Name(id="enumerate"), args=[first, *_]):
            row = rows_of(run, first, UNKNOWN)
            return default if row is UNKNOWN else Sequence((UNKNOWN, row), "tuple")
    found = options(run.values.get(node, UNKNOWN))
    given_tensors = [one for one in found if isinstance(one, Tensor)]
    if not given_tensors or len(given_tensors) < len(found):
        return default
    return merge([_row(one, node) for one in given_tensors])


def _row(tensor: Tensor, node: ast.expr) -> Tensor:
    layers = tensor.operation in ("hidden_states", "attentions", "past_key_values")
    return _from(tensor, "[]" if layers else _ROW, node, copy=False)


# A turn's share of a tensor: (positions, width) of (rows, positions, width).
_ROW = "row"


def parameter(run: Interpreter, name: str, value: Value, graph: bool | None) -> Value:
    """A parameter that is called logits and of which nothing else is known: it is believed."""
    positions = _NAMED_LOGITS.get(name)
    if positions is None or not isinstance(value, Unknown):
        return value
    if isinstance(value, Tensor):
        if value.role is not Role.UNKNOWN or value.width is not Width.UNKNOWN:
            return value
        return _from(
            value, "parameter", value.node,
            role=Role.LOGITS, width=Width.LOGITS, positions=positions,
        )  # fmt: skip
    run.has_tensors = True
    return Tensor(Role.LOGITS, Width.LOGITS, positions, graph=graph, operation="parameter")


_NAMED_LOGITS = {
    "logits": Positions.ALL,
    "lm_logits": Positions.ALL,
    "policy_logits": Positions.ALL,
    "all_logits": Positions.ALL,
    "shift_logits": Positions.SHIFTED,
    "shifted_logits": Positions.SHIFTED,
}


def _indexed(tensor: Tensor, node: ast.Subscript) -> Tensor:
    positions, width = positions_kept(tensor, node.slice)
    plain = all(
        isinstance(part, ast.Slice | ast.Constant | ast.UnaryOp) for part in _parts(node.slice)
    )
    role = tensor.role
    if tensor.role is Role.HIDDEN_STATES and tensor.operation == "hidden_states":
        return _from(tensor, "[]", node, positions=Positions.ALL, copy=False)
    return _from(
        tensor, "[]", node, role=role, positions=positions, width=width, copy=not plain and None
    )


def _parts(index: ast.expr) -> list[ast.expr]:
    return list(index.elts) if isinstance(index, ast.Tuple) else [index]


def positions_kept(tensor: Tensor, index: ast.expr) -> tuple[Positions, Width]:
    """What a subscript keeps of a tensor with dimensions (rows, positions, width)."""
    parts = _parts(index)
    if tensor.operation == _ROW:
        parts = [ast.Slice(), *parts]
    if any(isinstance(part, ast.Constant) and part.value is None for part in parts):
        parts = [p for p in parts if not (isinstance(p, ast.Constant) and p.value is None)]
    dots = [i for i, part in enumerate(parts) if _is_dots(part)]
    if dots:
        after = parts[dots[0] + 1 :]
        last = after[-1] if after else None
        middle = after[-2] if len(after) > 1 else None
        if tensor.width is Width.ONE:
            middle, last = last, None
    elif len(parts) <= 3:
        middle = parts[1] if len(parts) > 1 else None
        last = parts[2] if len(parts) > 2 else None
    else:
        return Positions.UNKNOWN, Width.UNKNOWN
    width = tensor.width
    if last is not None and not _is_whole(last):
        width = Width.ONE if _is_number(last) or not isinstance(last, ast.Slice) else Width.UNKNOWN
    first = parts[0] if parts and not dots else None
    if middle is None:
        if first is not None and not isinstance(first, ast.Slice) and not _is_row(first):
            return Positions.SOME, width  # a mask
        return tensor.positions, width
    return _positions(tensor.positions, middle), width


def _is_dots(part: ast.expr) -> bool:
    return isinstance(part, ast.Constant) and part.value is ...


def _is_whole(part: ast.expr) -> bool:
    return isinstance(part, ast.Slice) and part.lower is None and part.upper is None


def _is_number(part: ast.expr) -> bool:
    if isinstance(part, ast.UnaryOp):
        part = part.operand
    return isinstance(part, ast.Constant) and type(part.value) is int


def _is_row(part: ast.expr) -> bool:
    """One row of the batch, by number or by the name of a counter."""
    return _is_number(part) or (isinstance(part, ast.Name) and len(part.id) < 4)


def _positions(before: Positions, part: ast.expr) -> Positions:
    match part:
        case ast.Slice(lower=None, upper=None):
            return before
        case ast.Slice(lower=None, upper=ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=1))):
            return Positions.SHIFTED if before is Positions.ALL else before
        case ast.Slice(lower=ast.Constant(value=1), upper=None):
            return Positions.SHIFTED if before is Positions.ALL else before
        case ast.Slice():
            return Positions.SOME
        case _ if _is_number(part):
            return Positions.LAST
    return Positions.SOME if before is not Positions.NONE else before


# -- operations ------------------------------------------------------------------------------------

_SAME = frozenset({"requires_grad_", "retain_grad", "cuda", "to_local"})
_VIEWS = frozenset(
    {
        *("view", "view_as", "transpose", "permute", "squeeze", "unsqueeze", "expand"),
        *("expand_as", "swapaxes", "movedim", "narrow", "unflatten", "t", "chunk", "split"),
    }
)
# Copies where the memory is not laid out as wanted, which a shifted tensor's is not.
_MAYBE_COPIES = frozenset({"contiguous", "reshape", "flatten", "reshape_as"})
_CASTS = {
    "float": "torch.float32",
    "double": "torch.float64",
    "half": "torch.float16",
    "bfloat16": "torch.bfloat16",
}
_COPIES = frozenset(
    {
        *("clone", "exp", "log", "neg", "mul", "div", "add", "sub", "pow", "clamp", "where"),
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
_PICKS = frozenset({"gather", "take_along_dim"})
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


def method(run: Interpreter, record: Record, name: str) -> Value | None:
    """``tensor.float()``: what a method of a tensor returns; None for all other receivers."""
    receiver = record.receiver
    if isinstance(receiver, Tensor):
        return _operation(record, name, receiver, record.arguments)
    if not isinstance(receiver, Choice):
        return None
    given = [one for one in receiver.options if isinstance(one, Tensor)]
    if not given:
        return None
    results = [_operation(record, name, one, record.arguments) for one in given]
    return merge(results if len(given) == len(receiver.options) else [*results, UNKNOWN])


def called(run: Interpreter, record: Record, name: str) -> Value | None:
    """What a library's function returns for tensors; None where it gets none.

    What an unknown function makes of a tensor is unknown, and may be computed from it.
    """
    given = tensors_in(record)
    if not given:
        return None
    for tensor in given:
        note(run, tensor, name, record.node)
    package, _, short = name.rpartition(".")
    if short in TOKEN_LOGPROBS and isinstance(first := _input(record, "logits"), Tensor):
        role = Role.LOG_PROBABILITIES
        return _from(first, short, record.node, role=role, width=Width.ONE, copy=True)
    if f"{package}." in _FUNCTION_PACKAGES:
        if short in _JOINS:
            return _joined(given, short, record)
        first = _input(record)
        if isinstance(first, Choice):
            return merge([_choice(record, short, one) for one in first.options])
        if isinstance(first, Tensor):
            return _operation(record, short, first, record.arguments[1:])
    if short[:1].isupper() or "." not in name:
        return None
    return derived(given, name, record.node)


def loss_module(run: Interpreter, record: Record, kind: str) -> Value | None:
    """``criterion(logits, labels)`` with a loss of ``torch.nn``."""
    name = LOSS_MODULES.get(kind.rpartition(".")[2])
    given = tensors_in(record)
    if name is None or not given:
        return None
    for tensor in given:
        note(run, tensor, name, record.node)
    return _operation(record, name, given[0], record.arguments[1:])


def derived(given: Iterable[Tensor], name: str, node: ast.expr | None) -> Tensor:
    """What something unknown makes of tensors."""
    sources = tuple(given)
    forwards = {id(one.forward): one.forward for one in sources}
    return Tensor(
        forward=sources[0].forward if len(forwards) == 1 else None,
        sources=sources,
        operation=name,
        node=node,
    )


def arithmetic(run: Interpreter, left: Value, right: Value, node: ast.expr | None) -> Value | None:
    """``logits / temperature``, ``loss + penalty``; None where no tensor takes part."""
    sides = [_only(left), _only(right)]
    given = [one for one in sides if one is not None]
    if not given:
        return None
    if node is not None:
        for one in given:
            note(run, one, "arithmetic", node)
    wide = max(given, key=lambda one: (one.as_large_as_logits, one.role is Role.LOSS))
    made = _from(wide, "arithmetic", node, copy=True)
    if len(given) == 2:
        made.sources = tuple(given)
        made.graph = _any(one.graph for one in given)
        if given[0].forward is not given[1].forward:
            made.forward = wide.forward if wide.as_large_as_logits else None
    return made


def tensors_in(record: Record) -> list[Tensor]:
    """The tensors among the arguments of a call, those in a list or tuple included."""
    found: list[Tensor] = []
    values = [*record.arguments, *(slot.value for slot in record.keywords.values())]
    for value in values:
        for one in options(value):
            if isinstance(one, Tensor):
                found.append(one)
            elif isinstance(one, Sequence):
                found += [part for part in one.items if isinstance(part, Tensor)]
    return found


def note(run: Interpreter, tensor: Tensor, operation: str, node: ast.expr) -> None:
    """Remember what reads a tensor."""
    run.tensor_uses.append(Use((tensor, operation, node)))


def detached(tensor: Tensor, node: ast.expr) -> Tensor:
    """``tensor.data``: the same memory without the graph."""
    return _from(tensor, "data", node, graph=False)


def _choice(record: Record, name: str, value: Value) -> Value:
    if isinstance(value, Tensor):
        return _operation(record, name, value, record.arguments[1:])
    return UNKNOWN


def _input(record: Record, name: str = "input") -> Value:
    if record.arguments:
        return record.arguments[0]
    slot = record.keywords.get(name)
    return slot.value if slot is not None else UNKNOWN


def _only(value: Value) -> Tensor | None:
    found = [one for one in options(value) if isinstance(one, Tensor)]
    return found[0] if len(found) == 1 else None


def _any(answers: Iterable[bool | None]) -> bool | None:
    """Whether any is true; None where that depends on one that is not known."""
    known = list(answers)
    if True in known:
        return True
    return None if None in known else False


def _from(source: Tensor, operation: str, node: ast.expr | None, **changes: object) -> Tensor:
    """A tensor that differs from its source in ``changes``."""
    made = Tensor(
        source.role,
        source.width,
        source.positions,
        dtype=source.dtype,
        copy=False,
        graph=source.graph,
        forward=source.forward,
        sources=(source,),
        operation=operation,
        node=node,
    )
    for name, value in changes.items():
        setattr(made, name, value)
    return made


def _operation(record: Record, name: str, tensor: Tensor, arguments: tuple[Value, ...]) -> Value:
    """What the operation ``name`` makes of ``tensor``. ``arguments``: those after the tensor."""
    node = record.node
    if name in _NUMBERS or name in MEASURES:
        return UNKNOWN
    if name in _SAME:
        return _from(tensor, name, node)
    if name == "detach" or name == "detach_":
        return _from(tensor, name, node, graph=False)
    if name in ("cpu", "numpy"):
        return _from(tensor, name, node, copy=True, graph=tensor.graph if name == "cpu" else False)
    if name in _CASTS:
        return _from(tensor, name, node, dtype=_CASTS[name], copy=_copies(tensor, _CASTS[name]))
    if name in ("to", "type"):
        return _cast(record, name, tensor, arguments)
    if name in _VIEWS:
        positions = tensor.positions
        return _from(tensor, name, node, positions=positions)
    if name in _MAYBE_COPIES:
        cut = tensor.positions not in (Positions.ALL, Positions.UNKNOWN) and tensor.copy is False
        return _from(tensor, name, node, copy=True if cut else None if tensor.sources else False)
    if name in _COPIES or name in _IN_PLACE:
        return _from(tensor, name, node, copy=name in _COPIES)
    if name in _SOFTMAX:
        return _softmax(record, name, tensor, arguments)
    if name in _PICKS:
        return _picked(record, name, tensor, arguments)
    if name in _LOSSES:
        return _loss(record, name, tensor)
    if name in _REDUCTIONS:
        return _reduced(record, name, tensor, arguments)
    if name in ("backward", "register_hook"):
        return Constant(None)
    return derived((tensor,), name, node)


def _copies(tensor: Tensor, dtype: str) -> bool | None:
    """Whether a cast makes a copy: not where the tensor has that type already."""
    return None if tensor.dtype is None else tensor.dtype != dtype


def _cast(record: Record, name: str, tensor: Tensor, arguments: tuple[Value, ...]) -> Tensor:
    values = [*arguments, *(slot.value for slot in record.keywords.values())]
    for value in values:
        if isinstance(value, Symbol) and value.name.startswith("torch."):
            dtype = "torch.float32" if value.name == "torch.float" else value.name
            return _from(tensor, name, record.node, dtype=dtype, copy=_copies(tensor, dtype))
    return _from(tensor, name, record.node, dtype=None, copy=None)


def _dimension(record: Record, arguments: tuple[Value, ...]) -> object:
    """The dimension that an operation works on: a number, None where not given, UNKNOWN."""
    slot = record.keywords.get("dim") or record.keywords.get("axis")
    value = slot.value if slot is not None else arguments[0] if arguments else None
    if value is None:
        return None
    return value.value if isinstance(value, Constant) else UNKNOWN


def _is_last(dimension: object, tensor: Tensor) -> bool | None:
    if dimension is UNKNOWN or not isinstance(dimension, int):
        return None
    return dimension in _LAST_DIMENSIONS or (dimension == 1 and _is_flat(tensor))


def _is_flat(tensor: Tensor) -> bool:
    """Whether rows and positions were folded into one dimension: ``logits.view(-1, words)``."""
    folded = tensor.passes("view", "flatten", "reshape", _ROW)
    return folded or tensor.positions is Positions.LAST


def _softmax(record: Record, name: str, tensor: Tensor, arguments: tuple[Value, ...]) -> Tensor:
    dtype = record.keywords.get("dtype")
    given = dtype.value if dtype is not None else None
    cast = given.name if isinstance(given, Symbol) else tensor.dtype
    over_words = _is_last(_dimension(record, arguments), tensor) and tensor.width is Width.LOGITS
    role = _SOFTMAX[name] if over_words else Role.UNKNOWN
    return _from(tensor, name, record.node, role=role, copy=True, dtype=cast)


def _picked(record: Record, name: str, tensor: Tensor, arguments: tuple[Value, ...]) -> Tensor:
    """``gather``: one entry a position, where the index has one column."""
    last = _is_last(_dimension(record, arguments), tensor)
    one = last and _has_one_column(_index(record))
    width = Width.ONE if one else Width.UNKNOWN
    return _from(tensor, name, record.node, width=width, copy=True)


def _index(record: Record) -> ast.expr | None:
    """The index of a ``gather``, as it is written."""
    for keyword in record.node.keywords:
        if keyword.arg == "index":
            return keyword.value
    return record.node.args[-1] if record.node.args else None


def _has_one_column(index: ast.expr | None) -> bool:
    """``tokens.unsqueeze(-1)`` or ``tokens[..., None]``."""
    match index:
        case ast.Call(func=ast.Attribute(attr="unsqueeze")):
            return True
        case ast.Call(func=ast.Attribute(value=inner, attr="to" | "long" | "clone" | "int")):
            return _has_one_column(inner)
        case ast.Call(func=ast.Attribute(attr="view" | "reshape"), args=[*_, last]):
            return _is_number(last)
        case ast.Subscript(slice=ast.Tuple(elts=[*_, ast.Constant(value=None)])):
            return True
    return False


def _loss(record: Record, name: str, tensor: Tensor) -> Tensor:
    reduction = record.keywords.get("reduction")
    unreduced = reduction is not None and not (
        isinstance(reduction.value, Constant) and reduction.value.value in ("mean", "sum")
    )
    return _from(
        tensor,
        name,
        record.node,
        role=Role.LOSS,
        width=Width.ONE,
        positions=tensor.positions if unreduced else Positions.NONE,
        copy=True,
    )


def _reduced(record: Record, name: str, tensor: Tensor, arguments: tuple[Value, ...]) -> Tensor:
    dimension = _dimension(record, arguments)
    graph = False if name in _NO_GRADIENT else tensor.graph
    role = tensor.role if tensor.role is Role.LOSS else Role.UNKNOWN
    if dimension is None:
        return _from(
            tensor, name, record.node, role=role, width=Width.ONE, positions=Positions.NONE,
            copy=True, graph=graph,
        )  # fmt: skip
    if tensor.width is Width.LOGITS:
        last = _is_last(dimension, tensor)
        width = Width.ONE if last else Width.LOGITS if last is False else Width.UNKNOWN
        positions = Positions.NONE if last is False else tensor.positions
        return _from(
            tensor, name, record.node, role=role, width=width, positions=positions,
            copy=True, graph=graph,
        )  # fmt: skip
    positions = Positions.NONE if tensor.width is Width.ONE else Positions.UNKNOWN
    return _from(tensor, name, record.node, role=role, positions=positions, copy=True, graph=graph)


def _joined(given: list[Tensor], name: str, record: Record) -> Tensor:
    widest = max(given, key=lambda one: one.as_large_as_logits)
    made = _from(widest, name, record.node, copy=True)
    made.sources = tuple(given)
    made.graph = _any(one.graph for one in given)
    if any(one.forward is not widest.forward for one in given):
        made.forward = None
    return made
