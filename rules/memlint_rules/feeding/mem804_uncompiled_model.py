"""A long run of a model that is not compiled."""

from collections.abc import Iterator

from memlint.rule import Finding, Level, Rule, Skip, TrainingRun, by_change


def check(run: TrainingRun) -> Iterator[Finding]:
    if run.compile.is_value(False):
        message = f"{run.compile.said}: every operation is a kernel of its own and keeps its result"
        yield Finding(run.compile.span, message, by_change(run.set(compile=True)))


RULE = Rule(
    level=Level.HINT,
    summary="a long run without torch.compile",
    of_run=check,
    skips=(Skip.OFF_CUDA, Skip.UNSLOTH, Skip.VISION, Skip.TESTS),
    on_request=True,
)
