"""A full fine-tune on several GPUs, each of which keeps all weights, gradients and states."""

from collections.abc import Iterator

from memlint.rule import Finding, Level, Rule, Skip, TrainingRun, by_change

# Billions of parameters: smaller models fit, and gathering costs time.
_LEAST = 3


def check(run: TrainingRun) -> Iterator[Finding]:
    copied, billions = run.replicated, run.billions
    if not copied.is_value(True) or billions is None or billions < _LEAST:
        return
    width = 16 if run.weights_dtype.is_value("float32") else 8
    yield Finding(
        copied.span,
        f"{copied.said} keeps all weights, gradients and optimizer states on every GPU: "
        f"{width * billions * 1e9 / 2**30:.0f} GiB for {billions:g} billion with AdamW",
        by_change(run.set(replicated=False)),
    )


RULE = Rule(
    level=Level.HINT,
    summary="a large full fine-tune on several GPUs, whole on each of them",
    of_run=check,
    skips=(Skip.UNSLOTH, Skip.OFF_CUDA, Skip.TESTS, Skip.DEEPSPEED),
)
