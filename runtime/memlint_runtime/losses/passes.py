"""The forward and the backward pass of token statistics, as functions of tensors.

What: `forward_pass` and `backward_pass` plan tiles for the workspace, pick the tokens that count
and run the sweeps of `statistics`. Eager autograd and the operators that torch.compile sees are
thin layers over them.

Shapes: T tokens, T' those that count, D hidden size, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor

from memlint_runtime.losses.planning import plan_tiling
from memlint_runtime.losses.statistics import (
    KeptGradients,
    Statistics,
    gather_statistics,
    has_triton,
    scale_kept,
    statistics_gradient,
)
from memlint_runtime.losses.tile_ops import GradientCoefficients, LogitTransform
from memlint_runtime.losses.tiles import (
    Axis,
    Head,
    Tiling,
    hidden_gradients,
    weight_gradients,
)

# On CUDA half of what the gradients take themselves, and no less than the larger one of these.
_TILES_BY_DEFAULT, _LEAST_ON_CUDA = 48 * 2**20, 256 * 2**20
_SHARE_ON_CUDA = 1 / 2
_COMFORTABLE_TILES = 16 * 2**20


@dataclass(frozen=True)
class PassOptions:
    """All about a pass that is not a tensor.

    `extras_differentiable`: whether log-sum-exp, entropy and mean logit carry gradients.
    `keeps`: which hiddens' gradients may be kept.
    """

    transform: LogitTransform
    compute_dtype: torch.dtype
    workspace_bytes: int
    logsumexp: bool
    entropy: bool
    mean_logit: bool
    extras_differentiable: bool
    keeps: tuple[bool, ...]


def forward_pass(
    options: PassOptions, target_T: Tensor, bias: Tensor | None, tensors: Sequence[Tensor]
) -> tuple[Tensor | None, Tensor, Statistics, KeptGradients]:
    """Rows and targets that count, their statistics, and the kept gradients `[T', D]`.

    `tensors` are `(*hiddens, *weights)`.
    """
    check_range(target_T, int(tensors[-1].shape[0]))
    rows = counted_rows(target_T)
    head = make_head(tensors, bias, options, rows)
    target = target_T if rows is None else target_T[rows]
    keeps, left = keeps_that_fit(
        head.hiddens, head.token_count, options.workspace_bytes, options.keeps
    )
    tiling = plan_tiling(head, left, "tokens", scratch=_scratch(head, slope=False))
    # The tiles are cast by hand; autocast would round their fp32 sums as well.
    with torch.autocast(head.device.type, enabled=False):
        found, kept = gather_statistics(
            head,
            target,
            tiling,
            expected_logit=options.entropy,
            mean_logit=options.mean_logit,
            keep=keeps,
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
) -> list[Tensor | None]:
    """Gradients by `(bias, *hiddens, *weights)` where wanted.

    `logprob`, `logsumexp` and `expected_logit` are of the tokens that count. `upstream`: gradients
    `[T]` by logprob, logsumexp, entropy and mean logit, or None for zero.
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
    held = sum(gradient.nbytes for gradient in kept if gradient is not None)
    gradient = statistics_gradient(head, target, logprob, logsumexp, coefficients)
    scratch = _scratch(head, slope=coefficients.slope is not None)
    workspace = options.workspace_bytes - held

    # The hidden states' gradients come last: until then their room is free.
    want_bias, want_hiddens, want_weights = wants[0], wants[1 : 1 + pairs], wants[1 + pairs :]
    by_bias = blank_gradient(bias, head) if bias is not None and want_bias else None
    by_weights = blanks(head.weights, want_weights, head)
    by_hiddens: list[Tensor | None] = [None] * pairs

    def tiling(outer: Axis) -> Tiling:
        return plan_tiling(head, workspace, outer, scratch=scratch)

    with torch.autocast(head.device.type, enabled=False):
        if by_bias is not None or any(want_weights):
            weight_gradients(head, tiling("vocabulary"), gradient, by_weights, by_bias)
        if any(want_hiddens):
            by_hiddens = blanks(head.hiddens, want_hiddens, head)
            usable = kept if simple else [None] * pairs
            todo = _take_kept(head, usable, by_logprob, tiling("tokens"), by_hiddens)
            if any(result is not None for result in todo):
                hidden_gradients(head, tiling("tokens"), gradient, todo)
    return [by_bias, *by_hiddens, *by_weights]


def _take_kept(
    head: Head,
    kept: Sequence[Tensor | None],
    by_logprob: Tensor | None,
    tiling: Tiling,
    results: Sequence[Tensor | None],
) -> list[Tensor | None]:
    """Write the gradients that the forward pass kept. Returns the results still to be written."""
    todo = list(results)
    for pair, (known, result) in enumerate(zip(kept, results, strict=True)):
        if known is not None and result is not None and by_logprob is not None:
            scale_kept(head, known, by_logprob, tiling, result)
            todo[pair] = None
    return todo


def _at_rows(by_T: Tensor | None, rows: Tensor | None) -> Tensor | None:
    return by_T if by_T is None or rows is None else by_T[rows]


def _scratch(head: Head, *, slope: bool) -> int:
    """Buffers of a tile in the accumulation type: Triton's kernels need only the logits."""
    return 1 if has_triton(head) else 3 if slope else 2


def blanks(tensors: Sequence[Tensor], wants: Sequence[bool], head: Head) -> list[Tensor | None]:
    return [
        blank_gradient(tensor, head) if want else None
        for tensor, want in zip(tensors, wants, strict=True)
    ]


def default_workspace_bytes(
    token_count: int,
    hidden_size: int,
    dtype: torch.dtype,
    *,
    vocabulary: int = 0,
    device: torch.device | str = "cpu",
) -> int:
    """48 MiB, and the T x D between forward and backward that saves a matmul.

    On CUDA in half precision half of the size of both gradients, or 256 MiB and the T x D.
    """
    hidden = token_count * hidden_size * dtype.itemsize
    if torch.device(device).type == "cuda" and dtype in (torch.bfloat16, torch.float16):
        gradients = vocabulary * hidden_size * dtype.itemsize + hidden
        return max(int(gradients * _SHARE_ON_CUDA), _LEAST_ON_CUDA + hidden)
    return _TILES_BY_DEFAULT + hidden


def counted_rows(target_T: Tensor) -> Tensor | None:
    """The positions whose target is not negative, or None where all are or none can be read."""
    if isinstance(target_T, FakeTensor):
        return None
    counted = target_T >= 0
    return None if bool(counted.all()) else counted.nonzero()[:, 0]


def make_head(
    tensors: Sequence[Tensor], bias: Tensor | None, options: PassOptions, rows: Tensor | None
) -> Head:
    """The head of `(*hiddens, *weights)`."""
    pairs = len(tensors) // 2
    hiddens, weights = tuple(tensors[:pairs]), tuple(tensors[pairs:])
    return Head(hiddens, weights, bias, options.transform, options.compute_dtype, rows)


def keeps_that_fit(
    hiddens: Sequence[Tensor], token_count: int, workspace_bytes: int, keeps: Sequence[bool]
) -> tuple[tuple[bool, ...], int]:
    """`keeps`, or none of them where they would leave too little for tiles; and what they leave."""
    kept = (hidden for hidden, keep in zip(hiddens, keeps, strict=True) if keep)
    held = sum(token_count * hidden.shape[1] * hidden.element_size() for hidden in kept)
    if workspace_bytes - held >= min(_COMFORTABLE_TILES, workspace_bytes // 2):
        return tuple(keeps), workspace_bytes - held
    return (False,) * len(keeps), workspace_bytes


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


def blank_gradient(like: Tensor, head: Head) -> Tensor:
    """Room for a gradient of the head's sweep."""
    # Rows that are ignored get no gradient; where all are written, zeros would be wasted time.
    if head.rows is None and head.token_count:
        return torch.empty_like(like, memory_format=torch.contiguous_format)
    return torch.zeros_like(like, memory_format=torch.contiguous_format)


def multiply_dtype(hidden: Tensor, weight: Tensor) -> torch.dtype:
    """The type that the head's matmul rounds its inputs to, as `nn.Linear` would."""
    kind = hidden.device.type
    if torch.is_autocast_enabled(kind) and hidden.dtype != torch.float64:
        return torch.get_autocast_dtype(kind)
    return torch.promote_types(hidden.dtype, weight.dtype)


def check_range(target: Tensor, vocabulary: int) -> None:
    """Raise ValueError for token ids that are not in the vocabulary, where that is free to know."""
    # On a GPU this would wait for it; there the log-probability is -inf, or the gather asserts.
    if target.device.type != "cpu" or isinstance(target, FakeTensor) or not target.numel():
        return
    highest = int(target.max())
    if highest >= vocabulary:
        raise ValueError(f"targets are below the vocabulary of {vocabulary}, got {highest}")
