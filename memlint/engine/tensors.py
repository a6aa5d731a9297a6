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

from memlint.engine.values import Absent, Object, Sequence, Unknown, Value, options
from memlint.source.record import slotted

if TYPE_CHECKING:
    from memlint.engine.forwards import ForwardRun
    from memlint.engine.interpreter import Interpreter
    from memlint.engine.values import Invocation


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


@slotted
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

    role: Role = Role.UNKNOWN
    width: Width = Width.UNKNOWN
    positions: Positions = Positions.UNKNOWN
    dtype: str | None = None
    copy: bool | None = None
    graph: bool | None = None
    forward: ForwardRun | None = None
    sources: tuple[Tensor, ...] = ()
    operation: str = ""
    node: ast.expr | None = None

    def __repr__(self) -> str:
        return f"<tensor {self.role.value}, width {self.width.value}, positions {self.positions}>"

    @property
    def as_large_as_logits(self) -> bool:
        """True if it has the head's width at more than one position."""
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
        """True if one of ``operations`` lies between the model and it."""
        return any(tensor.operation in operations for tensor in self.history())


class Output(Object):
    """What a forward pass returns: fields that are read by name, by place, or unpacked."""

    __slots__ = ("forward", "made")

    def __init__(self, forward: ForwardRun, invocation: Invocation) -> None:
        super().__init__(None, invocation, node=invocation.node)
        self.forward = forward
        self.made: dict[str, Tensor] = {}


class Use(tuple[Tensor, str, ast.expr]):
    """(tensor, operation, node): what reads a tensor, in the order of the run."""

    __slots__ = ()


# A turn's share of a tensor: (positions, width) of (rows, positions, width).
ROW = "row"
# What may make one dimension of rows and positions.
FOLDS = ("view", "flatten", "reshape", ROW)


def tensor_from(source: Tensor, operation: str, node: ast.expr | None, **changes: object) -> Tensor:
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


def detached(tensor: Tensor, node: ast.expr) -> Tensor:
    """``tensor.data``: the same memory without the graph."""
    return tensor_from(tensor, "data", node, graph=False)


def note(run: Interpreter, tensor: Tensor, operation: str, node: ast.expr) -> None:
    """Remember what reads a tensor."""
    run.tensor_uses.append(Use((tensor, operation, node)))


def tensors_in(invocation: Invocation) -> list[Tensor]:
    """The tensors among the arguments of a call, those in a list or tuple included."""
    found: list[Tensor] = []
    values = [*invocation.arguments, *(binding.value for binding in invocation.keywords.values())]
    for value in values:
        for one in options(value):
            if isinstance(one, Tensor):
                found.append(one)
            elif isinstance(one, Sequence):
                found += [part for part in one.items if isinstance(part, Tensor)]
    return found


def known_tensors(value: Value) -> tuple[Tensor, ...]:
    """The tensors that a value may be; empty where it may be something else, too."""
    found = [one for one in options(value) if not isinstance(one, Absent)]
    tensors = tuple(one for one in found if isinstance(one, Tensor))
    return tensors if len(tensors) == len(found) else ()
