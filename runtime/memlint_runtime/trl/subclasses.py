"""Any subclass of TRL's GRPO, RLOO and DPO trainers, with every prompt forwarded once.

    from trl.experimental.gmpo import GMPOTrainer
    trainer = share_prompts_in(GMPOTrainer)(model, reward_funcs, args=..., train_dataset=...)

What: TRL's experimental trainers and a script's own, which change the loss and leave the scoring to
the class above. Their scoring goes through the model's fused head, where prompts are shared, so
that the same classes serve as for TRL's own; no method of theirs is replaced.
Cost: as for the trainer above.
"""

from __future__ import annotations

from typing import TypeVar

from memlint_runtime.trl.dpo import DPOTrainer
from memlint_runtime.trl.grpo import GRPOTrainer, RLOOTrainer
from memlint_runtime.trl.trainer import SharedPrompts

__all__ = ["share_prompts_in"]

_T = TypeVar("_T")

_PACKED_BY_ITSELF = ("AsyncGRPOTrainer",)


def share_prompts_in(trainer: type[_T]) -> type[_T]:
    """A subclass of `trainer`, of the same name and arguments, that forwards every prompt once.

    trainer: a subclass of `trl.GRPOTrainer`, `trl.RLOOTrainer` or `trl.DPOTrainer`, or one of them;
        one that shares prompts already is returned as it is.

    Raises ValueError for others: TRL's asynchronous GRPO packs what its rows share by itself, and
    the rest score completions in ways of their own.
    """
    if issubclass(trainer, SharedPrompts):
        return trainer
    for ours in (GRPOTrainer, RLOOTrainer, DPOTrainer):
        theirs = ours.__mro__[ours.__mro__.index(SharedPrompts) + 1 :]
        if issubclass(trainer, next(kind for kind in theirs if kind.__module__[:4] == "trl.")):
            names = {"__doc__": trainer.__doc__, "__module__": __name__}
            made: type[_T] = type(trainer.__name__, (ours, trainer), names)
            return made
    if any(kind.__name__ in _PACKED_BY_ITSELF for kind in trainer.__mro__):
        raise ValueError(
            f"{trainer.__name__} packs the tokens that its rows share by itself: use it as it is"
        )
    raise ValueError(
        f"share_prompts_in takes a subclass of trl's GRPOTrainer, RLOOTrainer or DPOTrainer, got "
        f"{trainer.__name__}: it scores completions in another way. Use it as it is, or call "
        f"memlint_runtime.shared_prompt_logprobs where it scores them"
    )
