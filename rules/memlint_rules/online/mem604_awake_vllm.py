"""A vLLM engine on the training GPU that keeps its memory while the model trains.

A colocated engine holds its own copy of the weights and a key-value cache, for all of the run. In
sleep mode it gives both back before each step of training and takes them again to generate. Source:
TRL documentation, "vLLM integration" and "Reducing Memory Usage" (vLLM sleep mode).
"""

from __future__ import annotations

from collections.abc import Iterator

from memlint.rule import (
    Config,
    Finding,
    Fix,
    Level,
    Rule,
    Script,
    Skip,
    advise,
    edits,
    fix,
    triggers,
    unless_switched_off,
)
from memlint_rules.online.engines import colocated_engines, colocates_vllm

_OPTION = "vllm_enable_sleep_mode"


def check(script: Script) -> Iterator[Finding]:
    for config in script.configs:
        sleep = config.effective(_OPTION)
        if not colocates_vllm(script, config) or sleep.value is not False:
            continue
        node = sleep.node if sleep.node is not None else config.setting("use_vllm").node
        yield Finding(
            script.span(node if node is not None else config.node.func),
            "vLLM keeps its weights and key-value cache on the GPU while the model trains",
            unless_switched_off(config.setting(_OPTION), _fix(script, config)),
        )
    if script.method_calls_anywhere("sleep") and script.method_calls_anywhere("wake_up"):
        return
    for engine in colocated_engines(script):
        if engine.setting("enable_sleep_mode").given is False:
            yield Finding(
                script.span(engine.node.func),
                "vLLM keeps its weights and key-value cache on the GPU while the loop trains",
                advise(
                    "Pass `enable_sleep_mode=True`, call `sleep()` before each training step and "
                    "`wake_up()` before generation"
                ),
            )


def _fix(script: Script, config: Config) -> Fix:
    """vLLM refuses to sleep over expandable segments, and cannot put quantized weights back."""
    message = f"Set `{_OPTION}=True`"
    trainers = script.training_with(config)
    plain = all(trainer.model.quantized is False or trainer.model.by_name for trainer in trainers)
    if script.may_use("expandable_segments") or not plain:
        return advise(f"{message} (not with expandable segments, nor for quantized weights)")
    return fix(message, edits.set_option(script, config, _OPTION, "True"))


RULE = Rule(
    code="MEM604",
    name="awake-vllm",
    level=Level.WASTE,
    summary="colocated vLLM that keeps its memory while the model trains",
    check=check,
    skips=(Skip.UNSLOTH, Skip.OFF_CUDA, Skip.TESTS),
    triggers=(triggers.LIBRARIES, frozenset({"use_vllm", "vllm"})),
    effect={"vllm_sleep": True},
)
