"""A copy of all weights that stays on the GPU and is never run: an average, or the best so far."""

from collections.abc import Iterator

from memlint.rule import Finding, Rule, Skip, TrainingRun, by_change, triggers

# Billions of parameters from which on a copy is worth a finding.
_LEAST = 0.5


def check(run: TrainingRun) -> Iterator[Finding]:
    copied, billions = run.kept_copy, run.billions
    if not copied.is_value(True) or billions is None or billions < _LEAST:
        return
    wide = run.weights_dtype.is_value("float32")
    size = (4 if wide else 2) * billions * 1e9 / 2**30
    yield Finding(
        copied.span,
        f"{copied.said} keeps a second copy of all weights on the GPU, which is never run: "
        f"{size:.1f} GiB in {'float32' if wide else 'bf16'} for {billions:g} billion",
        by_change(run.set(kept_copy=False)),
    )


RULE = Rule(
    summary="a copy of all weights on the GPU that is never run: an average, or the best so far",
    of_run=check,
    skips=(Skip.UNSLOTH, Skip.OFF_CUDA, Skip.TESTS),
    triggers=(
        triggers.LIBRARIES,
        frozenset({"deepcopy", "AveragedModel", "EMA", "ModelEmaV2", "ModelEmaV3"}),
    ),
)
