"""Adam of torch that steps all weights at once, through copies as large as all of them."""

from collections.abc import Iterator

from memlint.rule import Finding, Rule, Skip, TrainingRun, by_change, triggers

# Billions of parameters from which on the copies are worth a finding.
_LEAST = 0.5


def check(run: TrainingRun) -> Iterator[Finding]:
    step = run.at_once
    if step.is_value(True) and (run.billions or 0) >= _LEAST:
        yield Finding(step.span, step.said, by_change(run.set(at_once=False)))


RULE = Rule(
    summary="Adam whose step makes temporaries for all weights at once",
    of_run=check,
    skips=(Skip.UNSLOTH, Skip.OFF_CUDA, Skip.TESTS),
    triggers=(
        triggers.OPTIMIZERS,
        frozenset({"Adam", "AdamW", "adamw_torch", "Config(", "TrainingArguments"}),
    ),
)
