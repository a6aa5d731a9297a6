"""A vLLM engine on the training GPU that keeps its memory while the model trains.

A colocated engine holds its own copy of the weights and a key-value cache, for all of the run. In
sleep mode it gives both back before each step of training and takes them again to generate. Source:
TRL documentation, "vLLM integration" and "Reducing Memory Usage" (vLLM sleep mode).
"""

from __future__ import annotations

from collections.abc import Iterator

from memlint.rule import (
    LIBRARIES,
    OFF_CUDA,
    TESTS,
    UNSLOTH,
    Config,
    Example,
    Finding,
    Fix,
    Level,
    Rule,
    Script,
    advise,
    colocated_engines,
    colocates_vllm,
    fix,
    set_option,
    unless_switched_off,
)

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
    if script.method_calls("sleep") and script.method_calls("wake_up"):
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
    plain = all(one.model.quantized is False or one.model.by_name for one in trainers)
    if script.says("expandable_segments") or not plain:
        return advise(f"{message} (not with expandable segments, nor for quantized weights)")
    return fix(message, set_option(script, config, _OPTION, "True"))


RULE = Rule(
    code="MEM604",
    name="awake-vllm",
    level=Level.WASTE,
    summary="colocated vLLM that keeps its memory while the model trains",
    why=(
        "Colocated vLLM shares the GPU with training. It reserves `vllm_gpu_memory_utilization` of "
        "the whole GPU (0.3 by default: 24 GiB of 80) for a second copy of the weights and a cache "
        "that only generation uses. In sleep mode the reservation is given back whenever the model "
        "trains. Silent for a vLLM server, which has GPUs of its own, and for versions of TRL "
        "without the option. In a loop of one's own, an engine made with `vllm.LLM` before "
        "training is meant."
    ),
    fix_safety=(
        "Safe: the same completions come from the same weights, after a moment to wake up. Advice "
        "where the script sets expandable segments, which vLLM refuses together with sleep mode, "
        "for quantized weights, and where `False` is written."
    ),
    check=check,
    skips=(UNSLOTH, OFF_CUDA, TESTS),
    triggers=(LIBRARIES, frozenset({"use_vllm", "vllm"})),
    references=(
        "https://huggingface.co/docs/trl/reducing_memory_usage",
        "https://docs.vllm.ai/en/latest/features/sleep_mode.html",
    ),
    examples=(
        Example(
            title="GRPO with vLLM beside it",
            bad="""\
from trl import GRPOConfig, GRPOTrainer

args = GRPOConfig("out", use_vllm=True, vllm_mode="colocate")
GRPOTrainer("Qwen/Qwen3-1.7B", reward_funcs=reward, args=args, train_dataset=dataset).train()
""",
            good="""\
from trl import GRPOConfig, GRPOTrainer

args = GRPOConfig("out", use_vllm=True, vllm_mode="colocate", vllm_enable_sleep_mode=True)
GRPOTrainer("Qwen/Qwen3-1.7B", reward_funcs=reward, args=args, train_dataset=dataset).train()
""",
        ),
    ),
)
