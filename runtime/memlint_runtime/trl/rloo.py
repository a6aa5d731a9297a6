"""RLOO with every prompt forwarded once for its group; see `memlint_runtime.trl`."""

from __future__ import annotations

from trl.trainer.rloo_trainer import RLOOTrainer as TrlRLOOTrainer

from memlint_runtime.trl.grouping import GroupedMicroBatches

__all__ = ["RLOOTrainer"]


class RLOOTrainer(GroupedMicroBatches, TrlRLOOTrainer):
    """`trl.RLOOTrainer`, same arguments; prompts are forwarded as by our `GRPOTrainer`."""
