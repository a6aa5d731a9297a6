"""All weights of a large model trained, where an adapter would train a hundredth of them.

Every trained weight brings a gradient and two states of Adam: 12 bytes on top of a float32 weight,
6 on top of a bf16 one. A LoRA trains some 0.1 to 2 % of the weights and leaves the base as it is.
Source: Hu et al., "LoRA: Low-Rank Adaptation of Large Language Models", arXiv:2106.09685; torchtune
documentation, "Memory Optimization Overview" (LoRA).
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
    facts,
)

# Billions of parameters.
_LEAST = 1.0
_IN_LOOPS = ("torch.optim.AdamW", "torch.optim.Adam")
_ADAM = ("adamw_torch", "adamw_torch_fused", "adamw_hf")


def check(script: Script) -> Iterator[Finding]:
    if script.is_sharded or script.frozen_modules:
        return
    for one in script.trained:
        billions = one.facts.billions
        if not one.is_plain or billions is None or billions <= _LEAST:
            continue
        if one.config is not None and one.config.from_command_line:
            # The command line may bring DeepSpeed.
            continue
        yield Finding(
            script.span(one.place),
            f"all {billions:g} billion weights are trained: {_gib(script, one, billions):.0f} GiB "
            f"for them, their gradients and {_states(script, one)}",
            advise(
                "Train a LoRA: `peft_config=LoraConfig(...)`"
                if one.trainer is not None and one.trainer.has_option("peft_config")
                else "Train a LoRA: `model = get_peft_model(model, LoraConfig(...))`"
            ),
        )


def _bytes(one: facts.Trained) -> int:
    return 4 if one.dtype == "torch.float32" else 2


def _keeps_moments(script: Script, one: facts.Trained) -> bool:
    if one.config is None:
        return any(call.optimizes_all for call in script.calls_to(*_IN_LOOPS))
    return one.optimizer is not None and one.optimizer.is_value(*_ADAM)


def _gib(script: Script, one: facts.Trained, billions: float) -> float:
    copies = 4 if _keeps_moments(script, one) else 2
    return billions * 1e9 * _bytes(one) * copies / 2**30


def _states(script: Script, one: facts.Trained) -> str:
    dtype = "float32" if _bytes(one) == 4 else "2 bytes each"
    return (
        f"Adam's states, in {dtype}"
        if _keeps_moments(script, one)
        else f"the optimizer, in {dtype}"
    )


def of_run(run: TrainingRun) -> Iterator[Finding]:
    method = run.method
    if method.is_value("full"):
        message = f"{method.said}: their gradients and optimizer states with them"
        yield Finding(method.span, message, by_change(run.set(method="lora")))


RULE = Rule(
    code="MEM406",
    name="full-fine-tune",
    level=Level.HINT,
    summary="all weights of a large model trained, without an adapter",
    check=check,
    of_run=of_run,
    on_request=True,
    skips=(Skip.UNSLOTH, Skip.OFF_CUDA),
    effect={"method": "lora"},
)
