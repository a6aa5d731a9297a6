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

from memlint_runtime.integrations import Patch, require_model
from memlint_runtime.integrations.patching import bound_to, owner_of
from memlint_runtime.losses.causal_lm import fuse_causal_lm_loss
from memlint_runtime.losses.other_backends import Backend
from memlint_runtime.losses.trl_losses import fuse_trl_losses

__all__ = ["fuse"]


def fuse(
    model_or_trainer: Any,
    *,
    label_smoothing: float = 0.0,
    z_loss: float = 0.0,
    dynamic: bool = False,
    backend: Backend = "tiles",
    workspace_bytes: int | None = None,
) -> Patch:
    """Compute the losses of a model or trainer without logits, until undone.

    Args:
        model_or_trainer: a transformers causal LM, bare or wrapped, or a constructed trainer of
            transformers or TRL.
        label_smoothing, z_loss, dynamic: of a cross entropy, as in `cross_entropy`; a trainer of
            TRL computes its own loss, and takes none of them.
        backend: "tiles"; for models and `transformers.Trainer` also "torch" for PyTorch's own
            chunks (2.13 and later), or "liger".
        workspace_bytes: as in `token_logprobs`.

    In training `outputs.logits` is None, and so is `outputs[1]`: a trainer whose own `compute_loss`
    reads logits cannot be fused, and its error says so.

    Raises ValueError where it cannot be, with the reason; TypeError for what is neither a model nor
    a trainer.
    """
    options: dict[str, Any] = {
        "label_smoothing": label_smoothing, "z_loss": z_loss, "dynamic": dynamic,
        "backend": backend, "workspace_bytes": workspace_bytes,
    }  # fmt: skip
    model_or_trainer = owner_of(model_or_trainer)
    if isinstance(model_or_trainer, type) or not hasattr(model_or_trainer, "training_step"):
        require_model(model_or_trainer, "a model or a constructed trainer")
        return fuse_causal_lm_loss(model_or_trainer, **options)
    trainer = model_or_trainer
    from_trl = [kind for kind in type(trainer).__mro__ if kind.__module__.startswith("trl.")]
    if from_trl:
        _refuse_options(trainer, options)
    # Of TRL's trainers the supervised one leaves both options to transformers.
    if from_trl and not any(kind.__name__ == "SFTTrainer" for kind in from_trl):
        return fuse_trl_losses(trainer, workspace_bytes=workspace_bytes)
    for option, given in (
        ("label_smoothing_factor", trainer.args.label_smoothing_factor),
        ("compute_loss_func", getattr(trainer, "compute_loss_func", None)),
    ):
        if given:
            raise ValueError(
                f"{type(trainer).__name__} computes its loss by itself with {option}, from the "
                "logits: leave it out, or leave the loss unfused (label_smoothing of fuse smooths "
                "a transformers.Trainer's loss)"
            )
    if from_trl:
        return fuse_trl_losses(trainer, workspace_bytes=workspace_bytes)
    fused = fuse_causal_lm_loss(trainer.model, **options)

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
    if type(trainer).compute_loss.__module__.split(".")[0] != "transformers":
        fused.replace(
            trainer, "compute_loss", bound_to(trainer, "compute_loss", _telling_of_logits)
        )
    return fused


def _refuse_options(trainer: Any, options: dict[str, Any]) -> None:
    """Raise ValueError for what the loss of a trainer of TRL's does not know."""
    usual = {"backend": "tiles", "workspace_bytes": options["workspace_bytes"]}
    changed = [name for name, value in options.items() if value != usual.get(name, 0)]
    if changed:
        raise ValueError(
            f"{type(trainer).__name__} computes its own loss from the log-probabilities, which "
            f"knows no {', '.join(changed)}: leave that out here, and set in its configuration "
            "what that has for it"
        )


def _telling_of_logits(own: Callable[..., Any]) -> Callable[..., Any]:
    """A trainer's own `compute_loss`, whose errors may come of logits that are None."""

    def compute_loss(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return own(self, *args, **kwargs)
        except (AttributeError, IndexError, TypeError) as error:
            error.add_note(
                f"fuse(trainer) is in force: while training, outputs.logits is None. If "
                f"{type(self).__name__}.compute_loss reads the logits, undo(trainer) and leave its "
                "loss unfused, or use memlint_runtime.losses.cross_entropy on the hidden states"
            )
            raise

    return compute_loss
