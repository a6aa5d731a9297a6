"""Cross entropy of a causal language model from hidden states and head, in all its variants.

What: label smoothing (Szegedy et al. 2016), z-loss (Chowdhery et al., PaLM, 2022), token weights,
dynamic fine-tuning (Wu et al., "On the Generalization of SFT", 2025), which weighs each token by
its own detached probability.
Cost: see `statistics`; label smoothing and z-loss recompute the tiles once more where the head is
trained. An all-masked batch has PyTorch's own mean: NaN, and no gradient.

Shapes: T tokens (any leading shape), D hidden size, V vocabulary.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn import functional

from memlint_runtime.former_names import LOSS_NAMES, takes_former_names
from memlint_runtime.losses import checks
from memlint_runtime.losses.in_forward import summed_loss
from memlint_runtime.losses.passes import counted_rows
from memlint_runtime.losses.token_logprobs import (
    TokenStatistics,
    few_logits,
    read_inputs,
    statistics_of,
)

# The arguments of `token_logprobs` that a loss hands on.
_OF_HEAD = frozenset({"logit_scale", "low_rank", "softcap", "temperature", "workspace_bytes"})


def token_cross_entropy(
    found: TokenStatistics,
    *,
    label_smoothing: float = 0.0,
    z_loss: float = 0.0,
    dynamic: bool = False,
) -> Tensor:
    """Each token's loss `[T]` from its statistics; needs `mean_logit` and `logsumexp` if used.

    Raises ValueError for options out of their range.
    """
    checks.check_penalties(label_smoothing, z_loss)
    loss = -found.logprob
    if dynamic:
        loss = loss * found.logprob.detach().exp()
    if label_smoothing:
        assert found.mean_logit is not None
        assert found.logsumexp is not None
        uniform = found.logsumexp - found.mean_logit
        loss = (1.0 - label_smoothing) * loss + label_smoothing * uniform
    if z_loss:
        assert found.logsumexp is not None
        loss = loss + z_loss * found.logsumexp.square()
    return loss


def reduce_tokens(
    loss_T: Tensor,
    counted_T: Tensor,
    *,
    reduction: Literal["mean", "sum", "none"] = "mean",
    token_weights: Tensor | None = None,
    num_items_in_batch: Tensor | float | None = None,
) -> Tensor:
    """Weigh and reduce `[T]`, zero where not counted.

    The mean is over the counted tokens, or their weights' sum, and NaN where there are none;
    with `num_items_in_batch` it is the sum divided by that, which makes accumulated micro-batches
    add up. Raises ValueError for another reduction.
    """
    checks.check_reduction(reduction)
    loss_T = torch.where(counted_T, loss_T, 0.0)
    if token_weights is not None:
        loss_T = loss_T * token_weights
    if reduction == "none":
        return loss_T
    if reduction == "sum":
        return loss_T.sum()
    return over_items(loss_T.sum(), _divisor(counted_T, token_weights, num_items_in_batch))


def over_items(total: Tensor, items: Tensor, times: Tensor | float = 1.0) -> Tensor:
    """`total * (times / items)`; of no items NaN without a gradient, as PyTorch's mean."""
    nothing = items == 0
    return (total * (times / torch.where(nothing, 1, items))).masked_fill(nothing, math.nan)


def _divisor(
    counted_T: Tensor, token_weights: Tensor | None, num_items_in_batch: Tensor | float | None
) -> Tensor:
    """What a mean divides by: the items given, or the weights of what counts."""
    if num_items_in_batch is not None:
        return torch.as_tensor(num_items_in_batch, device=counted_T.device)
    return (counted_T if token_weights is None else counted_T * token_weights).sum()


def _refuse_unknown(head: dict[str, Any]) -> None:
    for name in (name for name in head if name not in _OF_HEAD):
        raise TypeError(f"cross_entropy() got an unexpected keyword argument {name!r}")


@takes_former_names(LOSS_NAMES)
def cross_entropy(
    input: Tensor,  # noqa: A002 (torch's name)
    linear_weight: Tensor,
    target: Tensor,
    *,
    linear_bias: Tensor | None = None,
    label_smoothing: float = 0.0,
    z_loss: float = 0.0,
    dynamic: bool = False,
    token_weights: Tensor | None = None,
    ignore_index: int = -100,
    reduction: Literal["mean", "sum", "none"] = "mean",
    num_items_in_batch: Tensor | float | None = None,
    **head: Any,
) -> Tensor:
    """Cross entropy of `softmax(hidden @ weight.T)` without the logits; targets already shifted.

    Args:
        input, linear_weight, target: as in `token_logprobs`, whose other arguments (softcap,
            temperature, logit_scale, low_rank, workspace_bytes) `head` takes too.
        label_smoothing: share of the target distribution that is uniform.
        z_loss: weight of the squared log-sum-exp.
        dynamic: weigh each token by its own detached probability (DFT).
        token_weights: `[T]`.
        ignore_index: target that does not count.
        reduction, num_items_in_batch: as in `reduce_tokens`.

    Raises ValueError for options out of their range, and for other negative targets, before
    anything but a few logits is computed; TypeError for unknown arguments.
    """
    plain = _is_plain(label_smoothing, z_loss, dynamic, token_weights, reduction)
    if plain and linear_bias is None and not head and type(ignore_index) is int:
        logits = few_logits(input, linear_weight, target)
        if logits is not None:
            return _of_few(logits, target, ignore_index, reduction, num_items_in_batch)
    _refuse_unknown(head)
    checks.check_penalties(label_smoothing, z_loss)
    checks.check_reduction(reduction)
    checks.check_ignore_index(ignore_index)
    checks.check_ignored(target, ignore_index)
    counted = (target >= 0) & (target != ignore_index)
    target = torch.where(counted, target, -100)
    inputs = read_inputs(input, linear_weight, target, bias=linear_bias, **head)
    if plain and inputs.is_whole:
        return _of_few(inputs.logits(), inputs.target, -100, reduction, num_items_in_batch)
    extras: dict[str, Any] = {
        "logsumexp": bool(label_smoothing or z_loss), "mean_logit": bool(label_smoothing)
    }  # fmt: skip

    def token_loss(found: TokenStatistics) -> Tensor:
        return token_cross_entropy(
            found, label_smoothing=label_smoothing, z_loss=z_loss, dynamic=dynamic
        )

    if reduction != "none":
        weights = None if token_weights is None else token_weights.reshape(-1)
        nothing = counted.new_zeros(())
        if reduction == "mean":
            items = _divisor(counted, token_weights, num_items_in_batch)
            nothing = items == 0
            share = torch.where(nothing, 1, items).reciprocal()
            weights = share if weights is None else weights * share
        total = summed_loss(inputs, token_loss, weights, **extras)
        if total is not None:
            return total.masked_fill(nothing, math.nan)
    # Rounded as the plain loss rounds its logits, where the gradient is of their mean.
    half_logits = reduction != "none" and torch.is_grad_enabled()
    asked = extras["logsumexp"], False, extras["mean_logit"], True
    found = statistics_of(inputs, target.shape, asked, half_logits=half_logits)
    return reduce_tokens(
        token_loss(found),
        counted,
        reduction=reduction,
        token_weights=token_weights,
        num_items_in_batch=num_items_in_batch,
    )


def _is_plain(
    label_smoothing: float, z_loss: float, dynamic: bool, token_weights: Any, reduction: str
) -> bool:
    """True if PyTorch's own loss is the one that is asked for."""
    usual = label_smoothing == 0.0 == z_loss and not dynamic and token_weights is None
    return usual and reduction in ("mean", "sum")


def _of_few(
    logits: Tensor,
    target: Tensor,
    ignore_index: int,
    reduction: str,
    num_items_in_batch: Tensor | float | None,
) -> Tensor:
    """The plain loss, a mean or sum, by as few operations as PyTorch's own.

    Raises ValueError for targets that are no classes.
    """
    target = (target if target.dim() == 1 else target.flatten()).long()
    how = reduction if num_items_in_batch is None else "sum"
    try:
        total = functional.cross_entropy(logits, target, ignore_index=ignore_index, reduction=how)
    except IndexError:
        checks.check_ignored(target, ignore_index)
        counted_rows(target.masked_fill(target == ignore_index, 0), logits.shape[-1])
        raise
    if num_items_in_batch is None or reduction == "sum":
        return total
    return over_items(total, _divisor(target, None, num_items_in_batch))
