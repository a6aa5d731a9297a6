"""Batches that wait in pageable memory of the host."""

from collections.abc import Iterator

from memlint.rule import Finding, Level, Rule, Skip, TrainingRun, by_change


def check(run: TrainingRun) -> Iterator[Finding]:
    pinned = run.pinned
    if pinned.is_value(False):
        yield Finding(
            pinned.span,
            f"{pinned.said}: batches are copied to the GPU from pageable memory, twice and not "
            "beside computation",
            by_change(run.set(pinned=True)),
        )


RULE = Rule(
    level=Level.HINT,
    summary="a DataLoader without pinned memory",
    of_run=check,
    skips=(Skip.OFF_CUDA, Skip.UNSLOTH, Skip.TESTS),
    triggers=(frozenset({"DataLoader", "dataloader_pin_memory"}),),
    on_request=True,
)
