"""GRPO and RLOO with every prompt forwarded once for its group; see `memlint_runtime.trl`."""

from __future__ import annotations

from trl.trainer.grpo_trainer import GRPOTrainer as TrlGRPOTrainer
from trl.trainer.rloo_trainer import RLOOTrainer as TrlRLOOTrainer

from memlint_runtime.trl.grouping import GroupedMicroBatches

__all__ = ["GRPOTrainer", "RLOOTrainer"]


class GRPOTrainer(GroupedMicroBatches, TrlGRPOTrainer):
    """`trl.GRPOTrainer`, same arguments.

    A prompt is forwarded once in an optimizer step, even where micro-batches cut its group:
    `per_device_train_batch_size=1` shares what a whole group in a micro-batch does, in the memory
    of a row. With sharded parameters (FSDP2, ZeRO) or a router's loss only rows of one micro-batch
    share, which is logged.
    """


class RLOOTrainer(GroupedMicroBatches, TrlRLOOTrainer):
    """`trl.RLOOTrainer`, same arguments; prompts are forwarded as by our `GRPOTrainer`."""
