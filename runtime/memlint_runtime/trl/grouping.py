"""Micro-batches of rows that share prompts, from a generation batch that TRL would shuffle apart.

TRL draws completions group by group, then permutes the rows of the whole generation batch and cuts
it into micro-batches: the completions of a prompt end up in different forward passes. Here the
batch is cut first and the micro-batches are permuted. The rows of each stay together as they were
drawn and scored, so a prompt goes through the model once a micro-batch, and old and new
log-probabilities come from the very same packed rows: their ratio at step 0 is 1, exactly. The
random generator gives what TRL would ask of it, so that generations stay the same.

Each micro-batch is cut to its own longest prompt and completion. The loss is TRL's where an
optimizer step sees the whole generation batch and nothing is normalized by micro-batch (`exactness`
names what is otherwise). What is logged as the mean of micro-batches' means (entropy, KL, clip
ratios) weighs rows by the micro-batch that they are in, which is another one here: with gradient
accumulation those figures differ from TRL's.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor
from trl.trainer.utils import split_tensor_dict

if TYPE_CHECKING:
    from memlint_runtime.trl.trainer import SharedPrompts as _Base
else:
    _Base = object

__all__ = ["GroupedMicroBatches", "grouped_micro_batches"]

logger = logging.getLogger("memlint_runtime.trl")

Batch = dict[str, Any]

_ALONG_PROMPT = ("prompt_ids", "prompt_mask")
_ALONG_COMPLETION = (
    "completion_ids", "completion_mask", "old_per_token_logps", "ref_per_token_logps",
    "sampling_per_token_logps", "importance_sampling_ratio", "tool_mask", "advantages",
)  # fmt: skip


class GroupedMicroBatches(_Base):
    """Mixed in before a TRL trainer that generates: GRPO and RLOO."""

    def _prepare_inputs(self, generation_batch: Any) -> Any:
        trainer: Any = self
        if not (self._prompts_are_shared and trainer.model.training):
            return super()._prepare_inputs(generation_batch)  # type: ignore[misc]
        slices = trainer.args.steps_per_generation
        due = trainer._step % (slices * trainer.num_iterations) == 0
        if due or trainer._buffered_inputs is None:
            scored = trainer._generate_and_score_completions(generation_batch)
            trainer._buffered_inputs = grouped_micro_batches(scored, slices)
        return trainer._buffered_inputs[trainer._step % slices]

    def _say_if_groups_are_cut(self) -> None:
        args = cast(Any, self).args
        rows, group = args.per_device_train_batch_size, args.num_generations
        if not self._prompts_are_shared or rows % group == 0:
            return
        logger.warning(
            "per_device_train_batch_size=%d cuts groups of num_generations=%d completions: a "
            "prompt is forwarded up to %d times instead of once. Set %s; a whole group in a "
            "micro-batch costs little more memory",
            rows,
            group,
            # A group may begin at the last row of a micro-batch, unless they fit each other.
            group // rows if group % rows == 0 else (group + rows - 2) // rows + 1,
            _settings_of_whole_groups(args),
        )


def _settings_of_whole_groups(args: Any) -> str:
    """What to set so that groups stay whole, with as many rows in an optimizer step if possible."""
    rows, group = args.per_device_train_batch_size, args.num_generations
    accumulated = args.gradient_accumulation_steps
    total = rows * accumulated
    if args.steps_per_generation == accumulated and total % group == 0:
        return (
            f"per_device_train_batch_size={group} and "
            f"gradient_accumulation_steps={total // group} for the same optimizer steps"
        )
    return f"per_device_train_batch_size to a multiple of {group}"


def grouped_micro_batches(
    batch: Batch, count: int, permutation: Callable[[int], Tensor] = torch.randperm
) -> list[Batch]:
    """`count` micro-batches of consecutive rows, in random order, each cut to its longest row."""
    rows = len(batch["prompt_ids"])
    slices = split_tensor_dict(batch, count)
    # In the order in which TRL's permutation of the rows first meets each.
    met = dict.fromkeys((permutation(rows) // max(rows // count, 1)).tolist())
    return [_cut_padding(slices[i]) for i in met if i < count]


def _cut_padding(batch: Batch) -> Batch:
    """Without the columns that are padding in every row; at least one column stays."""
    prompt, completion = batch["prompt_mask"].bool().any(0), batch["completion_mask"].bool().any(0)
    used = prompt.nonzero()
    first = int(used[0]) if len(used) else max(len(prompt) - 1, 0)
    used = completion.nonzero()
    last = int(used[-1]) + 1 if len(used) else 1
    result = dict(batch)
    for name in _ALONG_PROMPT:
        result[name] = batch[name][:, first:]
    for name in _ALONG_COMPLETION:
        value = batch.get(name)
        # Values of whole sequences, `[rows]` or `[rows, 1]`, have no columns to cut.
        if isinstance(value, Tensor) and value.dim() == 2 and value.shape[1] == len(completion):
            result[name] = value[:, :last]
    return result
