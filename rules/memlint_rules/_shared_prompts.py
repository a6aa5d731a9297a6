"""What rules of shared prompts were written with before the script model and the kit had it."""

from __future__ import annotations

from memlint.rule import Fix, Script, Trainer, share_prompts


def repeating_trainers(script: Script, *kinds: str) -> tuple[Trainer, ...]:
    """Trainers that forward a prompt once for each of its answers, and need not."""
    if script.uses_unsloth or script.off_cuda:
        return ()
    return script.repeating_trainers(*kinds)


def number(script: Script, trainer: Trainer, option: str) -> int | None:
    """A whole number of the trainer's configuration, by the version's default too."""
    return trainer.number(option)


def swap(script: Script, trainer: Trainer, benefit: str) -> Fix:
    """The runtime's trainer in place of TRL's."""
    return share_prompts(script, trainer, benefit)
