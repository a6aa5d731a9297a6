"""Rows of several lengths, whose freed blocks the allocator cannot use for longer ones."""

from collections.abc import Iterator

from memlint.rule import Finding, Level, Rule, Skip, TrainingRun, by_change

# Billions of parameters from which on the holes are worth a variable.
_LEAST = 0.5


def check(run: TrainingRun) -> Iterator[Finding]:
    growing, billions = run.expandable, run.billions
    if not growing.is_value(False) or billions is None or billions < _LEAST:
        return
    yield Finding(
        growing.span,
        "batches of several lengths break up what the allocator caches: longer ones do not fit "
        "into the blocks that shorter ones left",
        by_change(run.set(expandable=True)),
        on_request=not growing.said,
    )


RULE = Rule(
    level=Level.HINT,
    summary="rows of several lengths in an allocator whose segments do not grow",
    of_run=check,
    skips=(Skip.UNSLOTH, Skip.OFF_CUDA, Skip.TESTS, Skip.DEEPSPEED, Skip.VISION),
)
