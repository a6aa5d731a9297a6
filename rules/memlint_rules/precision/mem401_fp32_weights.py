"""Weights held in float32 where half of the bytes would do."""

from collections.abc import Iterator

from memlint.rule import (
    Finding,
    Rule,
    Script,
    Skip,
    TrainingRun,
    advise,
    by_change,
    is_elsewhere,
    trains_without_bf16,
)


def of_run(run: TrainingRun) -> Iterator[Finding]:
    weights = run.weights_dtype
    if weights.is_value("float32"):
        message = f"{weights.said}: 4 bytes a parameter where bfloat16 needs 2"
        yield Finding(weights.span, message, by_change(run.set(weights_dtype="bfloat16")))


def check(script: Script) -> Iterator[Finding]:
    """``model.float()``, ``model.to(torch.float32)`` of weights that are trained."""
    for one in script.trained:
        lacking = trains_without_bf16(script) or script.is_sharded
        if one.dtype != "torch.float32" or (one.trainer is None and not script.on_gpu):
            continue
        if one.load is None or (lacking and one.peft is not True):
            continue
        for call, _ in script.casts_of(one.facts):
            if not is_elsewhere(call.node):
                yield Finding(
                    call.span,
                    "casts the weights to float32: 4 bytes a parameter where bfloat16 needs 2",
                    advise("Load them in bfloat16, leave them so, and compute under autocast"),
                )


RULE = Rule(
    summary="weights loaded in float32",
    check=check,
    of_run=of_run,
    skips=(Skip.UNSLOTH, Skip.OFF_CUDA),
    effect={"weights_dtype": "bfloat16"},
)
