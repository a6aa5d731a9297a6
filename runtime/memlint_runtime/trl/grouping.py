"""Micro-batches of rows that share prompts, from a generation batch that TRL would shuffle apart.

TRL draws completions group by group, then permutes the rows of the whole generation batch and cuts
it into micro-batches: the completions of a prompt end up in different forward passes. Here the
batch is cut first and the micro-batches are permuted. The rows of each stay together as they were
drawn and scored, so a prompt goes through the model once a micro-batch, and old and new
log-probabilities come from the very same packed rows: their ratio at step 0 is 1, exactly. The
random generator gives what TRL would ask of it, so that generations stay the same.

Micro-batches that cut groups, down to one row each, stay in order as far as they share prompts, and
a prompt is kept from its first micro-batch in an optimizer step to its last (`shared_prompt.kept`)
where that saves a tenth of the tokens. The rows and the loss of each are as configured, so that
nothing else changes.

Each micro-batch is cut to its own longest prompt and completion. The loss is TRL's where an
optimizer step sees the whole generation batch and nothing is normalized by micro-batch (`exactness`
names what is otherwise). What is logged as the mean of micro-batches' means (entropy, KL, clip
ratios) weighs rows by the micro-batch that they are in, which is another one here: with gradient
accumulation those figures differ from TRL's.
"""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, cast

import torch
from torch import Tensor
from transformers import TrainerCallback
from trl.trainer.utils import (
    split_pixel_values_by_grid,
    split_tensor_dict,
    unsplit_pixel_values_by_grid,
)

from memlint_runtime.integrations import Patch
from memlint_runtime.integrations.patching import bound_to
from memlint_runtime.shared_prompt.kept import prompts_of, tokens_of
from memlint_runtime.shared_prompt.logprobs import can_go_in_phases
from memlint_runtime.shared_prompt.models import causal_lm_inside
from memlint_runtime.shared_prompt.runs import PaddedRows
from memlint_runtime.trl.forward import kept_prompts_of, prompts_kept_apart
from memlint_runtime.trl.images import IMAGE_INPUTS
from memlint_runtime.trl.trainer import SharedPrompts

__all__ = ["GroupedMicroBatches", "calls_of_cut_prompts", "grouped_micro_batches"]

logger = logging.getLogger("memlint_runtime.trl")

Batch = dict[str, Any]

# Of the tokens of a prompt's rows, the share that has to be saved: to forward it by itself, and to
# join attention over it with attention over each row, costs about as much (on a CPU, tiny models).
LEAST_SAVED = 0.1

_ALONG_PROMPT = ("prompt_ids", "prompt_mask")
_ALONG_BOTH = ("token_type_ids", "mm_token_type_ids")
_ALONG_COMPLETION = (
    "completion_ids", "completion_mask", "old_per_token_logps", "ref_per_token_logps",
    "sampling_per_token_logps", "importance_sampling_ratio", "tool_mask", "advantages",
)  # fmt: skip


class _StepsOfKeptPrompts(TrainerCallback):
    """No optimizer step with gradients that a kept prompt still waits for, and none kept after."""

    def __init__(self, trainer: GroupedMicroBatches) -> None:
        self._trainer = trainer

    def on_pre_optimizer_step(self, *args: Any, **kwargs: Any) -> None:
        trainer = self._trainer
        prompts = kept_prompts_of(cast("Any", trainer).model)
        trainer._window_ended = True  # whatever micro-batches a subclass left out
        if prompts is not None:
            prompts.require_settled()


class GroupedMicroBatches(SharedPrompts):
    """Mixed in before a TRL trainer that generates: GRPO and RLOO."""

    _relied_upon = {  # noqa: RUF012
        **SharedPrompts._relied_upon,
        "_prepare_inputs": ("self", "generation_batch"),
        "_generate_and_score_completions": ("self", "inputs"),
        "_get_per_token_logps_and_entropies": (
            *("self", "model", "input_ids", "attention_mask", "logits_to_keep", "batch_size"),
        ),
    }
    _in_window = 0  # micro-batches of the present optimizer step before this one
    _window_ended = True
    _training: Any = None  # the state of the training that they belong to
    _reported_forwards = 1  # of a prompt in a step, at most

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        cast("Any", self).add_callback(_StepsOfKeptPrompts(self))
        self._say_if_groups_are_cut()

    def _prepare_inputs(self, generation_batch: Any) -> Any:
        trainer: Any = self
        if not (self._prompts_are_shared and trainer.model.training):
            return super()._prepare_inputs(generation_batch)  # type: ignore[misc]
        self._share_as_set_here()
        slices = trainer.args.steps_per_generation
        due = trainer._step % (slices * trainer.num_iterations) == 0
        if due or trainer._buffered_inputs is None:
            scored = trainer._generate_and_score_completions(generation_batch)
            together = _micro_batches_together(trainer.args)
            trainer._buffered_inputs = grouped_micro_batches(scored, slices, together=together)
        self._expect_prompts(trainer._buffered_inputs, trainer._step % slices)
        return trainer._buffered_inputs[trainer._step % slices]

    def _expect_prompts(self, micro_batches: list[Batch], index: int) -> None:
        """Tell the policy which prompts come again before the optimizer steps or other completions
        are generated; where a stretch of micro-batches begins."""
        trainer: Any = self
        prompts = kept_prompts_of(trainer.model) if self.sharing.keep_prompts else None
        if prompts is None:
            return
        if trainer.state is not self._training:  # perhaps after one that ended amid a step
            prompts.forget()
            self._training, self._window_ended = trainer.state, True
            self._prompt_is_kept = False
            # Parameters may be sharded by now, which the constructor could not know.
            self._say_if_groups_are_cut()
        self._in_window = 0 if self._window_ended else self._in_window + 1
        self._window_ended = trainer.accelerator.sync_gradients
        if index == 0 or self._in_window == 0:
            stretch = trainer.current_gradient_accumulation_steps - self._in_window
            if self._window_ended:
                stretch = 1
            found = [_rows_to_keep(batch) for batch in micro_batches]
            here = slice(index, index + stretch)
            whole = _steps_hold_whole_groups(trainer.args)
            prompts.expect(calls_of_cut_prompts(found, here, together=whole))
        prompts.begin()

    def training_step(self, *args: Any, **kwargs: Any) -> Any:
        """The micro-batch's loss, whatever of it a subclass leaves out, sends what earlier ones of
        the same prompts left for it to send."""
        trainer: Any = super()
        owner: Any = self
        prompts = kept_prompts_of(owner.model) if self._prompts_are_shared else None
        if prompts is None:
            return trainer.training_step(*args, **kwargs)

        def settling(own: Callable[..., Any]) -> Callable[..., Any]:
            def compute_loss(self: Any, *args: Any, **kwargs: Any) -> Any:
                loss = own(self, *args, **kwargs)
                return prompts.settled(loss) if isinstance(loss, Tensor) else loss

            return compute_loss

        with Patch(owner, "losses send what kept prompts are owed") as patch:
            patch.replace(owner, "compute_loss", bound_to(owner, "compute_loss", settling))
            return trainer.training_step(*args, **kwargs)

    def train(self, *args: Any, **kwargs: Any) -> Any:
        """Train. Where it ends amid a step, what the model keeps of prompts goes."""
        trainer: Any = super()
        try:
            return trainer.train(*args, **kwargs)
        finally:
            prompts = kept_prompts_of(cast("Any", self).model)
            if prompts is not None:
                prompts.forget()

    def _get_per_token_logps_and_entropies(
        self,
        model: Any,
        input_ids: Tensor,
        attention_mask: Tensor,
        logits_to_keep: int,
        batch_size: int | None = None,
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        """Old and reference log-probabilities come from prompts that are kept, as the policy's."""
        trainer: Any = super()
        owner: Any = self
        given = (model, input_ids, attention_mask, logits_to_keep, batch_size)
        keeps = self._prompts_are_shared and self.sharing.keep_prompts and owner.model.training
        keeps = keeps and not torch.is_grad_enabled() and kept_prompts_of(model) is not None
        if not keeps or not batch_size:
            return trainer._get_per_token_logps_and_entropies(*given, *args, **kwargs)
        completion = torch.zeros_like(attention_mask, dtype=torch.bool)
        completion[:, -logits_to_keep:] = True
        mask = attention_mask.bool()
        rows = (torch.split(each, batch_size) for each in (input_ids, mask, mask & completion))
        chunks = [_by_prompt(PaddedRows(*each)) for each in zip(*rows, strict=True)]
        # As the policy's: the same rows in one pass, so that the numbers are the same to the bit.
        whole = _steps_hold_whole_groups(owner.args)
        with prompts_kept_apart(model) as prompts:
            prompts.expect(calls_of_cut_prompts(chunks, slice(None), together=whole))
            return trainer._get_per_token_logps_and_entropies(*given, *args, **kwargs)

    def _say_if_groups_are_cut(self) -> None:
        trainer: Any = self
        args = trainer.args
        rows, group = args.per_device_train_batch_size, args.num_generations
        if not self._prompts_are_shared or rows % group == 0:
            return
        kept = self.sharing.keep_prompts and not getattr(trainer, "aux_loss_enabled", False)
        kept = kept and can_go_in_phases(causal_lm_inside(trainer.model))
        # Prompts that hold images are not kept.
        kept = kept and not getattr(trainer, "_is_vlm", False)
        times = _forwards_of_cut_prompts(args, kept=kept)
        if times <= self._reported_forwards:
            return
        self._reported_forwards = times
        logger.warning(
            "per_device_train_batch_size=%d cuts groups of num_generations=%d completions: a "
            "prompt is forwarded up to %d times instead of once. Set %s; a whole group in a "
            "micro-batch costs little more memory",
            rows,
            group,
            times,
            _settings_of_whole_groups(args),
        )


def _forwards_of_cut_prompts(args: Any, *, kept: bool) -> int:
    """How often a prompt is forwarded at most, whose rows do not fit into one micro-batch."""
    rows, group = args.per_device_train_batch_size, args.num_generations
    # A group may begin at the last row of a micro-batch, unless they fit each other.
    times: int = group // rows if group % rows == 0 else (group + rows - 2) // rows + 1
    if not kept:
        return times
    together, steps = _micro_batches_together(args), args.gradient_accumulation_steps
    if steps % together == 0:
        return 1
    # Once in each optimizer step that sees rows of the group.
    met: int = together // steps if together % steps == 0 else (together - 2) // steps + 2
    return min(times, met)


def _micro_batches_together(args: Any) -> int:
    """Micro-batches that hold a number of whole groups, the fewest."""
    rows: int = args.per_device_train_batch_size
    return math.lcm(rows, args.num_generations) // rows


def _steps_hold_whole_groups(args: Any) -> bool:
    """True if all rows of a group come in one optimizer step, however its micro-batches cut it."""
    return bool(args.gradient_accumulation_steps % _micro_batches_together(args) == 0)


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
    batch: Batch,
    count: int,
    permutation: Callable[[int], Tensor] = torch.randperm,
    *,
    together: int = 1,
) -> list[Batch]:
    """`count` micro-batches of consecutive rows, each cut to its longest row: so many `together`
    in their order, and these in random order."""
    rows = len(batch["prompt_ids"])
    # Images lie end to end, as many of them as each row has.
    by_row: Any = split_pixel_values_by_grid(batch)
    parts: Any = split_tensor_dict(by_row, count)
    slices: list[Batch] = [unsplit_pixel_values_by_grid(part) for part in parts]
    # In the order in which TRL's permutation of the rows first meets each.
    met = dict.fromkeys((permutation(rows) // max(rows // count * together, 1)).tolist())
    order = [i for first in met for i in range(first * together, (first + 1) * together)]
    return [_cut_padding(slices[i]) for i in order if i < count]


def calls_of_cut_prompts(
    micro_batches: Sequence[dict[bytes, PaddedRows]], stretch: slice, *, together: bool
) -> list[dict[bytes, PaddedRows | None]]:
    """The rows by prompt of each micro-batch of a stretch, of prompts that several of all of them
    hold and whose repetition is dear enough. None for rows that are scored alone: those of a prompt
    that comes beyond the stretch, and all unless `together`."""
    everywhere: dict[bytes, list[PaddedRows]] = {}
    for by_prompt in micro_batches:
        for prompt, rows in by_prompt.items():
            everywhere.setdefault(prompt, []).append(rows)
    here = Counter(prompt for rows in micro_batches[stretch] for prompt in rows)
    cut = {
        prompt
        for prompt, every in everywhere.items()
        if len(every) > 1 and _saved_by_keeping(prompt, every) >= LEAST_SAVED
    }
    alone = {prompt for prompt in cut if not together or here[prompt] < len(everywhere[prompt])}
    return [
        {prompt: None if prompt in alone else rows for prompt, rows in by.items() if prompt in cut}
        for by in micro_batches[stretch]
    ]


def _saved_by_keeping(prompt: bytes, calls: Sequence[PaddedRows]) -> float:
    """Of all tokens of the prompt's rows, the share that need not be forwarded."""
    repeated = sum(len(rows.ids) for rows in calls) - 1
    return repeated * tokens_of(prompt) / int(sum(rows.mask.sum() for rows in calls))


def _rows_to_keep(batch: Batch) -> dict[bytes, PaddedRows]:
    """The rows of a micro-batch by prompt; none where images come with it, which goes whole: its
    prompts are more than their tokens."""
    if any(batch.get(name) is not None for name in IMAGE_INPUTS):
        return {}
    ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], 1)
    completion = batch["completion_mask"].bool()
    prompt = batch["prompt_mask"].bool()
    scored = torch.cat([torch.zeros_like(prompt), completion], 1)
    return _by_prompt(PaddedRows(ids, torch.cat([prompt, completion], 1), scored))


def _by_prompt(rows: PaddedRows) -> dict[bytes, PaddedRows]:
    members: dict[bytes, list[int]] = {}
    for row, prompt in enumerate(prompts_of(rows)):
        members.setdefault(prompt, []).append(row)
    return {prompt: rows.take(found) for prompt, found in members.items()}


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
    for name in _ALONG_BOTH:
        value = batch.get(name)
        if isinstance(value, Tensor) and value.shape[1] == len(prompt) + len(completion):
            result[name] = value[:, first : len(prompt) + last]
    for name in _ALONG_COMPLETION:
        value = batch.get(name)
        # Values of whole sequences, `[rows]` or `[rows, 1]`, have no columns to cut.
        if isinstance(value, Tensor) and value.dim() == 2 and value.shape[1] == len(completion):
            result[name] = value[:, :last]
    return result
