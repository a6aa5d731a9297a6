"""How large the tiles of a sweep may be in a workspace.

What: counts what a sweep holds at once beside its inputs and results, and takes the largest tiles
that keep within the workspace. The inner axis is the longer one: a gradient's accumulator has the
length of the outer axis, and its matmuls sum over the inner one.
Cost: none; integers. On tensor cores a tile takes some 45 us to launch, so tiles are as large as
the workspace allows: at a head of 128,256 x 4,096 and 8,192 tokens the default makes 32 of them in
the weights' sweep, of milliseconds each. Elsewhere 1,024 x 4,096 at most, which caches hold.

Shapes: t tokens and v vocabulary entries of a tile, D hidden size.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

import torch

from memlint_runtime.losses.tiles import CHOSEN_ROWS, PRODUCT_ROWS, Axis, Head, Tiling

_LARGEST_OUTER, _LARGEST_INNER = 1024, 4096
# On tensor cores; a row of a tile is one block of the Triton kernels.
_LARGEST_TOKENS, _LARGEST_VOCABULARY = 16384, 4096
_SMALLEST = 8
# Of tensor cores' tiles: the vendor's products are fast at these.
_MULTIPLE = 256
# Most bytes of logits, their logarithms and their gradient that are computed whole: of so few,
# launching what works on tiles takes longer than computing them.
WHOLE_BYTES = 48 * 2**20


def whole_fits(entries: int, workspace_bytes: int | None, *, copied_bytes: int = 0) -> bool:
    """True if so many logits are few enough to be computed whole, within a workspace."""
    most = WHOLE_BYTES if workspace_bytes is None else min(WHOLE_BYTES, workspace_bytes)
    return entries * 3 * 4 + copied_bytes <= most


def plan_tiling(
    head: Head, workspace_bytes: int, outer: Axis, *, scratch: int = 2, beside: Sequence[Head] = ()
) -> Tiling:
    """The largest tiles that keep a sweep within `workspace_bytes`.

    `scratch` counts the [t, v] buffers of a head in the accumulation type that are alive together;
    heads `beside` are swept in step with it. Raises ValueError where the smallest tile does not
    fit.
    """
    lengths = (head.token_count, head.vocabulary)
    out, into = lengths if outer == "tokens" else lengths[::-1]
    most = (_LARGEST_OUTER, _LARGEST_INNER)
    if head.has_half_matmul:
        most = (_LARGEST_TOKENS, _LARGEST_VOCABULARY)
        most = most if outer == "tokens" else most[::-1]

    def tiling(short: int, long: int) -> Tiling:
        return Tiling(*((short, long) if outer == "tokens" else (long, short)), outer)

    def needed(short: int, long: int) -> int:
        return sum(sweep_bytes(each, tiling(short, long), scratch) for each in (head, *beside))

    if head.has_half_matmul:
        # What sums move, those of tokens once more where their maximum grows.
        sums = 18 if outer == "tokens" else 10
        best = _moving_least(
            (out, into), most, sums, lambda *sides: needed(*sides) <= workspace_bytes
        )
        if best is not None:
            return tiling(*best)
    short, long = min(most[0], _round_up(out)), min(most[1], _round_up(into))
    while needed(short, long) > workspace_bytes:
        if long > 4 * short and long > _SMALLEST:
            long //= 2
        elif short > _SMALLEST:
            short //= 2
        elif long > _SMALLEST:
            long //= 2
        else:
            raise ValueError(
                f"workspace_bytes leaves {max(workspace_bytes, 0)} for tiles, and the smallest "
                f"tile of a head of width {sum(head.widths)} takes {needed(short, long)}: give more"
            )
    return tiling(short, long)


def _moving_least(
    lengths: tuple[int, int], most: tuple[int, int], sums: int, fits: Callable[[int, int], bool]
) -> tuple[int, int] | None:
    """The outer and the inner side of the tiles that move least, of those that fit; None if none.

    An entry of a tile moves both factors twice, 4 bytes by either side's length, and `sums` bytes
    by the inner one's.
    """
    best: tuple[float, int, int] | None = None
    out, into = (max(length, 1) for length in lengths)
    rows = [*_parts(out, most[0])]
    fitting = len(rows)
    for long in _parts(into, most[1]):
        # The shorter the inner side, the longer the outer one that fits.
        while fitting and fits(rows[fitting - 1], long):
            fitting -= 1
        for short in rows[fitting : fitting + 1]:
            moved = 4 * math.ceil(out / short) / out + sums * math.ceil(into / long) / into
            found = moved, short, long
            best = found if best is None else min(best, found)
    return None if best is None else best[1:]


def _parts(length: int, most: int) -> Iterator[int]:
    """Lengths that cut a side into equal parts, the fewest first: multiples of _MULTIPLE."""
    count = math.ceil(length / most)
    former = 0
    while former != _MULTIPLE:
        part = -(-math.ceil(length / count) // _MULTIPLE) * _MULTIPLE or _MULTIPLE
        if part != former:
            yield part
        former, count = part, max(count + 1, math.ceil(count * 1.1))


def sweep_bytes(head: Head, tiling: Tiling, scratch: int) -> int:
    """Most bytes that a sweep holds at once beside its inputs and results."""
    t, v = tiling.tokens, tiling.vocabulary
    out = t if tiling.outer == "tokens" else v
    accumulate = head.accumulate_dtype.itemsize
    accumulators = out * sum(head.widths) * accumulate
    grid = t * v * head.logit_dtype.itemsize * scratch
    if head.matmul_dtype != head.logit_dtype:
        grid += t * v * head.compute_dtype.itemsize  # the gradient in half precision
    if not head.adds_in_place:
        grid += min(out, PRODUCT_ROWS) * max(head.widths) * accumulate
    # A row of tiles ends with the targets' own weights, when its tiles are gone.
    chosen = min(t, CHOSEN_ROWS) * sum(
        width * (accumulate + weight.element_size() + head.compute_dtype.itemsize)
        for width, weight in zip(head.widths, head.weights, strict=True)
    )
    if head.rows is not None:
        chosen = max(chosen, t * max(head.widths) * head.hiddens[0].element_size())
    # Running sums of a row of tiles; results, coefficients, targets and rows of all tokens.
    per_token = (t * 16 + head.token_count * 20) * accumulate
    return accumulators + max(input_bytes(head, t, v) + grid, chosen) + per_token


def input_bytes(head: Head, t: int, v: int) -> int:
    """Of a tile's hidden states and weights, where they are copied before they are multiplied."""
    hiddens = sum(
        t * width * _copied(head, hidden.dtype, gathered=head.rows is not None)
        for width, hidden in zip(head.widths, head.hiddens, strict=True)
    )
    weights = sum(
        v * width * _copied(head, weight.dtype, gathered=False)
        for width, weight in zip(head.widths, head.weights, strict=True)
    )
    return hiddens + weights


def _copied(head: Head, dtype: torch.dtype, *, gathered: bool) -> int:
    """Bytes per entry of what becomes of a tile of inputs before it is multiplied."""
    steps = dtype.itemsize if gathered else 0
    if dtype != head.compute_dtype:
        steps += head.compute_dtype.itemsize
    if head.compute_dtype != head.matmul_dtype:
        steps += head.matmul_dtype.itemsize
    return steps


def _round_up(length: int) -> int:
    power = _SMALLEST
    while power < length:
        power *= 2
    return power
