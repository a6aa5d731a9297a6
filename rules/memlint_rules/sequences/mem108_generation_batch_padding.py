"""Micro-batches padded to the longest rows of a whole generation batch."""

from collections.abc import Iterator

from memlint.rule import Finding, Rule, Script, Skip, Trainer, triggers
from memlint_rules.online.shared_prompts import share_prompts


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
    summary="micro-batches padded to the longest row of the generation batch",
    check=check,
    effect={"padding": "generation"},
    skips=(Skip.UNSLOTH, Skip.OFF_CUDA),
    triggers=(triggers.LIBRARIES, frozenset({"Trainer"})),
)
