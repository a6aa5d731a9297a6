"""Where vLLM shares its GPU with training: what two rules ask."""

from __future__ import annotations

from memlint.rule import Call, Config, Object, Script

# Where an engine is told to live on other GPUs than the training, or in another process.
_ELSEWHERE = ("device", "distributed_executor_backend", "tensor_parallel_size", "worker_cls")


def colocates_vllm(script: Script, config: Config) -> bool:
    """True if a configuration definitely generates with vLLM on the GPUs that train.

    False for versions that know no such mode: their vLLM has a GPU of its own.
    """
    return (
        config.has_option("vllm_mode")
        and config.effective("use_vllm").value is True
        and config.effective("vllm_mode").value == "colocate"
        and script.may_train_with(config)
    )


def colocated_engines(script: Script) -> tuple[Call, ...]:
    """The calls that make a vLLM engine which is there while a hand-written loop trains."""
    engines = script.calls_to("vllm.LLM", "vllm.entrypoints.llm.LLM")
    first = [step.order for step in script.steps if step.order is not None]
    return tuple(
        engine
        for engine in engines
        if any(engine.order < order for order in first)
        and all(engine.setting(name).given is False for name in _ELSEWHERE)
        and not script.may_use("CUDA_VISIBLE_DEVICES")
        and _generates_in_training(script, engine)
    )


def _generates_in_training(script: Script, engine: Call) -> bool:
    """True if a loop that trains generates with the engine."""
    loops = {loop for step in script.steps for loop in (step.node, *step.epochs)}
    return any(
        not loops.isdisjoint(invocation.loops)
        for call in script.method_calls_anywhere("generate", "chat")
        if isinstance(call.receiver, Object) and call.receiver.node is engine.node
        for invocation in call.invocations
    )
