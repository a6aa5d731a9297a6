"""GRPO with every prompt forwarded once for its group; see `memlint_runtime.trl`."""

from __future__ import annotations

from typing import Any

from trl.trainer.grpo_trainer import GRPOTrainer as TrlGRPOTrainer

from memlint_runtime.trl.grouping import GroupedMicroBatches
from memlint_runtime.trl.trainer import SharedPrompts

__all__ = ["GRPOTrainer"]


class GRPOTrainer(GroupedMicroBatches, SharedPrompts, TrlGRPOTrainer):
    """`trl.GRPOTrainer`, same arguments. Sharing goes as far as a micro-batch holds rows of one
    prompt: `per_device_train_batch_size` of num_generations or a multiple shares all of it, at the
    cost in memory of a fraction of that many rows."""

    _relied_upon = {  # noqa: RUF012
        **SharedPrompts._relied_upon,
        "_prepare_inputs": ("self", "generation_batch"),
        "_generate_and_score_completions": ("self", "inputs"),
        "_get_per_token_logps_and_entropies": (
            "self",
            "model",
            "input_ids",
            "attention_mask",
            "logits_to_keep",
            "batch_size",
        ),
    }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._say_if_groups_are_cut()
