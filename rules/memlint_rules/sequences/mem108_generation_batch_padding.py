"""Micro-batches padded to the longest rows of a whole generation batch."""

from collections.abc import Iterator

from memlint.rule import Finding, Rule, Script, Skip, triggers
from memlint_rules.online.shared_prompts import share_prompts, slices_of


def check(script: Script) -> Iterator[Finding]:
    for trainer in script.repeating_trainers("trl.GRPOTrainer", "trl.RLOOTrainer"):
        config = trainer.config
        if config is None or not config.has_option("steps_per_generation"):
            continue
        # Of a size that is written the number of devices decides.
        by_steps = config.setting("generation_batch_size").given is False
        slices = slices_of(trainer)[0] if by_steps else None
        if slices is None or slices < 2:
            continue
        yield Finding(
            script.span(trainer.node.func),
            f"`{trainer.kind.rpartition('.')[2]}` generates for {slices} micro-batches at once and "
            "pads each of them to the longest prompt and the longest completion of all",
            share_prompts(script, trainer, "which cuts each micro-batch to its own longest row"),
        )


RULE = Rule(
    summary="micro-batches padded to the longest row of the generation batch",
    check=check,
    effect={"padding": "generation"},
    skips=(Skip.UNSLOTH, Skip.OFF_CUDA),
    triggers=(triggers.LIBRARIES, frozenset({"Trainer"})),
)
