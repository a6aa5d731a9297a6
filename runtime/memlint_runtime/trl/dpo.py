"""DPO with prompts forwarded once for both answers; see `memlint_runtime.trl`."""

from __future__ import annotations

from typing import Any

from trl.trainer.dpo_trainer import DPOTrainer as TrlDPOTrainer

from memlint_runtime.trl.trainer import SharedPrompts

__all__ = ["DPOTrainer"]


class DPOTrainer(SharedPrompts, TrlDPOTrainer):
    """`trl.DPOTrainer`, same arguments."""

    _relied_upon = {  # noqa: RUF012
        **SharedPrompts._relied_upon,
        "_precompute_ref_logps": ("self", "dataset", "name", "batch_size"),
    }

    def _precompute_ref_logps(self, dataset: Any, name: str, batch_size: int) -> Any:
        # TRL precomputes while it constructs: the reference has to take the policy's path by then.
        self._share_prompts()
        return super()._precompute_ref_logps(dataset, name, batch_size)
