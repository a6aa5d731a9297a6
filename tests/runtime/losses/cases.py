"""Every loss twice: over tiles, and written out over all logits after its paper."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from memlint_runtime import losses
from torch import Tensor
from torch.nn.functional import cross_entropy

from tests.runtime.losses.plain import plain_logits, plain_statistics

# (hidden [B, L, D], weight [V, D], target [B, L], head options) -> scalar
Loss = Callable[[Tensor, Tensor, Tensor, dict[str, Any]], Tensor]


@dataclass(frozen=True)
class Case:
    ours: Loss
    plain: Loss


def _cross_entropy(**options: Any) -> Loss:
    def ours(hidden: Tensor, weight: Tensor, target: Tensor, head: dict[str, Any]) -> Tensor:
        extra = dict(options)
        if extra.pop("weighted", False):
            extra["token_weights"] = _token_weights(target)
        return losses.cross_entropy(hidden, weight, target, **extra, **head)

    return ours


def _token_weights(target: Tensor) -> Tensor:
    return torch.linspace(0.5, 2.0, target.numel()).view(target.shape)


def _plain_cross_entropy(
    hidden: Tensor,
    weight: Tensor,
    target: Tensor,
    head: dict[str, Any],
    *,
    label_smoothing: float = 0.0,
    z_loss: float = 0.0,
    dynamic: bool = False,
    weighted: bool = False,
    num_items_in_batch: float | None = None,
) -> Tensor:
    logits = plain_logits(hidden, weight, **head)
    flat, target = logits.flatten(0, -2), target.flatten()
    token = cross_entropy(
        flat, target, ignore_index=-100, reduction="none", label_smoothing=label_smoothing
    )
    counted = (target != -100).to(token.dtype)
    if dynamic:
        token = token * (-token).exp().detach()
    token = token + z_loss * flat.logsumexp(-1).square() * counted
    total = counted
    if weighted:
        weights = _token_weights(target)
        token, total = token * weights, counted * weights
    if num_items_in_batch is not None:
        return token.sum() / num_items_in_batch
    return token.sum() / total.sum()


def _answers(found: Tensor, target: Tensor) -> tuple[Tensor, ...]:
    """Sums of chosen and rejected answers, and their token counts."""
    counts = (target >= 0).sum(-1).clamp(min=1)
    return *found.sum(-1).chunk(2), *counts.chunk(2)


def _reference(values: Tensor) -> Tensor:
    """Reference log-probabilities, unlike the policy's but in their range."""
    return -8.0 - 0.7 * torch.arange(len(values)).to(values.dtype)


def _pair(ours: Callable[..., Tensor], plain: Callable[..., Tensor]) -> Case:
    def over(source: Callable[..., Any], loss: Callable[..., Tensor]) -> Loss:
        def run(hidden: Tensor, weight: Tensor, target: Tensor, head: dict[str, Any]) -> Tensor:
            return loss(source(hidden, weight, target, head), target).mean()

        return run

    return Case(over(_fused, ours), over(_plain, plain))


def _fused(hidden: Tensor, weight: Tensor, target: Tensor, head: dict[str, Any]) -> Tensor:
    return losses.token_logprobs(hidden, weight, target, **head)


def _plain(hidden: Tensor, weight: Tensor, target: Tensor, head: dict[str, Any]) -> Tensor:
    return plain_statistics(hidden, weight, target, **head)[0]


def _dpo(form: str, label_smoothing: float = 0.0, beta: float = 0.3) -> Case:
    def ours(found: Tensor, target: Tensor) -> Tensor:
        chosen, rejected, chosen_tokens, rejected_tokens = _answers(found, target)
        return losses.dpo_loss(
            chosen,
            rejected,
            _reference(chosen),
            _reference(rejected) - 0.3,
            beta=beta,
            form=form,  # type: ignore[arg-type]
            label_smoothing=label_smoothing,
            chosen_tokens_B=chosen_tokens,
            rejected_tokens_B=rejected_tokens,
        )

    def plain(found: Tensor, target: Tensor) -> Tensor:
        chosen, rejected, chosen_tokens, rejected_tokens = _answers(found, target)
        left, right = chosen - _reference(chosen), rejected - _reference(rejected) + 0.3
        if form in ("ipo", "sigmoid_norm"):
            left, right = left / chosen_tokens, right / rejected_tokens
        gap = left - right
        if form == "ipo":
            return (gap - 0.5 / beta) ** 2
        if form == "hinge":
            return (1 - beta * gap).clamp(min=0)
        win, lose = torch.sigmoid(beta * gap).log(), torch.sigmoid(-beta * gap).log()
        if form == "robust":
            noisy = -(1 - label_smoothing) * win + label_smoothing * lose
            return noisy / (1 - 2 * label_smoothing)
        return -(1 - label_smoothing) * win - label_smoothing * lose

    return _pair(ours, plain)


def _kto() -> Case:
    wanted = torch.tensor([True, False, True, False])

    def ours(found: Tensor, target: Tensor) -> Tensor:
        sums = found.sum(-1)
        return losses.kto_loss(sums, _reference(sums), wanted, 0.4, beta=0.2, desirable_weight=1.5)

    def plain(found: Tensor, target: Tensor) -> Tensor:
        sums = found.sum(-1)
        gap = sums - _reference(sums) - 0.4
        good, bad = 1 - torch.sigmoid(0.2 * gap), 1 - torch.sigmoid(-0.2 * gap)
        return torch.where(wanted, 1.5 * good, bad)

    return _pair(ours, plain)


def _reference_free(name: str) -> Case:
    def ours(found: Tensor, target: Tensor) -> Tensor:
        chosen, rejected, left, right = _answers(found, target)
        nll = -chosen / left
        if name == "orpo":
            return losses.orpo_loss(chosen / left, rejected / right, nll.mean(), beta=0.3)
        if name == "simpo":
            return losses.simpo_loss(chosen / left, rejected / right, beta=1.5, gamma=0.4)
        return losses.cpo_loss(
            chosen, rejected, beta=0.2, label_smoothing=0.1, chosen_nll_B=nll, alpha=0.7
        )

    def plain(found: Tensor, target: Tensor) -> Tensor:
        chosen, rejected, left, right = _answers(found, target)
        good, bad = chosen / left, rejected / right
        if name == "orpo":
            odds = (good.exp() / (1 - good.exp())) / (bad.exp() / (1 - bad.exp()))
            if not good.any():  # no tokens: both odds are infinite, and equal
                odds = torch.ones_like(good) + 0.0 * good
            return -good.mean() - 0.3 * torch.sigmoid(odds.log()).log()
        if name == "simpo":
            return -torch.sigmoid(1.5 * (good - bad) - 0.4).log()
        gap = 0.2 * (chosen - rejected)
        pair = -0.9 * torch.sigmoid(gap).log() - 0.1 * torch.sigmoid(-gap).log()
        return pair - 0.7 * good

    return _pair(ours, plain)


def _policy(form: str, **options: Any) -> Case:
    entropy = options.get("entropy_coefficient", 0.0)
    level = options.get("importance", "token")
    beta = options.get("beta", 0.0)

    def inputs(found: Tensor, target: Tensor) -> tuple[Tensor, ...]:
        mask = (target >= 0).to(found.dtype)
        steps = torch.linspace(-0.5, 0.5, found.numel()).view(found.shape).to(found.dtype)
        old, reference = steps - 4.0, -0.7 * steps - 4.5
        return torch.tensor([1.0, -0.5, 0.3, -2.0]).to(found.dtype), mask, old, reference

    def ours(hidden: Tensor, weight: Tensor, target: Tensor, head: dict[str, Any]) -> Tensor:
        found, entropies = losses.token_logprobs(hidden, weight, target, entropy=True, **head)
        advantages, mask, old, reference = inputs(found, target)
        return losses.policy_loss(
            found,
            advantages,
            mask,
            form=form,  # type: ignore[arg-type]
            old_logprobs_BL=old,
            reference_logprobs_BL=reference,
            entropies_BL=entropies,
            max_completion_length=16,
            num_items_in_batch=9.0,
            **options,
        )

    def plain(hidden: Tensor, weight: Tensor, target: Tensor, head: dict[str, Any]) -> Tensor:
        found, _, entropies, _ = plain_statistics(hidden, weight, target, **head)
        advantages, mask, old, reference = inputs(found, target)
        lengths = mask.sum(-1, keepdim=True).clamp(min=1)
        ratio = (found - old).exp()
        if level == "sequence":
            ratio = (((found - old) * mask).sum(-1, keepdim=True) / lengths).exp()
        gain = advantages[:, None]
        if form == "cispo":
            token = -ratio.clamp(max=options["epsilon_high"]).detach() * gain * found
        else:
            high = 1 + options.get("epsilon_high", 0.2)
            capped = ratio.clamp(max=options.get("delta", math.inf))
            token = -torch.min(capped * gain, ratio.clamp(0.8, high) * gain)
        if beta:
            apart = (reference - found).exp() - (reference - found) - 1
            token = token + beta * apart * (ratio if options.get("bias_corrected_kl") else 1.0)
        token = token * mask
        total = {
            "grpo": (token.sum(-1) / lengths[:, 0]).mean(),
            "bnpo": token.sum() / mask.sum().clamp(min=1),
            "dr_grpo": token.sum() / (len(token) * 16),
        }.get(form, token.sum() / 9.0)
        bonus = (entropies * mask).sum() / mask.sum().clamp(min=1)
        return total - entropy * bonus

    return Case(ours, plain)


def _distillation(divergence: str, share: float = 0.3) -> Case:
    def teacher(hidden: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        random = torch.Generator().manual_seed(7)
        states = torch.randn(*hidden.shape[:-1], 5, generator=random)
        return states.to(hidden), torch.randn(len(weight), 5, generator=random).to(weight)

    def ours(hidden: Tensor, weight: Tensor, target: Tensor, head: dict[str, Any]) -> Tensor:
        states, other = teacher(hidden, weight)
        head = dict(head)
        keep = {"workspace_bytes": head.pop("workspace_bytes", None)}
        return losses.distillation_loss(
            hidden,
            losses.OutputHead(weight, **head),
            states,
            other,
            target >= 0,
            divergence=divergence,  # type: ignore[arg-type]
            share=share,
            temperature=1.4,
            **keep,
        ).sum()

    def plain(hidden: Tensor, weight: Tensor, target: Tensor, head: dict[str, Any]) -> Tensor:
        states, other = teacher(hidden, weight)
        log_p = plain_logits(hidden, weight, temperature=1.4, **head).log_softmax(-1)
        log_q = plain_logits(states, other, temperature=1.4).log_softmax(-1)
        p, q = log_p.exp(), log_q.exp()
        if divergence == "forward_kl":
            token = q * (log_q - log_p)
        elif divergence == "reverse_kl":
            token = p * (log_p - log_q)
        else:
            mixture = (share * q + (1 - share) * p).log()
            token = share * q * (log_q - mixture) + (1 - share) * p * (log_p - mixture)
        return torch.where(target >= 0, token.sum(-1), 0.0).sum()

    return Case(ours, plain)


_CROSS_ENTROPIES: dict[str, dict[str, Any]] = {
    "cross_entropy": {},
    "label_smoothing": {"label_smoothing": 0.1},
    "z_loss": {"z_loss": 1e-2},
    "token_weights": {"weighted": True},
    "dft": {"dynamic": True},
    "num_items_in_batch": {"num_items_in_batch": 17.0},
    "all_at_once": {"label_smoothing": 0.2, "z_loss": 1e-2, "weighted": True},
}


def _cross_entropy_case(options: dict[str, Any]) -> Case:
    def plain(hidden: Tensor, weight: Tensor, target: Tensor, head: dict[str, Any]) -> Tensor:
        return _plain_cross_entropy(hidden, weight, target, head, **options)

    return Case(_cross_entropy(**options), plain)


CASES: dict[str, Case] = {
    **{name: _cross_entropy_case(options) for name, options in _CROSS_ENTROPIES.items()},
    "dpo_sigmoid": _dpo("sigmoid"),
    "dpo_smoothed": _dpo("sigmoid", 0.1),
    "dpo_hinge": _dpo("hinge"),
    "dpo_ipo": _dpo("ipo"),
    "dpo_robust": _dpo("robust", 0.2),
    "dpo_length_normalised": _dpo("sigmoid_norm"),
    "kto": _kto(),
    "orpo": _reference_free("orpo"),
    "cpo": _reference_free("cpo"),
    "simpo": _reference_free("simpo"),
    "grpo": _policy("grpo"),
    "bnpo": _policy("bnpo"),
    "dr_grpo": _policy("dr_grpo"),
    "dapo": _policy("dapo", epsilon_high=0.28),
    "cispo": _policy("cispo", epsilon_high=1.2),
    "gspo": _policy("grpo", importance="sequence"),
    "two_sided": _policy("grpo", delta=1.1),
    "kl": _policy("bnpo", beta=0.1),
    "kl_bias_corrected": _policy("dr_grpo", beta=0.1, bias_corrected_kl=True),
    "entropy_bonus": _policy("dapo", entropy_coefficient=0.05),
    "forward_kl": _distillation("forward_kl"),
    "reverse_kl": _distillation("reverse_kl"),
    "jensen_shannon": _distillation("jensen_shannon"),
}
