"""The forward and the backward pass of token statistics, as functions of tensors.

What: `forward_pass` and `backward_pass` plan tiles for the workspace, pick the tokens that count
and run the sweeps of `statistics`. Eager autograd and the operators that torch.compile sees are
thin layers over them.

Shapes: T tokens, T' those that count, D hidden size, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from memlint_runtime.losses.checks import is_readable
from memlint_runtime.losses.planning import plan_tiling
from memlint_runtime.losses.statistics import (
    KeptGradients,
    Statistics,
    gather_statistics,
    has_triton,
    statistics_gradient,
)
from memlint_runtime.losses.tile_ops import GradientCoefficients, LogitTransform
from memlint_runtime.losses.tiles import (
    Axis,
    Head,
    Tiling,
    blanks,
    hidden_gradients,
    spans,
    weight_gradients,
)

# On CUDA half of what the gradients take themselves, and no less than the larger one of these.
_TILES_BY_DEFAULT, _LEAST_ON_CUDA = 48 * 2**20, 256 * 2**20
_SHARE_ON_CUDA = 1 / 2


@dataclass(frozen=True)
class PassOptions:
    """All about a pass that is not a tensor.

    `extras_differentiable`: whether log-sum-exp, entropy and mean logit carry gradients.
    `keeps`: which hiddens' gradients are kept. `half_logits`: whether tiles of logits may be in the
    type of their factors, where Triton's kernels read them.
    """

    transform: LogitTransform
    compute_dtype: torch.dtype
    workspace_bytes: int
    logsumexp: bool
    entropy: bool
    mean_logit: bool
    extras_differentiable: bool
    keeps: tuple[bool, ...]
    half_logits: bool = False


def forward_pass(
    options: PassOptions, target_T: Tensor, bias: Tensor | None, tensors: Sequence[Tensor]
) -> tuple[Tensor | None, Tensor, Statistics, KeptGradients]:
    """Rows and targets that count, their statistics, and the kept gradients `[T, D]`.

    `tensors` are `(*hiddens, *weights)`.
    """
    rows = counted_rows(target_T, int(tensors[-1].shape[0]))
    head = make_head(tensors, bias, options, rows)
    target = target_T if rows is None else target_T[rows]
    scratch = _scratch(head, slope=False)
    tiling = plan_tiling(head, options.workspace_bytes, "tokens", scratch=scratch)
    # The tiles are cast by hand; autocast would round their fp32 sums as well.
    with torch.autocast(head.device.type, enabled=False):
        found, kept = gather_statistics(
            head,
            target,
            tiling,
            expected_logit=options.entropy,
            mean_logit=options.mean_logit,
            keep=options.keeps,
        )
    return rows, target, found, kept


def backward_pass(
    options: PassOptions,
    rows: Tensor | None,
    target: Tensor,
    bias: Tensor | None,
    tensors: Sequence[Tensor],
    logprob: Tensor,
    logsumexp: Tensor,
    expected_logit: Tensor | None,
    kept: Sequence[Tensor | None],
    upstream: Sequence[Tensor | None],
    wants: Sequence[bool],
    *,
    owns_kept: bool = True,
) -> list[Tensor | None]:
    """Gradients by `(bias, *hiddens, *weights)` where wanted.

    `logprob`, `logsumexp` and `expected_logit` are of the tokens that count. `upstream`: gradients
    `[T]` by logprob, logsumexp, entropy and mean logit, or None for zero. The kept gradients become
    the hidden states', in place with `owns_kept`.
    """
    head = make_head(tensors, bias, options, rows)
    pairs = len(tensors) // 2
    by_logprob, by_logsumexp, by_entropy, by_mean = (_at_rows(by, rows) for by in upstream)
    coefficients = coefficients_of(
        head, by_logprob, by_logsumexp, by_entropy, by_mean, expected_logit
    )
    if coefficients is None:
        return [None] * len(wants)
    simple = by_logsumexp is None and by_entropy is None and by_mean is None
    gradient = statistics_gradient(head, target, logprob, logsumexp, coefficients)
    scratch = _scratch(head, slope=coefficients.slope is not None)

    # The hidden states' gradients come last: until then their room is that of the kept ones.
    want_hiddens = wants[1 : 1 + pairs]
    by_bias, *by_weights = blanks((bias, *head.weights), (wants[0], *wants[1 + pairs :]), head)
    by_hiddens: list[Tensor | None] = [None] * pairs

    def tiling(outer: Axis) -> Tiling:
        return plan_tiling(head, options.workspace_bytes, outer, scratch=scratch)

    with torch.autocast(head.device.type, enabled=False):
        if by_bias is not None or any(by is not None for by in by_weights):
            weight_gradients(head, tiling("vocabulary"), gradient, by_weights, by_bias)
        if any(want_hiddens):
            made = kept if owns_kept else [None if one is None else one.clone() for one in kept]
            by_kept = by_logprob if simple else None
            rows_of_tiles = tiling("tokens").tokens
            by_hiddens, todo = _take_kept(head, made, want_hiddens, by_kept, rows_of_tiles)
            if any(result is not None for result in todo):
                hidden_gradients(head, tiling("tokens"), gradient, todo)
    return [by_bias, *by_hiddens, *by_weights]


def _take_kept(
    head: Head,
    kept: Sequence[Tensor | None],
    wants: Sequence[bool],
    by_logprob: Tensor | None,
    step: int,
) -> tuple[list[Tensor | None], list[Tensor | None]]:
    """The hidden states' gradients, those that were kept multiplied in place, `step` tokens at
    once; and those of them that are still to be written."""
    new = [want and one is None for want, one in zip(wants, kept, strict=True)]
    todo = blanks(head.hiddens, new, head)
    results = [one if room is None else room for one, room in zip(kept, todo, strict=True)]
    if by_logprob is None:
        return results, results
    for one in kept:
        if one is not None:
            by_all = spread_rows(by_logprob, head.rows, len(one))
            for tokens in spans(len(one), step):
                one[tokens].mul_(by_all[tokens, None])
    return results, todo


def _at_rows(by_T: Tensor | None, rows: Tensor | None) -> Tensor | None:
    return by_T if by_T is None or rows is None else by_T[rows]


def _scratch(head: Head, *, slope: bool) -> int:
    """Buffers of a tile in the accumulation type: Triton's kernels need only the logits."""
    return 1 if has_triton(head) else 3 if slope else 2


def default_workspace_bytes(
    token_count: int,
    hidden_size: int,
    dtype: torch.dtype,
    *,
    vocabulary: int = 0,
    device: torch.device | str = "cpu",
) -> int:
    """48 MiB; on CUDA in half precision half of the size of both gradients, or 256 MiB."""
    if torch.device(device).type == "cuda" and dtype in (torch.bfloat16, torch.float16):
        gradients = (vocabulary + token_count) * hidden_size * dtype.itemsize
        return max(int(gradients * _SHARE_ON_CUDA), _LEAST_ON_CUDA)
    return _TILES_BY_DEFAULT


def counted_rows(target_T: Tensor, vocabulary: float = math.inf) -> Tensor | None:
    """The positions whose target is not negative, or None where all are or none can be read.

    Raises ValueError for token ids that are not in the vocabulary.
    """
    if not (is_readable(target_T) and target_T.numel()):
        return None
    lowest, highest = map(int, target_T.aminmax())
    if highest >= vocabulary:
        raise ValueError(f"targets are below the vocabulary of {vocabulary}, got {highest}")
    return None if lowest >= 0 else (target_T >= 0).nonzero()[:, 0]


def make_head(
    tensors: Sequence[Tensor], bias: Tensor | None, options: PassOptions, rows: Tensor | None
) -> Head:
    """The head of `(*hiddens, *weights)`."""
    pairs = len(tensors) // 2
    hiddens, weights = tuple(tensors[:pairs]), tuple(tensors[pairs:])
    head = Head(hiddens, weights, bias, options.transform, options.compute_dtype, rows)
    return replace(head, half_logits=options.half_logits and has_triton(head))


def coefficients_of(
    head: Head,
    by_logprob: Tensor | None,
    by_logsumexp: Tensor | None,
    by_entropy: Tensor | None,
    by_mean: Tensor | None,
    expected_logit: Tensor | None,
) -> GradientCoefficients | None:
    """d logprob = onehot - p; d logsumexp = p; d entropy = -p * (z - E[z]); d mean = 1 / V."""
    parts = [
        None if by_logprob is None else -by_logprob,
        by_logsumexp,
        None if by_entropy is None or expected_logit is None else by_entropy * expected_logit,
    ]
    present = [part for part in parts if part is not None]
    if not present and by_mean is None:
        return None
    share = (
        torch.stack(present).sum(0)
        if present
        else torch.zeros(head.token_count, dtype=head.accumulate_dtype, device=head.device)
    )
    return GradientCoefficients(
        by_logprob,
        share,
        None if by_entropy is None else -by_entropy,
        None if by_mean is None else by_mean / head.vocabulary,
    )


def spread_rows(values: Tensor, rows: Tensor | None, count: int) -> Tensor:
    """Values of the head's rows in their places among `count` zeros."""
    if rows is None:
        return values
    return values.new_zeros(count, *values.shape[1:]).index_copy_(0, rows, values)


def multiply_dtype(hidden: Tensor, weight: Tensor) -> torch.dtype:
    """The type that the head's matmul rounds its inputs to, as `nn.Linear` would."""
    kind = hidden.device.type
    if torch.is_autocast_enabled(kind) and hidden.dtype != torch.float64:
        return torch.get_autocast_dtype(kind)
    return torch.promote_types(hidden.dtype, weight.dtype)
