"""Adam of torch that steps all weights at once, through copies as large as all of them."""

from collections.abc import Iterator

from memlint.rule import Finding, Rule, Skip, TrainingRun, by_change, triggers

# Billions of parameters from which on the copies are worth a finding.
_LEAST = 0.5


def check(run: TrainingRun) -> Iterator[Finding]:
    step, billions = run.at_once, run.billions
    if not step.is_value(True) or billions is None or billions < _LEAST:
        return
    wide = run.weights_dtype.is_value("float32")
    each = "in float32" if wide else "at 2 bytes each, twice that in float32,"
    size = (4 if wide else 2) * billions * 1e9 / 2**30
    yield Finding(
        step.span,
        f"{step.said} steps all weights at once: its temporaries are as large as the weights, "
        f"{size:.1f} GiB {each} for {billions:g} billion",
        by_change(run.set(at_once=False)),
    )


RULE = Rule(
    summary="Adam whose step makes temporaries for all weights at once",
    of_run=check,
    skips=(Skip.UNSLOTH, Skip.OFF_CUDA, Skip.TESTS),
    triggers=(triggers.OPTIMIZERS, frozenset({"Adam", "AdamW", "adamw_torch"})),
)
