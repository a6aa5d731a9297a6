"""A copy of all weights that stays on the GPU and is never run: an average, or the best so far."""

from collections.abc import Iterator

from memlint.rule import Finding, Rule, Skip, TrainingRun, by_change, triggers

# Billions of parameters from which on a copy is worth a finding.
_LEAST = 0.5


def check(run: TrainingRun) -> Iterator[Finding]:
    copied = run.kept_copy
    if copied.is_value(True) and (run.billions or 0) >= _LEAST:
        yield Finding(copied.span, copied.said, by_change(run.set(kept_copy=False)))


RULE = Rule(
    summary="a copy of all weights on the GPU that is never run: an average, or the best so far",
    of_run=check,
    skips=(Skip.UNSLOTH, Skip.OFF_CUDA, Skip.TESTS),
    triggers=(
        triggers.LIBRARIES,
        frozenset({"deepcopy", "AveragedModel", "EMA", "ModelEmaV2", "ModelEmaV3"}),
    ),
)
