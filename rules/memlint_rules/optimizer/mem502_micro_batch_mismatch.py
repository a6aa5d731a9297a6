"""A micro-batch that does not fit the accumulation beside it."""

from collections.abc import Iterator
from math import inf

from memlint.rule import Finding, Level, Rule, Skip, TrainingRun, by_change, fix, triggers

# Rows that are many for one forward pass: of a large language model, and of a smaller one.
_MANY_OF_LARGE, _MANY = 16, 32
_SPLITS = (8, 4, 3, 2)
# Accumulated single rows that are many, and the rows to try together.
_OFTEN, _TOGETHER = 16, 4
# Billions of parameters: a smaller model takes many rows at once; of a larger one a row may do.
_LEAST, _LARGE, _MOST = 0.5, 4.0, 10.0


def check(run: TrainingRun) -> Iterator[Finding]:
    rows, batches = run.micro_batch.number or 0, run.gradient_accumulation.number or 0
    large = run.has_billions(_LARGE, inf)
    many = rows >= (_MANY_OF_LARGE if large else _MANY) and batches == 1
    single = rows == 1 and batches >= _OFTEN and not run.packed.is_value(True)
    if many and run.has_billions(_LEAST, inf) and not run.in_backward.is_value(True):
        few = next((number for number in _SPLITS if rows % number == 0), 1)
        yield _many_rows(run, rows, few)
    elif single and run.has_billions(0, _MOST):
        yield _single_rows(run, batches)


def _many_rows(run: TrainingRun, rows: int, few: int) -> Finding:
    return Finding(
        run.micro_batch.span,
        f"{rows} rows go through the model at once, and nothing is accumulated: activations and "
        f"logits take {rows // few} times the memory of {few} rows",
        by_change(run.set(micro_batch=few, gradient_accumulation=rows // few)),
    )


def _single_rows(run: TrainingRun, batches: int) -> Finding:
    """More rows at once may not fit, so that the fix is unsafe; its gain is time, not memory."""
    change = run.set(micro_batch=_TOGETHER, gradient_accumulation=batches // _TOGETHER)
    return Finding(
        run.micro_batch.span,
        f"one row at a time, accumulated {batches} times: where {_TOGETHER} rows fit, the same "
        "step takes a quarter of the passes",
        fix(change.message, None if batches % _TOGETHER else change.edits, unsafe=True),
    )


RULE = Rule(
    level=Level.HINT,
    summary="a micro-batch that does not fit the accumulation beside it",
    of_run=check,
    on_request=True,
    skips=(Skip.UNSLOTH, Skip.OFF_CUDA, Skip.VISION),
    triggers=(
        triggers.LIBRARIES,
        frozenset({"per_device_train_batch_size", "batch_size"}),
    ),
)
