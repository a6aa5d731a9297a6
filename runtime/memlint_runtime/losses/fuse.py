"""One call that fuses the loss of a model or trainer, whatever it is.

    trainer = SFTTrainer(...)
    fuse(trainer)
    trainer.train()

What: TRL's trainers get `fuse_trl_losses`, `transformers.Trainer` and models `fuse_causal_lm_loss`.
In a trainer, evaluation that wants the loss alone is fused too, and evaluation for metrics or
predictions gets its logits.
Cost: none of its own. What cannot be fused is refused with the reason, not ignored.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from memlint_runtime.integrations import Patch
from memlint_runtime.integrations.patching import bound_to
from memlint_runtime.losses.causal_lm import fuse_causal_lm_loss
from memlint_runtime.losses.trl_losses import fuse_trl_losses

__all__ = ["fuse"]


def fuse(model_or_trainer: Any, *, workspace_bytes: int | None = None) -> Patch:
    """Compute the losses of a model or trainer without logits, until undone.

    Args:
        model_or_trainer: a transformers causal LM, bare or wrapped, or a constructed trainer of
            transformers or TRL.
        workspace_bytes: as in `token_logprobs`.

    Raises ValueError where it cannot be, with the reason.
    """
    if not hasattr(model_or_trainer, "training_step"):
        return fuse_causal_lm_loss(model_or_trainer, workspace_bytes=workspace_bytes)
    trainer = model_or_trainer
    if any(kind.__module__.startswith("trl.") for kind in type(trainer).__mro__):
        return fuse_trl_losses(trainer, workspace_bytes=workspace_bytes)
    for option, given in (
        ("label_smoothing_factor", trainer.args.label_smoothing_factor),
        ("compute_loss_func", getattr(trainer, "compute_loss_func", None)),
    ):
        if given:
            raise ValueError(
                f"{type(trainer).__name__} computes its loss by itself with {option}, from the "
                "logits: leave it out, or leave the loss unfused"
            )
    fused = fuse_causal_lm_loss(trainer.model, workspace_bytes=workspace_bytes)

    def prediction_step(own: Callable[..., Any]) -> Callable[..., Any]:
        def step(
            self: Any, model: Any, inputs: Any, prediction_loss_only: bool, *rest: Any, **more: Any
        ) -> Any:
            fused.loss_alone = bool(prediction_loss_only)
            try:
                return own(self, model, inputs, prediction_loss_only, *rest, **more)
            finally:
                fused.loss_alone = False

        return step

    fused.replace(trainer, "prediction_step", bound_to(trainer, "prediction_step", prediction_step))
    return fused
