"""TRL's trainers with every prompt forwarded once: change the import, change nothing else.

    from memlint_runtime.trl import GRPOTrainer  # instead of: from trl import GRPOTrainer

Subclasses of TRL's own, with the same arguments and the same losses, save where micro-batches show:
`reasons_training_differs(args)` names what of a config does that. Subclasses, TRL's experimental
ones among them, get it by `share_prompts_in(TheirTrainer)`. Tested with trl 1.16.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from memlint_runtime import names_of

if TYPE_CHECKING:
    from memlint_runtime.trl.dpo import DPOTrainer
    from memlint_runtime.trl.exactness import reasons_training_differs
    from memlint_runtime.trl.grpo import GRPOTrainer, RLOOTrainer
    from memlint_runtime.trl.subclasses import share_prompts_in

__all__ = [
    "DPOTrainer", "GRPOTrainer", "RLOOTrainer", "reasons_training_differs", "share_prompts_in",
]  # fmt: skip

# Each trainer of TRL takes a second or more to import.
_HOMES = {
    "DPOTrainer": "dpo",
    "GRPOTrainer": "grpo",
    "RLOOTrainer": "grpo",
    "reasons_training_differs": "exactness",
    "share_prompts_in": "subclasses",
}
__getattr__ = names_of(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
