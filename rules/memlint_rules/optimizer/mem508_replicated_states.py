"""A full fine-tune on several GPUs, each of which keeps all weights, gradients and states."""

from collections.abc import Iterator

from memlint.rule import Finding, Level, Rule, Skip, TrainingRun, by_change

# Billions of parameters: smaller models fit, and gathering costs time.
_LEAST = 3


def check(run: TrainingRun) -> Iterator[Finding]:
    copied = run.replicated
    if copied.is_value(True) and (run.billions or 0) >= _LEAST:
        yield Finding(copied.span, copied.said, by_change(run.set(replicated=False)))


RULE = Rule(
    level=Level.HINT,
    summary="a large full fine-tune on several GPUs, whole on each of them",
    of_run=check,
    skips=(Skip.UNSLOTH, Skip.OFF_CUDA, Skip.TESTS, Skip.DEEPSPEED),
)
