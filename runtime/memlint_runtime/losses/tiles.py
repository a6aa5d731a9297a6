"""The one chunk loop of the losses: the T x V grid of logits, a tile at a time.

What: a head is one or more (hidden, weight) pairs whose products sum to the raw logits, so that a
LoRA head is the pair (hidden, weight) and the pair (hidden @ A.T, B). `sweep` walks the grid;
`raw_logits` computes a tile; `hidden_gradients` and `weight_gradients` contract a tile's gradient
with the other factor. Tiles multiply in the head's own precision and accumulate in fp32 (fp64 for
fp64): a hidden gradient is complete after a row of tiles, a weight gradient after a column, and
each is rounded once. No V x D buffer in fp32 is ever needed.
Source: Wijmans et al., "Cut Your Losses in Large-Vocabulary Language Models" (2024), for the idea
of never storing the logits.

Shapes: T tokens, V vocabulary, D hidden size (R for a low-rank pair), t and v their tiles.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor

from memlint_runtime.losses.remote_weights import is_remote, weight_rows, weight_tile
from memlint_runtime.losses.tile_ops import LogitTransform

Axis = Literal["tokens", "vocabulary"]

# Rows of a product that waits to be added, where the matmul does not add it itself.
PRODUCT_ROWS = 1024
# Rows of the targets' own weights that are added at once.
CHOSEN_ROWS = 256

# (hiddens, weights, tokens, vocabulary) -> the loss's gradient by the raw logits of these ready
# tiles, [t, v].
TileGradient = Callable[[Sequence[Tensor], Sequence[Tensor], slice, slice], Tensor]


@dataclass(frozen=True)
class Head:
    """Pairs `(hidden_TD, weight_VD)` that sum to raw logits, a bias `[V]`, and what follows.

    `rows` are the token positions that count, or None for all of them: T below is their number.
    `half_logits`: whether tiles of logits are in the type of their factors, as plain logits are.
    """

    hiddens: tuple[Tensor, ...]
    weights: tuple[Tensor, ...]
    bias: Tensor | None
    transform: LogitTransform
    compute_dtype: torch.dtype
    rows: Tensor | None = None
    half_logits: bool = False

    @property
    def token_count(self) -> int:
        return int(self.hiddens[0].shape[0] if self.rows is None else self.rows.shape[0])

    @property
    def vocabulary(self) -> int:
        return int(self.weights[0].shape[0])

    @property
    def widths(self) -> tuple[int, ...]:
        return tuple(int(weight.shape[1]) for weight in self.weights)

    @property
    def accumulate_dtype(self) -> torch.dtype:
        return torch.float64 if self.compute_dtype == torch.float64 else torch.float32

    @property
    def device(self) -> torch.device:
        return self.hiddens[0].device

    @property
    def has_half_matmul(self) -> bool:
        """True if tiles multiply in half precision with fp32 results: tensor cores alone do."""
        return self.device.type == "cuda" and self.compute_dtype in (torch.bfloat16, torch.float16)

    @property
    def matmul_dtype(self) -> torch.dtype:
        """The type of the tiles that are multiplied. A CPU that multiplies bfloat16 itself rounds
        each product to it, as it does for plain logits; others are faster in float32."""
        half = self.has_half_matmul
        if self.device.type == "cpu" and self.compute_dtype == torch.bfloat16:
            half = _cpu_multiplies_bfloat16()
        return self.compute_dtype if half else self.accumulate_dtype

    @property
    def logit_dtype(self) -> torch.dtype:
        """The type of a tile of logits."""
        return self.matmul_dtype if self.half_logits else self.accumulate_dtype

    @property
    def adds_in_place(self) -> bool:
        """True if no product waits to be added to a sum."""
        factors, total = self.matmul_dtype, self.accumulate_dtype
        if factors == total:
            return True
        fake = isinstance(self.hiddens[0], FakeTensor)
        return self.has_half_matmul and _adds_in_place(self.device.type, factors, total, fake)

    def hidden_tiles(self, tokens: slice) -> list[Tensor]:
        """Each `[t, D]`, ready to multiply."""
        if self.rows is None:
            picked = [hidden[tokens] for hidden in self.hiddens]
        else:
            picked = [hidden.index_select(0, self.rows[tokens]) for hidden in self.hiddens]
        return [self._ready(tile) for tile in picked]

    def weight_tiles(self, vocabulary: slice) -> list[Tensor]:
        """Each `[v, D]`, ready to multiply."""
        return [
            self._ready(weight_tile(weight, vocabulary, self.device)) for weight in self.weights
        ]

    def bias_tile(self, vocabulary: slice) -> Tensor | None:
        """`[v]`, or None."""
        return None if self.bias is None else self.bias[vocabulary]

    def weight_rows(self, pair: int, entries_t: Tensor) -> Tensor:
        """The weights `[t, D]` of single vocabulary entries, in the accumulation type."""
        rows = weight_rows(self.weights[pair], entries_t, self.device)
        return rows.to(self.compute_dtype).to(self.accumulate_dtype)

    def _ready(self, tile: Tensor) -> Tensor:
        # A tensor of higher precision is rounded to the head's first, as autocast would.
        return tile.to(self.compute_dtype).to(self.matmul_dtype)


@dataclass(frozen=True)
class Visit:
    """A tile of the grid, and whether it opens or closes the inner loop."""

    tokens: slice
    vocabulary: slice
    first: bool
    last: bool


@dataclass(frozen=True)
class Tiling:
    """Tokens and vocabulary entries of a tile, and the axis that the outer loop walks."""

    tokens: int
    vocabulary: int
    outer: Axis


def _rounds_products(factor: Tensor) -> bool:
    """True if a matmul of halves gives halves alone, as torch's on a CPU."""
    return factor.device.type == "cpu"


@functools.cache
def _cpu_multiplies_bfloat16() -> bool:
    cpu: Any = torch.cpu
    asked = (getattr(cpu, f"_is_{name}_supported", None) for name in ("avx512_bf16", "amx_tile"))
    return any(supports is not None and supports() for supports in asked)


def sweep(
    token_count: int, vocabulary: int, tiling: Tiling, *, banded: bool = False
) -> Iterator[Visit]:
    """Walk the grid: for each tile of the outer axis, every tile of the other one.

    banded: with tokens as the outer axis, visit all rows of a column before the next column. Each
    row is opened in the first column and closed in the last.
    """
    rows = spans(token_count, tiling.tokens)
    columns = spans(vocabulary, tiling.vocabulary)
    if banded:
        for index, column in enumerate(columns):
            for row in rows:
                yield Visit(row, column, index == 0, index == len(columns) - 1)
        return
    by_tokens = tiling.outer == "tokens"
    inner = columns if by_tokens else rows
    for out in rows if by_tokens else columns:
        for index, into in enumerate(inner):
            row, column = (out, into) if by_tokens else (into, out)
            yield Visit(row, column, index == 0, index == len(inner) - 1)


def spans(length: int, step: int) -> list[slice]:
    return [slice(start, min(start + step, length)) for start in range(0, length, step)]


def raw_logits(head: Head, hiddens: Sequence[Tensor], weights: Sequence[Tensor]) -> Tensor:
    """A tile `[t, v]` of hidden @ weight.T, from ready tiles of both."""
    raw = _matmul(hiddens[0], weights[0].T, head.logit_dtype)
    for hidden, weight in zip(hiddens[1:], weights[1:], strict=True):
        add_product_(raw, hidden, weight.T)
    return raw


def _matmul(left: Tensor, right: Tensor, dtype: torch.dtype) -> Tensor:
    if left.dtype == dtype or _rounds_products(left):
        return (left @ right).to(dtype)
    return torch.mm(left, right, out_dtype=dtype)


def add_product_(total: Tensor, left: Tensor, right: Tensor) -> None:
    """`total += left @ right`, where the product keeps the precision of `total`."""
    if left.dtype == total.dtype:
        total.addmm_(left, right)
        return
    kind, fake = total.device.type, isinstance(total, FakeTensor)
    if not _rounds_products(left) and _adds_in_place(kind, left.dtype, total.dtype, fake):
        torch.ops.aten.addmm.dtype_out(total, left, right, total.dtype, out=total)
        return
    for start in range(0, total.shape[0], PRODUCT_ROWS):
        rows = slice(start, start + PRODUCT_ROWS)
        if _rounds_products(left):
            total[rows] += left[rows] @ right
        else:
            total[rows] += torch.mm(left[rows], right, out_dtype=total.dtype)


@functools.cache
def _adds_in_place(device: str, factors: torch.dtype, total: torch.dtype, fake: bool) -> bool:
    """True if addmm adds a product of such factors to a sum of that type, asked once by a tiny one.

    Versions of torch that want the sum in the factors' half precision raise. Asked here, and not
    by catching what the real one raises, which may be a lack of memory or an error of the device.
    fake: fake tensors answer for themselves.
    """
    sums = torch.zeros(16, 16, dtype=total, device=device)
    ones = torch.ones(16, 16, dtype=factors, device=device)
    try:
        torch.ops.aten.addmm.dtype_out(sums, ones, ones, total, out=sums)
    except (RuntimeError, TypeError):  # the latter by 2.11's fake tensors
        return False
    return True


def contract_(totals: Sequence[Tensor | None], gradient: Tensor, others: Sequence[Tensor]) -> None:
    """`total += gradient @ other` in the precision of `total`: one tile's share of gradients.

    A function of its own, so that no loop variable keeps a tile alive into the next one.
    """
    for total, other in zip(totals, others, strict=True):
        if total is not None:
            add_product_(total, gradient.to(other.dtype), other)


def open_totals(
    head: Head, tiles: Sequence[Tensor], results: Sequence[Tensor | None]
) -> list[Tensor | None]:
    """Accumulators of zeros for the tiles whose gradient has a result to go to."""
    return [
        None if result is None else torch.zeros_like(tile, dtype=head.accumulate_dtype)
        for tile, result in zip(tiles, results, strict=True)
    ]


def hidden_gradients(
    head: Head, tiling: Tiling, gradient: TileGradient, results: Sequence[Tensor | None]
) -> None:
    """Write the gradients `[T, D]` by the hidden states of the head's rows; tokens outermost, or
    for weights from the host the vocabulary, so that they come once."""
    open_rows: dict[int, list[Tensor | None]] = {}
    for visit, hiddens, weights in ready_tiles(head, tiling):
        if visit.first:
            open_rows[visit.tokens.start] = open_totals(head, hiddens, results)
        raw_gradient = gradient(hiddens, weights, visit.tokens, visit.vocabulary)
        contract_(open_rows[visit.tokens.start], raw_gradient, weights)
        del raw_gradient, hiddens, weights
        if visit.last:
            for total, result in zip(open_rows.pop(visit.tokens.start), results, strict=True):
                if total is not None and result is not None:
                    write_rows(head, result, visit.tokens, total)


def ready_tiles(head: Head, tiling: Tiling) -> Iterator[tuple[Visit, list[Tensor], list[Tensor]]]:
    """A sweep with tiles of hidden states and weights; those from the host come once.

    The caller lets go of the tiles before it goes on.
    """
    banded = any(is_remote(weight) for weight in head.weights)
    weights: list[Tensor] = []
    for visit in sweep(head.token_count, head.vocabulary, tiling, banded=banded):
        if not banded or visit.tokens.start == 0:
            weights = []
            weights = head.weight_tiles(visit.vocabulary)
        hiddens = head.hidden_tiles(visit.tokens)
        yield visit, hiddens, weights
        del hiddens
        if not banded:
            weights = []


def write_rows(head: Head, result_TD: Tensor, tokens: slice, values_tD: Tensor) -> None:
    """Put values of the head's rows `tokens` in their places of the full-length result."""
    if head.rows is None:
        result_TD[tokens] = values_tD
    else:
        result_TD.index_copy_(0, head.rows[tokens], values_tD.to(result_TD.dtype))


def blanks(
    tensors: Sequence[Tensor | None], wants: Sequence[bool], head: Head
) -> list[Tensor | None]:
    """Room for the gradients of the head's sweep that are wanted."""
    # Rows that are ignored get no gradient; where all are written, zeros would be wasted time.
    make = torch.empty_like if head.rows is None and head.token_count else torch.zeros_like
    return [
        make(tensor, memory_format=torch.contiguous_format) if want and tensor is not None else None
        for tensor, want in zip(tensors, wants, strict=True)
    ]


def weight_gradients(
    head: Head,
    tiling: Tiling,
    gradient: TileGradient,
    results: Sequence[Tensor | None],
    bias_result: Tensor | None,
) -> None:
    """Write the gradients `[V, D]` by the weights and `[V]` by the bias, where there is a result
    to write to; vocabulary outermost."""
    totals: list[Tensor | None] = []
    weights: list[Tensor] = []
    bias_total: Tensor | None = None
    for visit in sweep(head.token_count, head.vocabulary, tiling):
        if visit.first:
            totals, weights = [], []
            weights = head.weight_tiles(visit.vocabulary)
            totals = open_totals(head, weights, results)
            if bias_result is not None:
                width = visit.vocabulary.stop - visit.vocabulary.start
                bias_total = bias_result.new_zeros(width, dtype=head.accumulate_dtype)
        hiddens = head.hidden_tiles(visit.tokens)
        tile = gradient(hiddens, weights, visit.tokens, visit.vocabulary)
        contract_(totals, tile.T, hiddens)
        if bias_total is not None:
            bias_total += tile.sum(0, dtype=bias_total.dtype)
        del tile, hiddens
        if visit.last:
            for total, result in zip((*totals, bias_total), (*results, bias_result), strict=True):
                if total is not None and result is not None:
                    result[visit.vocabulary] = total


def write_product(result: Tensor, left: Tensor, right: Tensor) -> None:
    """Put `left @ right`, summed in the precision of their type's matmul and rounded once."""
    left = left.to(right.dtype)
    if right.dtype == result.dtype:
        torch.mm(left, right, out=result)
        return
    half = right.dtype in (torch.bfloat16, torch.float16) and not _rounds_products(right)
    if half and result.dtype == torch.float32:
        torch.ops.aten.mm.dtype_out(left, right, result.dtype, out=result)
    else:
        result.copy_(_matmul(left, right, torch.float32 if half else right.dtype))
