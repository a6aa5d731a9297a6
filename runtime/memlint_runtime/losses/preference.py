"""Preference losses over log-probabilities of whole answers: small functions, one per paper.

What: DPO (Rafailov et al. 2023) with the sigmoid, hinge (Zhao et al., SLiC, 2023), IPO (Azar et
al. 2023), robust (Chowdhury et al. 2024) and length-normalised forms and label smoothing (Mitchell
2023); KTO (Ethayarajh et al. 2024); ORPO (Hong et al. 2024); CPO (Xu et al. 2024); SimPO (Meng et
al. 2024). All take sums or means of `token_logprobs`, and return one loss a pair, unreduced.
Why so: token tiles below are exact for every loss up here, where chunks along the batch keep the
weight gradient of each chunk.

Shapes: B pairs (or answers), L tokens of an answer.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

PairForm = Literal["sigmoid", "hinge", "ipo", "robust", "sigmoid_norm"]


def answer_logprobs(
    logprobs_BL: Tensor, mask_BL: Tensor | None = None, *, average: bool = False
) -> Tensor:
    """Sum `[B]` of each answer's token log-probabilities, or their mean (zero for no tokens)."""
    if mask_BL is None:
        if average:
            raise ValueError("the mean needs mask_BL, which says how many tokens an answer has")
        return logprobs_BL.sum(-1)
    total = torch.where(mask_BL.bool(), logprobs_BL, 0.0).sum(-1)
    return total / mask_BL.sum(-1).clamp(min=1) if average else total


def _pair_loss(
    margin_B: Tensor, beta: float, form: PairForm, label_smoothing: float, *, margin: float = 0.0
) -> Tensor:
    """A loss `[B]` of how much better the chosen answer scores."""
    if form == "ipo":
        return (margin_B - 1.0 / (2.0 * beta)).square()
    if form == "hinge":
        return torch.relu(1.0 - beta * margin_B)
    scaled = beta * margin_B - margin
    kept = (1.0 - label_smoothing) * -logsigmoid(scaled)
    flipped = label_smoothing * -logsigmoid(-scaled)
    if form == "robust":
        return (kept - flipped) / (1.0 - 2.0 * label_smoothing)
    if form in ("sigmoid", "sigmoid_norm"):
        return kept + flipped
    raise ValueError(f"form is sigmoid, sigmoid_norm, hinge, ipo or robust, got {form!r}")


def dpo_loss(
    chosen_B: Tensor,
    rejected_B: Tensor,
    reference_chosen_B: Tensor,
    reference_rejected_B: Tensor,
    *,
    beta: float = 0.1,
    form: PairForm = "sigmoid",
    label_smoothing: float = 0.0,
    chosen_tokens_B: Tensor | None = None,
    rejected_tokens_B: Tensor | None = None,
) -> Tensor:
    """DPO's loss `[B]` from summed log-probabilities of the policy and of the reference.

    `ipo` and `sigmoid_norm` compare means per token and need the answers' token counts.
    """
    if form == "robust" and not 0.0 <= label_smoothing < 0.5:
        raise ValueError(f"robust DPO wants label_smoothing in [0, 0.5), got {label_smoothing}")
    chosen, rejected = chosen_B - reference_chosen_B, rejected_B - reference_rejected_B
    if form in ("ipo", "sigmoid_norm"):
        if chosen_tokens_B is None or rejected_tokens_B is None:
            raise ValueError(f"form {form!r} needs chosen_tokens_B and rejected_tokens_B")
        chosen = chosen / chosen_tokens_B.clamp(min=1)
        rejected = rejected / rejected_tokens_B.clamp(min=1)
    return _pair_loss(chosen - rejected, beta, form, label_smoothing)


def kto_loss(
    policy_B: Tensor,
    reference_B: Tensor,
    desirable_B: Tensor,
    kl: Tensor | float,
    *,
    beta: float = 0.1,
    desirable_weight: float = 1.0,
    undesirable_weight: float = 1.0,
) -> Tensor:
    """KTO's loss `[B]`. `kl`: the batch's detached, non-negative estimate of the divergence."""
    gain = beta * (policy_B - reference_B - kl)
    good = desirable_weight * (1.0 - torch.sigmoid(gain))
    bad = undesirable_weight * (1.0 - torch.sigmoid(-gain))
    return torch.where(desirable_B.bool(), good, bad)


def cpo_loss(
    chosen_B: Tensor,
    rejected_B: Tensor,
    *,
    beta: float = 0.1,
    form: PairForm = "sigmoid",
    label_smoothing: float = 0.0,
    chosen_nll_B: Tensor | None = None,
    alpha: float = 1.0,
) -> Tensor:
    """CPO's loss `[B]`: DPO without a reference, and `alpha` times the chosen answer's loss."""
    loss = _pair_loss(chosen_B - rejected_B, beta, form, label_smoothing)
    return loss if chosen_nll_B is None else loss + alpha * chosen_nll_B


def simpo_loss(
    chosen_mean_B: Tensor,
    rejected_mean_B: Tensor,
    *,
    beta: float = 2.0,
    gamma: float = 0.5,
    label_smoothing: float = 0.0,
) -> Tensor:
    """SimPO's loss `[B]` from mean log-probabilities; `gamma` is the margin to win by."""
    return _pair_loss(
        chosen_mean_B - rejected_mean_B, beta, "sigmoid", label_smoothing, margin=gamma
    )


def orpo_loss(
    chosen_mean_B: Tensor, rejected_mean_B: Tensor, chosen_nll: Tensor, *, beta: float = 0.1
) -> Tensor:
    """ORPO's loss `[B]` from mean log-probabilities and the chosen answers' own loss."""
    odds = (chosen_mean_B - rejected_mean_B) - (
        _log_complement(chosen_mean_B) - _log_complement(rejected_mean_B)
    )
    return chosen_nll - beta * logsigmoid(odds)


def _log_complement(logprob: Tensor) -> Tensor:
    """log(1 - p), accurate for p near 0 and near 1 (Maechler 2012); finite for an empty answer."""
    logprob = logprob.clamp(max=-torch.finfo(logprob.dtype).eps)
    likely = logprob > -0.6931471805599453
    near_one = torch.where(likely, logprob, -1.0)
    near_zero = torch.where(likely, -1.0, logprob)
    return torch.where(likely, (-torch.expm1(near_one)).log(), torch.log1p(-near_zero.exp()))
