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

from collections.abc import Sequence

import torch

from memlint_runtime.losses.tiles import PRODUCT_ROWS, Axis, Head, Tiling

_LARGEST_OUTER, _LARGEST_INNER = 1024, 4096
# On tensor cores; a row of a tile is one block of the Triton kernels.
_LARGEST_TOKENS, _LARGEST_VOCABULARY = 16384, 4096
_SMALLEST = 8
# Where one kernel multiplies and reduces, a tile is no row of registers.
_LARGEST_REDUCED = 32768
# Most bytes of logits, their logarithms and their gradient that are computed whole: of so few,
# launching what works on tiles takes longer than computing them.
WHOLE_BYTES = 48 * 2**20
# Entries that become one value of each kind, at the least: half a block of the kernels.
_REDUCED_ENTRIES = 64
# Fewer entries in a column of the joint sweep, and the matmul is done before its sums have moved.
_COLUMN_STEP, _LEAST_COLUMN, _MOST_COLUMN = 256, 1536, 8192


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
    short, long = min(most[0], _round_up(out)), min(most[1], _round_up(into))

    def tiling() -> Tiling:
        return Tiling(*((short, long) if outer == "tokens" else (long, short)), outer)

    def needed() -> int:
        return sum(sweep_bytes(each, tiling(), scratch) for each in (head, *beside))

    while needed() > workspace_bytes:
        if long > 4 * short and long > _SMALLEST:
            long //= 2
        elif short > _SMALLEST:
            short //= 2
        elif long > _SMALLEST:
            long //= 2
        else:
            raise ValueError(
                f"workspace_bytes leaves {max(workspace_bytes, 0)} for tiles, and the smallest "
                f"tile of a head of width {sum(head.widths)} takes {needed()}: give more"
            )
    return tiling()


def plan_reduction(head: Head, workspace_bytes: int) -> Tiling:
    """Tiles of a sweep whose kernels multiply and reduce at once, with no gradient to gather.

    Raises ValueError where the smallest tile does not fit.
    """
    t = min(_LARGEST_TOKENS, _round_up(head.token_count))
    v = min(_LARGEST_REDUCED, _round_up(head.vocabulary))

    def needed() -> int:
        # Up to four values of each token for every few entries.
        values = t * 4 * (-(-v // _REDUCED_ENTRIES) + 2)
        per_token = t * 16 + head.token_count * 20
        return input_bytes(head, t, v) + (values + per_token) * head.accumulate_dtype.itemsize

    while needed() > workspace_bytes:
        if v > _LEAST_COLUMN or (t <= _SMALLEST and v > _SMALLEST):
            v //= 2
        elif t > _SMALLEST:
            t //= 2
        else:
            raise ValueError(
                f"workspace_bytes leaves {max(workspace_bytes, 0)} for tiles, and the smallest "
                f"tile of a head of width {sum(head.widths)} takes {needed()}: give more"
            )
    return Tiling(t, v, "tokens")


def joint_fits(head: Head, workspace_bytes: int, *, scratch: int) -> bool:
    """True if `plan_joint` finds a plan, also where only some of the tokens will count."""
    t, v = _least_joint(head)
    gathered = t * sum(hidden.shape[1] * hidden.element_size() for hidden in head.hiddens)
    return _joint_bytes(head, t, v, scratch) + gathered <= workspace_bytes


def plan_joint(head: Head, workspace_bytes: int, *, scratch: int) -> Tiling | None:
    """Tiles of the sweep that makes both gradients, or None where they would be too small.

    All tokens in one tile where that leaves columns wide enough: a weight's gradient is then one
    matmul's result. `scratch` as in `plan_tiling`.
    """
    t, most = _LARGEST_OUTER, _LARGEST_INNER
    if head.has_half_matmul:
        t, most = head.token_count, _MOST_COLUMN
    t, most = max(min(t, head.token_count), 1), min(most, head.vocabulary)
    fewest, least = _least_joint(head)
    while True:
        for v in range(most, least - 1, -_COLUMN_STEP):
            if _joint_bytes(head, t, v, scratch) <= workspace_bytes:
                return Tiling(t, v, "vocabulary")
        if t <= fewest:
            return None
        t = max(-(-t // 2), fewest)


def _least_joint(head: Head) -> tuple[int, int]:
    """Tokens and vocabulary entries of the smallest tile that is worth it."""
    return max(min(head.token_count, _LARGEST_OUTER), 1), min(head.vocabulary, _LEAST_COLUMN)


def _joint_bytes(head: Head, t: int, v: int, scratch: int) -> int:
    accumulate = head.accumulate_dtype.itemsize
    sums = (head.token_count + v) * sum(head.widths) * accumulate
    if t >= head.token_count and head.has_half_matmul:
        # The column's gradient is written by its matmul, where that has the weight's own type.
        sums -= (
            v
            * accumulate
            * sum(
                width
                for width, weight in zip(head.widths, head.weights, strict=True)
                if weight.dtype == head.matmul_dtype
            )
        )
    grid = t * v * accumulate * scratch
    if head.matmul_dtype != head.accumulate_dtype:
        grid += t * v * head.compute_dtype.itemsize
        grid += min(t, PRODUCT_ROWS) * max(head.widths) * accumulate
    return sums + grid + input_bytes(head, t, v) + (t * 16 + head.token_count * 20) * accumulate


def sweep_bytes(head: Head, tiling: Tiling, scratch: int) -> int:
    """Most bytes that a sweep holds at once beside its inputs and results."""
    t, v = tiling.tokens, tiling.vocabulary
    out = t if tiling.outer == "tokens" else v
    accumulate = head.accumulate_dtype.itemsize
    accumulators = out * sum(head.widths) * accumulate
    grid = t * v * accumulate * scratch
    if head.matmul_dtype != head.accumulate_dtype:
        # The gradient in half precision, and a product waiting to be added.
        grid += t * v * head.compute_dtype.itemsize
        grid += min(out, PRODUCT_ROWS) * max(head.widths) * accumulate
    # A row of tiles ends with the targets' own weights, when its tiles are gone.
    chosen = t * sum(
        width * (accumulate + weight.element_size() + head.compute_dtype.itemsize)
        for width, weight in zip(head.widths, head.weights, strict=True)
    )
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
