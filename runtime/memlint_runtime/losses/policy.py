"""Policy gradient losses over token log-probabilities: GRPO and its kin.

What: GRPO (Shao et al. 2024) and how its relatives differ: BNPO and DAPO (Yu et al. 2025) average
over all tokens of the batch, Dr. GRPO (Liu et al. 2025) divides by a constant length, CISPO
(MiniMax 2025) clips the detached weight and keeps every token's gradient, GSPO (Zheng et al. 2025)
uses one importance ratio a sequence. Two-sided clipping is of INTELLECT-2 (2025), the divergence
of Schulman (2020), its importance correction of DeepSeek-V3.2 (2025).

Shapes: B answers, L tokens of an answer.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

PolicyForm = Literal["grpo", "bnpo", "dr_grpo", "dapo", "cispo"]
ImportanceLevel = Literal["token", "sequence"]


def policy_loss(
    logprobs_BL: Tensor,
    advantages: Tensor,
    mask_BL: Tensor,
    *,
    form: PolicyForm = "dapo",
    old_logprobs_BL: Tensor | None = None,
    reference_logprobs_BL: Tensor | None = None,
    entropies_BL: Tensor | None = None,
    beta: float = 0.0,
    bias_corrected_kl: bool = False,
    epsilon_low: float = 0.2,
    epsilon_high: float = 0.2,
    delta: float | None = None,
    importance: ImportanceLevel = "token",
    entropy_coefficient: float = 0.0,
    num_items_in_batch: Tensor | float | None = None,
    max_completion_length: int | None = None,
) -> Tensor:
    """The loss to minimise, a scalar; zero where the mask is empty.

    Args:
        logprobs_BL: the policy's, differentiable.
        advantages: `[B]` or `[B, L]`.
        mask_BL: completion tokens that count.
        form: how tokens are clipped and averaged. `cispo` clips at `epsilon_high` itself.
        old_logprobs_BL: of the policy that sampled; the detached present ones by default.
        reference_logprobs_BL: for the divergence, weighed by `beta`.
        bias_corrected_kl: weigh the divergence by the importance ratio.
        delta: upper bound of the ratio where the advantage is negative (two-sided clipping).
        importance: a ratio per token, or one per sequence (GSPO).
        entropies_BL: for a bonus of `entropy_coefficient` times their mean.
        num_items_in_batch: tokens that `dapo` and `cispo` divide by; the mask's by default.
        max_completion_length: length that `dr_grpo` divides by.
    """
    mask = mask_BL.to(logprobs_BL.dtype)
    if advantages.dim() == 1:
        advantages = advantages[:, None]
    old = logprobs_BL.detach() if old_logprobs_BL is None else old_logprobs_BL
    ratio = importance_ratio(logprobs_BL, old, mask, importance)
    if form == "cispo":
        loss = -ratio.clamp(max=epsilon_high).detach() * advantages * logprobs_BL
    else:
        clipped = ratio.clamp(1.0 - epsilon_low, 1.0 + epsilon_high)
        bounded = ratio if delta is None else ratio.clamp(max=delta)
        loss = -torch.minimum(bounded * advantages, clipped * advantages)
    if beta:
        if reference_logprobs_BL is None:
            raise ValueError(f"beta is {beta}: give reference_logprobs_BL, or beta=0")
        divergence = kl_estimate(logprobs_BL, reference_logprobs_BL)
        loss = loss + beta * (divergence * ratio if bias_corrected_kl else divergence)
    total = average_tokens(
        loss.expand_as(mask),
        mask,
        form,
        num_items_in_batch=num_items_in_batch,
        max_completion_length=max_completion_length,
    )
    if entropy_coefficient:
        if entropies_BL is None:
            raise ValueError("an entropy bonus needs entropies_BL (token_logprobs(entropy=True))")
        total = total - entropy_coefficient * average_tokens(entropies_BL, mask, "bnpo")
    return total


def importance_ratio(
    logprobs_BL: Tensor, old_logprobs_BL: Tensor, mask_BL: Tensor, level: ImportanceLevel
) -> Tensor:
    """Ratio of the policy's probabilities to the old ones: `[B, L]`, or `[B, 1]` per sequence."""
    difference = torch.where(mask_BL.bool(), logprobs_BL - old_logprobs_BL, 0.0)
    if level == "token":
        return difference.exp()
    if level == "sequence":
        return (difference.sum(-1, keepdim=True) / mask_BL.sum(-1, keepdim=True).clamp(min=1)).exp()
    raise ValueError(f"importance is 'token' or 'sequence', got {level!r}")


def kl_estimate(logprobs: Tensor, reference_logprobs: Tensor) -> Tensor:
    """Unbiased, non-negative estimate of the divergence from the reference, for each token."""
    difference = reference_logprobs - logprobs
    return torch.expm1(difference) - difference


def average_tokens(
    values_BL: Tensor,
    mask_BL: Tensor,
    form: PolicyForm,
    *,
    num_items_in_batch: Tensor | float | None = None,
    max_completion_length: int | None = None,
) -> Tensor:
    """The form's mean over answers and tokens, a scalar."""
    values = torch.where(mask_BL.bool(), values_BL, 0.0)
    if form == "grpo":
        return (values.sum(-1) / mask_BL.sum(-1).clamp(min=1)).mean()
    if form == "bnpo":
        return values.sum() / mask_BL.sum().clamp(min=1)
    if form == "dr_grpo":
        if max_completion_length is None:
            raise ValueError("dr_grpo divides by max_completion_length: give it")
        return values.sum() / (values.shape[0] * max_completion_length)
    if form in ("dapo", "cispo"):
        if num_items_in_batch is None:
            return values.sum() / mask_BL.sum().clamp(min=1)
        return values.sum() / num_items_in_batch
    raise ValueError(f"form is grpo, bnpo, dr_grpo, dapo or cispo, got {form!r}")
