"""Where a shared prompt trains what TRL trains, step by step, and where micro-batches show.

TRL permutes the rows of a generation batch before it cuts micro-batches; the shared-prompt GRPO and
RLOO trainers keep the rows of a prompt together. The rows of the whole generation batch are the
same, so that nothing differs where an optimizer step sees all of them and its loss is a sum over
rows or tokens. Elsewhere training is as valid, and other numbers. DPO's micro-batches are TRL's.

What is only logged as a mean over each micro-batch (entropy, KL, clip ratios) differs wherever
micro-batches hold other rows, though nothing is trained on it.

No import of torch or TRL, so that anyone can ask: `args` is a config, or whatever has its fields.
"""

from __future__ import annotations

from typing import Any

__all__ = ["reasons_training_differs"]

# Normalized by the tokens of the micro-batch; the other losses of GRPO by rows, by a constant or
# by the tokens of the whole generation batch.
_NORMALIZED_BY_MICRO_BATCH = ("bnpo",)


def reasons_training_differs(args: Any, *, router_loss: bool = False) -> list[str]:
    """Why shared-prompt training with this config gives other numbers than TRL's; empty where not.

    Args:
        args: a `GRPOConfig` or `RLOOConfig` (any other config gives no reason), or an object with
            their fields; one that is missing has TRL's default.
        router_loss: whether the routers' balancing loss of a mixture of experts is added.
    """
    if not hasattr(args, "num_generations"):
        return []
    accumulated = _field(args, "gradient_accumulation_steps", 1)
    slices = _field(args, "steps_per_generation", None) or accumulated
    if slices == 1:
        return []
    reasons = []
    if accumulated % slices:
        reasons.append(
            f"steps_per_generation={slices} is no divisor of gradient_accumulation_steps="
            f"{accumulated}: an optimizer step sees part of the generation batch, here whole "
            "groups, in TRL rows of all"
        )
    loss = _field(args, "loss_type", None)
    if loss in _NORMALIZED_BY_MICRO_BATCH:
        reasons.append(f"loss_type={loss!r} is normalized by the tokens of each micro-batch")
    if _field(args, "top_entropy_quantile", 1.0) < 1.0:
        reasons.append("top_entropy_quantile takes its threshold from each micro-batch")
    if _field(args, "entropy_coef", 0.0) or _field(args, "use_adaptive_entropy", False):
        reasons.append("the entropy bonus is a mean over the tokens of each micro-batch")
    if router_loss:
        reasons.append("the routers' balancing loss is computed for each micro-batch")
    return reasons


def _field(args: Any, name: str, default: Any) -> Any:
    value = getattr(args, name, None)
    return default if value is None else value
