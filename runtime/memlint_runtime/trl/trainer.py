"""What the shared-prompt trainers have in common: checks at construction, sharing, metrics.

Refused at construction, with the reason: what sharing would silently change (dropout, sequence
parallelism) or cannot do (some layers that are not attention, a compiled forward). A
vision-language model that cannot share prompts is trained as TRL does it, prompts repeated, and
that is said with the reason.
"""

from __future__ import annotations

import logging
from typing import Any

from transformers import PreTrainedModel

from memlint_runtime.integrations.modes import require_parameters
from memlint_runtime.shared_prompt import Sharing
from memlint_runtime.shared_prompt.logprobs import reason_against
from memlint_runtime.shared_prompt.models import causal_lm_inside
from memlint_runtime.shared_prompt.runs import require_sharing
from memlint_runtime.trl.exactness import reasons_training_differs
from memlint_runtime.trl.forward import TokenCount, kept_prompts_of, share_for, share_prompts

__all__ = ["SharedPrompts"]

logger = logging.getLogger("memlint_runtime.trl")


class SharedPrompts:
    """Mixed in before a TRL trainer. `sharing` may be set on a subclass, for a token budget.

    Raises TypeError at construction where that is no `Sharing`.
    """

    sharing: Sharing = Sharing()
    _prompt_is_kept = False
    _prompts_are_shared = False

    # TRL's methods that are called or overridden here, with the parameters they must have.
    _relied_upon: dict[str, tuple[str, ...]] = {  # noqa: RUF012 (TRL's classes are no dataclasses)
        "compute_loss": ("self", "model", "inputs", "return_outputs", "num_items_in_batch")
    }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        require_parameters(type(self), self._relied_upon)
        require_sharing(self.sharing)
        super().__init__(*args, **kwargs)
        self._share_prompts()

    def _share_prompts(self) -> None:
        """Check, then wrap the forward of policy and reference. Doing it again changes nothing."""
        trainer: Any = self
        name = type(self).__name__
        self._shared_tokens = getattr(self, "_shared_tokens", TokenCount())
        self._prompts_are_shared = False
        inside = causal_lm_inside(trainer.model)
        if inside.config.get_text_config() is not inside.config:
            reason = reason_against(inside, training=True)
            if reason is not None:
                logger.warning("%s repeats prompts as TRL does: %s", name, reason)
                return
        self._refuse_what_cannot_be_shared(trainer, name)
        self._say_where_training_differs(trainer, name)
        for model in self._scoring_models():
            share_prompts(model, self.sharing, self._shared_tokens)
        self._prompts_are_shared = True

    def _scoring_models(self) -> list[PreTrainedModel]:
        """The policy and, where there is one, the reference."""
        trainer: Any = self
        models = (trainer.model, getattr(trainer, "ref_model", None))
        return [causal_lm_inside(model) for model in models if model is not None]

    def _share_as_set_here(self) -> None:
        """Before the models score for this trainer: they may be another's, too."""
        if self._prompts_are_shared:
            require_sharing(self.sharing)  # it may have been set since
            for model in self._scoring_models():
                share_for(model, self.sharing, self._shared_tokens)

    @staticmethod
    def _refuse_what_cannot_be_shared(trainer: Any, name: str) -> None:
        args = trainer.args
        inside = causal_lm_inside(trainer.model)
        reason = reason_against(inside, training=True)
        if reason is not None:
            raise ValueError(
                f"{name} cannot share prompts: {reason}. Use trl.{name} for this model as it is"
            )
        if args.torch_compile:
            raise ValueError(
                f"{name} cannot share prompts under torch_compile=True: packed rows change their "
                f"length at every step. Set it to False, or use trl.{name}"
            )
        parallel = getattr(trainer.accelerator, "parallelism_config", None)
        for kind in ("cp_size", "sp_size"):
            if parallel is not None and getattr(parallel, kind, 1) > 1:
                raise ValueError(
                    f"{name} cannot share prompts under sequence parallelism "
                    f"({kind}={getattr(parallel, kind)}): a packed row is not cut along its "
                    f"tokens. Set it to 1, or use trl.{name}"
                )

    @staticmethod
    def _say_where_training_differs(trainer: Any, name: str) -> None:
        router_loss = bool(getattr(trainer, "aux_loss_enabled", False))
        reasons = reasons_training_differs(trainer.args, router_loss=router_loss)
        if reasons:
            logger.warning(
                "%s trains on micro-batches of whole groups, trl.%s on mixed ones, so that their "
                "numbers differ here: %s",
                name,
                name,
                "; ".join(reasons),
            )

    def compute_loss(
        self, model: Any, inputs: Any, return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        trainer: Any = super()
        owner: Any = self
        self._share_as_set_here()
        count = self._shared_tokens
        training, before = owner.model.training, (count.forwarded, count.repeated)
        if not (training and self._prompt_is_kept):
            count.forwarded = count.repeated = 0
        result = trainer.compute_loss(model, inputs, return_outputs, num_items_in_batch)
        if training:
            # A prompt that is kept stands for the rows of all its micro-batches, not the first's.
            prompts = kept_prompts_of(owner.model)
            self._prompt_is_kept = prompts is not None and prompts.waiting
        if count.forwarded and not (training and self._prompt_is_kept):
            metrics = owner._metrics["train" if training else "eval"]
            metrics["shared_prompt/rho"].append(count.repeated / count.forwarded)
            metrics["shared_prompt/tokens_saved"].append(float(count.repeated - count.forwarded))
        if not training:  # perhaps amid a step
            count.forwarded, count.repeated = before
        return result
