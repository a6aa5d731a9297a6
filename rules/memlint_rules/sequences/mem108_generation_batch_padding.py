"""Micro-batches padded to the longest rows of a whole generation batch.

GRPO and RLOO generate for several optimizer steps or accumulation steps at once, pad prompts and
completions to the longest of that whole batch, and then cut it into micro-batches without trimming
them: one long completion makes every micro-batch as long as itself. Source: ``_prepare_inputs`` and
``split_tensor_dict`` of ``trl/trainer/grpo_trainer.py``; huggingface/trl issue 7179.
"""

from __future__ import annotations

from collections.abc import Iterator

from memlint.rule import (
    LIBRARIES,
    OFF_CUDA,
    UNSLOTH,
    Example,
    Finding,
    Level,
    Rule,
    Script,
    Trainer,
    share_prompts,
)


def check(script: Script) -> Iterator[Finding]:
    for trainer in script.repeating_trainers("trl.GRPOTrainer", "trl.RLOOTrainer"):
        slices = _micro_batches(trainer)
        if slices is None or slices < 2:
            continue
        name = trainer.kind.rpartition(".")[2]
        yield Finding(
            script.span(trainer.node.func),
            f"`{name}` generates for {slices} micro-batches at once and pads each of them to the "
            "longest prompt and the longest completion of all",
            share_prompts(script, trainer, "which cuts each micro-batch to its own longest row"),
        )


def _micro_batches(trainer: Trainer) -> int | None:
    """How many micro-batches a generation batch is cut into; None where that is not known."""
    config = trainer.config
    if config is None or not config.has_option("steps_per_generation"):
        return None
    steps = config.setting("steps_per_generation")
    whole = config.setting("generation_batch_size")
    if steps.given is not False and steps.value is not None:
        return steps.value if type(steps.value) is int else None
    if whole.given is not False and whole.value is not None:
        return None  # the number of devices decides
    return trainer.number("gradient_accumulation_steps")


RULE = Rule(
    code="MEM108",
    name="generation-batch-padding",
    level=Level.WASTE,
    summary="micro-batches padded to the longest row of the generation batch",
    why=(
        "GRPO and RLOO generate completions for all micro-batches of an optimizer step (or of "
        "several) together. TRL pads that batch to its longest prompt and its longest completion, "
        "then cuts it into micro-batches and leaves the padding in. Completions differ in length "
        "more than most data, so a micro-batch of short answers costs the activations and logits "
        "of the longest one. The runtime's trainers trim each micro-batch to its own rows, and "
        "forward each prompt once."
    ),
    fix_safety=(
        "Safe: padding is masked, so that the loss stays what it was up to rounding; one import "
        "changes. Unsafe, or advice only, on the terms of `MEM601`, whose fix is the same. Silent "
        "where a generation batch is one micro-batch, and where the number of devices decides."
    ),
    check=check,
    skips=(UNSLOTH, OFF_CUDA),
    triggers=(LIBRARIES, frozenset({"GRPOTrainer", "RLOOTrainer"})),
    references=(
        "https://github.com/huggingface/trl/issues/7179",
        "https://huggingface.co/docs/trl/grpo_trainer",
    ),
    examples=(
        Example(
            title="accumulation",
            bad="""\
from trl import GRPOConfig, GRPOTrainer

args = GRPOConfig("out", gradient_accumulation_steps=4)
GRPOTrainer("Qwen/Qwen3-4B", reward_funcs=reward, args=args, train_dataset=dataset).train()
""",
            good="""\
from trl import GRPOConfig
from memlint_runtime.trl import GRPOTrainer

args = GRPOConfig("out", gradient_accumulation_steps=4)
GRPOTrainer("Qwen/Qwen3-4B", reward_funcs=reward, args=args, train_dataset=dataset).train()
""",
        ),
        Example(
            title="several steps of one generation",
            bad="""\
from trl import RLOOConfig, RLOOTrainer

args = RLOOConfig("out", steps_per_generation=8)
RLOOTrainer("Qwen/Qwen3-4B", reward_funcs=reward, args=args, train_dataset=dataset).train()
""",
            good="""\
from trl import RLOOConfig
from memlint_runtime.trl import RLOOTrainer

args = RLOOConfig("out", steps_per_generation=8)
RLOOTrainer("Qwen/Qwen3-4B", reward_funcs=reward, args=args, train_dataset=dataset).train()
""",
        ),
    ),
)
