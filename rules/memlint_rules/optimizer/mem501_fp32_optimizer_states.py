"""Adam that keeps two float32 numbers for every weight of a full fine-tune."""

from collections.abc import Iterator

from memlint.rule import Finding, Level, Rule, Skip, TrainingRun, by_change, triggers

# Billions of parameters from which on the states are worth another optimizer.
_LEAST = 0.5


def check(run: TrainingRun) -> Iterator[Finding]:
    optimizer, billions = run.optimizer, run.billions
    if not optimizer.is_value("adamw_torch") or (billions is not None and billions < _LEAST):
        return
    is_narrow = run.weights_dtype.is_value("bfloat16")
    dtype, width = ("bf16", 4) if is_narrow else ("float32", 8)
    yield Finding(
        optimizer.span,
        f"{optimizer.said or 'Adam'} keeps two {dtype} numbers for every weight: "
        f"{_cost(billions, width)}",
        by_change(run.set(optimizer="adamw_8bit")),
        Level.HINT if is_narrow else None,
    )


def _cost(billions: float | None, width: int) -> str:
    if billions is None:
        return f"{width} bytes a parameter where 8-bit states take 2"
    gib = billions * 1e9 / 2**30
    return f"{width * gib:.0f} GiB for {billions:g} billion, {2 * gib:.0f} in 8 bits"


RULE = Rule(
    summary="Adam states in float32 in a full fine-tune",
    of_run=check,
    skips=(Skip.UNSLOTH, Skip.OFF_CUDA, Skip.TESTS),
    triggers=(triggers.OPTIMIZERS, triggers.UPDATES),
)
