"""What the losses need to know of each token's distribution, without its T x V logits.

What: log-probability of a target, log-sum-exp, entropy and mean logit per token, and their
gradients, over the tiles of `tiles`. The log-probability's gradient by the hidden states does not
depend on the loss that is made of it (`W[target] - E[W]`), so the forward pass gathers it beside
the softmax, as attention gathers its values: two matmuls for a frozen head, four for a trained
one, whatever the loss. Backward turns it into the hidden states' gradient in place. Where
log-sum-exp, entropy or mean logit are differentiated, or in a second backward, it recomputes the
tiles (three matmuls frozen, five trained).
The target's own entry never enters the sums: `1 - p` of a confident token would cancel.
Source: Milakov and Gimelshein, "Online normalizer calculation for softmax" (2018).

Shapes: T tokens, V vocabulary, D hidden size; t and v tiles of T and V.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from memlint_runtime.losses import tile_ops
from memlint_runtime.losses.tile_ops import GradientCoefficients, SoftmaxState
from memlint_runtime.losses.tiles import (
    CHOSEN_ROWS,
    Head,
    TileGradient,
    Tiling,
    Visit,
    blanks,
    contract_,
    open_totals,
    raw_logits,
    ready_tiles,
    spans,
    write_rows,
)

_HAS_TRITON = importlib.util.find_spec("triton") is not None

# (raw_tv, bias_v, transform, column_t, ...), as the functions of these names in `tile_ops`.
TileOperation = Callable[..., Any]
KeptGradients = tuple[Tensor | None, ...]


@dataclass(frozen=True)
class Statistics:
    """`[T]` each: log-probability of the target, whether it is the likeliest entry, log-sum-exp,
    expected and mean logit."""

    logprob: Tensor
    is_top: Tensor
    logsumexp: Tensor
    expected_logit: Tensor | None
    mean_logit: Tensor | None


def blank_statistics(
    head: Head, *, expected_logit: bool = False, mean_logit: bool = False
) -> Statistics:
    """Room for the statistics of the head's rows."""
    blank = torch.empty(head.token_count, dtype=head.accumulate_dtype, device=head.device)
    return Statistics(
        blank,
        torch.empty_like(blank, dtype=torch.bool),
        torch.empty_like(blank),
        torch.empty_like(blank) if expected_logit else None,
        torch.empty_like(blank) if mean_logit else None,
    )


def has_triton(head: Head) -> bool:
    """True if tiles of this head go through the Triton kernels."""
    on_gpu = head.device.type == "cuda" and head.accumulate_dtype == torch.float32
    return on_gpu and _HAS_TRITON


def tile_operations(head: Head) -> tuple[TileOperation, TileOperation]:
    """`absorb_tile` and `tile_gradient`: Triton's on a CUDA device, where Triton is installed."""
    if has_triton(head):
        from memlint_runtime.losses import triton_ops

        return triton_ops.absorb_tile, triton_ops.tile_gradient
    return tile_ops.absorb_tile, tile_ops.tile_gradient


def gather_statistics(
    head: Head,
    target_T: Tensor,
    tiling: Tiling,
    *,
    expected_logit: bool = False,
    mean_logit: bool = False,
    keep: Sequence[bool] = (),
) -> tuple[Statistics, KeptGradients]:
    """One sweep over the logits: the statistics, and for the hiddens named by `keep` the gradient
    `[T, D]` of the log-probability, zero where a token does not count.

    Weights that come from the host are read once, not once for each row of tiles; the rows' sums
    are then open together, `[T, D]` in the accumulation type beside the workspace.
    """
    found = blank_statistics(head, expected_logit=expected_logit, mean_logit=mean_logit)
    kept = tuple(blanks(head.hiddens, keep or [False] * len(head.hiddens), head))
    keeping = any(gradient is not None for gradient in kept)
    open_rows: dict[int, tuple[list[Tensor | None], SoftmaxState]] = {}
    for visit, hiddens, weights in ready_tiles(head, tiling):
        if visit.first:
            open_rows[visit.tokens.start] = (
                open_totals(head, hiddens, kept),
                SoftmaxState.empty(
                    found.logprob[visit.tokens], weighted=expected_logit, logit_sum=mean_logit
                ),
            )
        totals, state = open_rows[visit.tokens.start]
        _absorb(head, visit, hiddens, weights, target_T, state, totals if keeping else None)
        del hiddens, weights
        if visit.last:
            share_t, shrink_t = finish_rows(state, found, visit.tokens, head.vocabulary)
            share_t *= head.transform.slope(state.target)
            _close(head, totals, kept, target_T[visit.tokens], share_t, shrink_t, visit.tokens)
            del open_rows[visit.tokens.start]
        totals = []
    return found, kept


def _absorb(
    head: Head,
    visit: Visit,
    hiddens: Sequence[Tensor],
    weights: Sequence[Tensor],
    target_T: Tensor,
    state: SoftmaxState,
    totals: Sequence[Tensor | None] | None,
) -> None:
    """Fold one tile into `state`, and what it adds to the kept gradients into `totals`."""
    inputs = (
        head.bias_tile(visit.vocabulary),
        head.transform,
        target_T[visit.tokens] - visit.vocabulary.start,
        state,
    )
    absorb_tile, _ = tile_operations(head)
    numerators, rescale = absorb_tile(
        raw_logits(head, hiddens, weights),
        *inputs,
        numerators=totals is not None,
        dtype=head.matmul_dtype,
    )
    if numerators is not None and totals is not None:
        _shrink_(totals, rescale)
        contract_(totals, numerators, weights)


def _shrink_(totals: Sequence[Tensor | None], factor_t: Tensor) -> None:
    for total in totals:
        if total is not None:
            total *= factor_t[:, None]


def _close(
    head: Head,
    totals: Sequence[Tensor | None],
    kept: KeptGradients,
    target_t: Tensor,
    share_t: Tensor,
    shrink_t: Tensor,
    tokens: slice,
) -> None:
    """Write `share * W[target] - E[W]` of a row of tiles; the target is no part of E[W]."""
    _shrink_(totals, -shrink_t)
    for pair, (total, gradient) in enumerate(zip(totals, kept, strict=True)):
        if total is not None and gradient is not None:
            for part in spans(len(target_t), CHOSEN_ROWS):
                chosen = head.weight_rows(pair, target_t[part])
                total[part].addcmul_(chosen, share_t[part, None])
                del chosen
            write_rows(head, gradient, tokens, total)


def finish_rows(
    state: SoftmaxState, found: Statistics, tokens: slice, vocabulary: int
) -> tuple[Tensor, Tensor]:
    """Write a row of tiles' statistics. Returns the probability `[t]` of all but the target, and
    the factor `[t]` that turns sums under the running maximum into expectations."""
    maximum = torch.maximum(state.maximum, state.target)
    shrink = (state.maximum - maximum).exp()
    others = state.others * shrink
    target = (state.target - maximum).exp()
    total = others + target
    is_top = state.target >= state.maximum
    found.is_top[tokens] = is_top
    # Of the likeliest entry log1p keeps the small log-probability.
    found.logprob[tokens] = torch.where(
        is_top, -torch.log1p(others), state.target - maximum - total.log()
    )
    found.logsumexp[tokens] = maximum + total.log()
    if found.expected_logit is not None and state.weighted is not None:
        # A target that the head's bias masks has probability zero and no finite logit.
        lowest = torch.finfo(target.dtype).min
        weighted = state.weighted * shrink + target * state.target.clamp_min(lowest)
        found.expected_logit[tokens] = weighted / total
    if found.mean_logit is not None and state.logit_sum is not None:
        found.mean_logit[tokens] = state.logit_sum / vocabulary
    return others / total, shrink / total


def statistics_gradient(
    head: Head,
    target_T: Tensor,
    logprob_T: Tensor,
    logsumexp_T: Tensor,
    coefficients: GradientCoefficients,
) -> TileGradient:
    """The gradient of what `coefficients` describe by a tile of raw logits, for a sweep."""
    _, tile_gradient = tile_operations(head)

    def gradient(
        hiddens: Sequence[Tensor], weights: Sequence[Tensor], tokens: slice, vocabulary: slice
    ) -> Any:
        return tile_gradient(
            raw_logits(head, hiddens, weights),
            head.bias_tile(vocabulary),
            head.transform,
            target_T[tokens] - vocabulary.start,
            logsumexp_T[tokens],
            coefficients.part(tokens),
            dtype=head.matmul_dtype,
        )

    return gradient
