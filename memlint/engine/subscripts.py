"""What a subscript keeps of a tensor: which positions, and how many numbers of each."""

import ast

from memlint.engine.nodes import literal_of
from memlint.engine.tensors import ROW, Positions, Tensor, Width
from memlint.source.record import NamedTuple

# The smallest vocabulary of a language model; fewer are choices, or classes.
_WORDS = 16_384


class _Index(NamedTuple):
    """The index of each dimension of (rows, positions, width); None where there is none."""

    rows: ast.expr | None = None
    positions: ast.expr | None = None
    width: ast.expr | None = None


def index_parts(index: ast.expr) -> list[ast.expr]:
    return list(index.elts) if isinstance(index, ast.Tuple) else [index]


def positions_kept(tensor: Tensor, index: ast.expr) -> tuple[Positions, Width]:
    """What a subscript keeps of a tensor with dimensions (rows, positions, width)."""
    parts = [part for part in index_parts(index) if not _is_new_axis(part)]
    if tensor.operation == ROW:
        parts = [ast.Slice(), *parts]
    by_dimension = _by_dimension(tensor, parts)
    if by_dimension is None:
        return Positions.UNKNOWN, Width.UNKNOWN
    width = _width(tensor.width, by_dimension.width)
    if by_dimension.positions is not None:
        return _positions(tensor.positions, by_dimension.positions), width
    rows = by_dimension.rows
    is_mask = rows is not None and not isinstance(rows, ast.Slice) and not _is_row(rows)
    return Positions.SOME if is_mask else tensor.positions, width


def _by_dimension(tensor: Tensor, parts: list[ast.expr]) -> _Index | None:
    """Which part indexes which dimension; None for more parts than dimensions."""
    dots = next((place for place, part in enumerate(parts) if literal_of(part) is ...), None)
    if dots is None:
        return _Index(*parts) if len(parts) <= 3 else None
    after = parts[dots + 1 :]
    last = after[-1] if after else None
    if tensor.width is Width.ONE:
        return _Index(positions=last)
    return _Index(positions=after[-2] if len(after) > 1 else None, width=last)


def _is_new_axis(part: ast.expr) -> bool:
    return isinstance(part, ast.Constant) and part.value is None


def _is_whole(part: ast.expr) -> bool:
    return isinstance(part, ast.Slice) and part.lower is None and part.upper is None


def _is_vocabulary(part: ast.expr) -> bool:
    """True if the padding of a vocabulary is cut off: ``[..., :151643]``."""
    upper = part.upper if isinstance(part, ast.Slice) and part.lower is None else None
    kept = upper.value if isinstance(upper, ast.Constant) else 0
    return type(kept) is int and kept >= _WORDS


def is_number(part: ast.expr) -> bool:
    if isinstance(part, ast.UnaryOp):
        part = part.operand
    return isinstance(part, ast.Constant) and type(part.value) is int


def _is_row(part: ast.expr) -> bool:
    """One row of the batch, by number or by the name of a counter."""
    return is_number(part) or (isinstance(part, ast.Name) and len(part.id) < 4)


def _width(before: Width, part: ast.expr | None) -> Width:
    if part is None or _is_whole(part) or _is_vocabulary(part):
        return before
    return Width.ONE if is_number(part) or not isinstance(part, ast.Slice) else Width.UNKNOWN


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
        case _ if is_number(part):
            return Positions.LAST
    return before if before in (Positions.NONE, Positions.LAST) else Positions.SOME
