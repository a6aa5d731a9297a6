"""What this package does in a loop, for `transformers.Trainer` and TRL's trainers, one line each.

    trainer = GRPOTrainer(...)
    offload_trainer_activations(trainer)
    trainer.train()

TRL's GRPO, RLOO and Online DPO trainers have no option for activation offloading; those that have
one (`activation_offloading`: SFT, DPO, KTO, Reward) also work with this. Tested with transformers
5.17 and 5.23 and trl 1.16. A trainer whose `training_step` has another signature is refused.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from torch.utils.data import DataLoader

from memlint_runtime.integrations.patching import Patch, owner_of
from memlint_runtime.offload import ActivationOffload, offload_activations
from memlint_runtime.optim import OptimizerInBackward
from memlint_runtime.sampling import TokenBudgetSampler

if TYPE_CHECKING:
    from transformers import Trainer

__all__ = [
    "batch_trainer_by_tokens",
    "offload_trainer_activations",
    "require_trainer",
    "step_trainer_in_backward",
]


def require_trainer(trainer: Any, function: str, otherwise: str) -> None:
    """Raise ValueError unless it is a constructed trainer of transformers, or derived from one.

    function: what was called. otherwise: what serves in a loop without a trainer.
    """
    from transformers import Trainer

    if isinstance(trainer, Trainer):
        return
    got = type(trainer).__name__
    if isinstance(trainer, type):
        got = f"the class {trainer.__name__} itself: make an object of it first"
    raise ValueError(
        f"{function} takes a transformers or TRL trainer, got {got}. In a loop of your own use "
        f"{otherwise}."
    )


def offload_trainer_activations(trainer: Trainer, **options: Any) -> Patch:
    """Run each of the trainer's training steps under `offload_activations`.

    With checkpointing on, the layers' inputs go to the host; without, everything saved does. Old,
    reference and evaluation forwards run without gradients and save nothing.

    Args:
        trainer: any `transformers.Trainer`, TRL's included, before or during training.
        options: of `offload_activations`.

    Returns:
        A handle with `undo()`, and with the counters of the offload (`result`) that is used.

    Raises:
        ValueError: if this is no trainer, if it offloads already, or if its `training_step` is not
            the known one.
    """
    trainer = owner_of(trainer)
    require_trainer(trainer, "offload_trainer_activations", "offload_activations(model)")
    if getattr(trainer.args, "activation_offloading", False):
        raise ValueError(
            f"{type(trainer).__name__} offloads activations already; set activation_offloading="
            f"False to use offload_trainer_activations instead"
        )
    if getattr(trainer.training_step, "func", None) is _step:
        raise ValueError("offload_trainer_activations was already called on this trainer")
    parameters = list(inspect.signature(trainer.training_step).parameters)
    if parameters[:2] != ["model", "inputs"] and parameters[:2] != ["args", "kwargs"]:
        raise ValueError(
            f"offload_trainer_activations knows training_step(model, inputs, ...), as in "
            f"transformers 5.17 to 5.23 and trl 1.16, but {type(trainer).__name__} has "
            f"training_step({', '.join(parameters)}); enter offload_activations() there instead"
        )
    offload = offload_activations(trainer.model, **options)
    step: Any = functools.partial(_step, offload, trainer.training_step)
    patch = Patch(trainer, "the trainer's activations are offloaded", offload)
    patch.replace(trainer, "training_step", step)
    return patch


def _step(offload: ActivationOffload, step: Any, *args: Any, **kwargs: Any) -> Any:
    with offload:
        return step(*args, **kwargs)


def batch_trainer_by_tokens(
    trainer: Trainer, token_budget: int, *, lengths: Sequence[int] | None = None
) -> Patch:
    """Give the trainer batches of at most so many tokens. Call it before `train()`.

    Every rank takes as many batches, of level work; each row is taken once an epoch, save a few at
    its end (`dataloader_drop_last` drops those). Takes the place of `per_device_train_batch_size`.

    Args:
        trainer: any `transformers.Trainer` whose training data has a length.
        token_budget: most tokens in a batch of one rank, padding not counted.
        lengths: tokens of each row; of the data's `input_ids` unless given.

    Returns:
        A handle with `undo()`; the sampler is its `result`.

    Raises:
        ValueError: for what is no trainer, for streamed data, for a row over the budget, and where
            lengths do not fit.
    """
    trainer = owner_of(trainer)
    require_trainer(trainer, "batch_trainer_by_tokens", "TokenBudgetSampler")
    data: Any = trainer.train_dataset
    if not hasattr(data, "__len__"):
        raise ValueError(
            f"batch_trainer_by_tokens needs training data of a known length, got "
            f"{type(data).__name__}: pack streamed data instead (StreamingPacker)"
        )
    if lengths is None:
        from memlint_runtime.lengths import LengthProfile

        lengths = LengthProfile.of(data, column="input_ids").lengths.tolist()
    if len(lengths) != len(data):
        raise ValueError(f"lengths has {len(lengths)} entries, the training data {len(data)} rows")
    args = trainer.args
    sampler = TokenBudgetSampler(
        lengths,
        token_budget,
        rank=args.process_index,
        ranks=args.world_size,
        micro_batches=args.gradient_accumulation_steps,
        seed=args.seed if args.data_seed is None else args.data_seed,
        drop_last=args.dataloader_drop_last,
    )
    patch = Patch(trainer, "the trainer's batches are by tokens", sampler)
    patch.replace(trainer, "get_train_dataloader", functools.partial(_loader, trainer, sampler))
    return patch


class _EpochLoader(DataLoader[Any]):
    """Passes the epoch on to its batch sampler, as `Trainer` expects of what accelerate made."""

    def set_epoch(self, epoch: int) -> None:
        if isinstance(self.batch_sampler, TokenBudgetSampler):
            self.batch_sampler.set_epoch(epoch)


def _loader(trainer: Any, sampler: TokenBudgetSampler) -> DataLoader[Any]:
    """Not prepared by accelerate, which would share this rank's batches out again."""
    data, collator = trainer.train_dataset, trainer.data_collator
    if hasattr(data, "column_names"):
        data = trainer._remove_unused_columns(data, description="training")
    else:
        collator = trainer._get_collator_with_removed_columns(collator, description="training")
    args = trainer.args
    return _EpochLoader(
        data,
        batch_sampler=sampler,
        collate_fn=collator,
        num_workers=args.dataloader_num_workers,
        pin_memory=args.dataloader_pin_memory,
        persistent_workers=args.dataloader_persistent_workers,
        prefetch_factor=args.dataloader_prefetch_factor,
    )


def step_trainer_in_backward(
    trainer: Trainer, *, max_norm_per_parameter: float | None = None
) -> Patch:
    """Give the trainer its own optimizer, stepping inside backward. Call it before `train()`.

    Args:
        trainer: any `transformers.Trainer` on one process.
        max_norm_per_parameter: instead of `max_grad_norm`, which needs all gradients at once.

    Returns:
        A handle with `undo()`; the `OptimizerInBackward` is its `result`.

    Raises:
        ValueError: for what is no trainer, for gradient accumulation, `max_grad_norm`, fp16, and
            all that `OptimizerInBackward` refuses.
    """
    trainer = owner_of(trainer)
    require_trainer(trainer, "step_trainer_in_backward", "OptimizerInBackward")
    args = trainer.args
    if args.gradient_accumulation_steps != 1:
        raise ValueError(
            f"stepping in backward needs gradient_accumulation_steps=1, got "
            f"{args.gradient_accumulation_steps}: a gradient is gone before the next micro-batch"
        )
    if args.max_grad_norm:
        raise ValueError(
            f"stepping in backward cannot clip by the global norm (max_grad_norm="
            f"{args.max_grad_norm}): it is known only when the gradients are gone. Set "
            f"max_grad_norm=0 and, if wanted, max_norm_per_parameter"
        )
    if args.fp16:
        raise ValueError(
            "stepping in backward cannot undo fp16's loss scaling; use bf16=True instead of fp16"
        )
    if args.auto_find_batch_size:
        raise ValueError(
            "stepping in backward changes weights before a step is known to fit: set "
            "auto_find_batch_size=False"
        )
    if trainer.optimizer is None:
        trainer.create_optimizer()
    optimizer: Any = trainer.optimizer
    wrapped = OptimizerInBackward(optimizer, max_norm_per_parameter=max_norm_per_parameter)
    patch = Patch(trainer, "the trainer's optimizer steps in backward", wrapped)
    patch.replace(trainer, "optimizer", wrapped)
    patch.on_undo(wrapped.remove)
    return patch
