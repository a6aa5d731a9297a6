"""Other micro-batches that keep the batch, as ``--fit`` proposes and ``fix --fit`` writes them.

No fault: a run that does not fit has no reason to forward its rows at once. The rule is asked for
``--fit`` alone, of trainers, recipes and launch commands like any rule of settings.
"""

from collections.abc import Iterator

from memlint.memory.trades import SMALLER
from memlint.rule import Finding, Level, Rule, TrainingRun
from memlint.rule.kit import by_change
from memlint.rule.page import Page

_MOST_ROWS = 64  # at once


def _check(run: TrainingRun) -> Iterator[Finding]:
    rows, steps = run.micro_batch.number, run.gradient_accumulation.number
    if rows is None or steps is None or rows < 1 or steps < 1:
        return
    # The least counts where a reader keeps one finding of a place.
    for other in range(min(rows * steps, _MOST_ROWS), 0, -1):
        if rows * steps % other or other == rows:
            continue
        change = run.set(micro_batch=other, gradient_accumulation=rows * steps // other)
        message = f"{rows} rows go through the model at once; {other} in more or fewer steps can"
        yield Finding(run.micro_batch.span, message, by_change(change))


RULE = Rule(
    code=SMALLER,
    name="smaller-micro-batches",
    level=Level.WASTE,
    summary="fewer rows at once, accumulated to the same batch",
    of_run=_check,
    written=Page("Activations and logits grow with the rows that are forwarded at once."),
)
