"""Weights held in float32 where half of the bytes would do.

A parameter costs 4 bytes in float32 and 2 in bfloat16: 13 GiB for 7 billion of them. A frozen base
under an adapter needs no float32 at all; a full fine-tune may want float32 master weights, which
is why the fix is unsafe there. Source: transformers documentation, "Loading models" (dtype); TRL,
``trl/trainer/utils.py`` (a model given by name is loaded in float32 since 0.27).
"""

from __future__ import annotations

from collections.abc import Iterator

from memlint.rule import (
    Finding,
    Level,
    Rule,
    Script,
    Skip,
    TrainingRun,
    advise,
    by_change,
    is_elsewhere,
)

_HALF = ("torch.bfloat16", "torch.float16")


def of_run(run: TrainingRun) -> Iterator[Finding]:
    weights = run.weights_dtype
    if weights.is_value("float32"):
        message = f"{weights.said}: 4 bytes a parameter where bfloat16 needs 2"
        yield Finding(weights.span, message, by_change(run.set(weights_dtype="bfloat16")))


def check(script: Script) -> Iterator[Finding]:
    """``model.float()`` of weights that a loop trains."""
    for model in script.loop_models if script.on_gpu else ():
        loaded = script.given_dtype(model.load)
        casts = {*script.casts_of(model.facts)} - {"torch.float32"}
        if casts or loaded is None or script.dtype_name(loaded) not in _HALF:
            continue
        if script.may_use("GradScaler"):
            continue
        for call in script.calls_on(model.facts, "float"):
            if model.facts.quantized is False and not (call.conditional or is_elsewhere(call.node)):
                yield Finding(
                    call.span,
                    "casts the weights to float32: 4 bytes a parameter where bfloat16 needs 2",
                    advise("Leave the weights as they are loaded, and compute under autocast"),
                )


RULE = Rule(
    code="MEM401",
    name="fp32-weights",
    level=Level.WASTE,
    summary="weights loaded in float32",
    check=check,
    of_run=of_run,
    skips=(Skip.UNSLOTH, Skip.OFF_CUDA),
    effect={"weights_dtype": "bfloat16"},
)
