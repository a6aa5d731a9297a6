"""A full fine-tune without accumulation that keeps all gradients until the optimizer's step."""

from collections.abc import Iterator
from math import inf

from memlint.rule import Finding, Level, Rule, Skip, TrainingRun, by_change, triggers

# Billions of parameters.
_LARGE = 6.0


def check(run: TrainingRun) -> Iterator[Finding]:
    step = run.in_backward
    if not step.is_value(False) or not run.gradient_accumulation.is_value(1):
        return
    if run.has_billions(_LARGE, inf) and not run.method.is_value("lora"):
        yield Finding(step.span, step.said, by_change(run.set(in_backward=True)))


RULE = Rule(
    level=Level.HINT,
    summary="a full fine-tune that keeps all gradients until the optimizer's step",
    of_run=check,
    skips=(Skip.UNSLOTH, Skip.OFF_CUDA, Skip.DEEPSPEED),
    triggers=(triggers.OPTIMIZERS, triggers.UPDATES),
)
