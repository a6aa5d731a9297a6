"""Gradient accumulation with an optimizer that steps inside backward.

An optimizer that steps in backward uses each gradient as soon as it is complete and frees it:
nothing is left for the next micro-batch to add to. With accumulation each micro-batch then makes a
step of its own, with the learning rate meant for all of them together, and the loss already divided
by their number. Source: PyTorch tutorial, "How to save memory by fusing the optimizer step into the
backward pass"; ``memlint_runtime.OptimizerInBackward``, which refuses it.
"""

from __future__ import annotations

from collections.abc import Iterator

from memlint.rule import Call, Example, Finding, Level, Rule, Script, advise

_STEPS = "gradient_accumulation_steps"
_HOOK = "register_post_accumulate_grad_hook"
_WRAPPERS = ("OptimizerInBackward", "_apply_optimizer_in_backward")


def check(script: Script) -> Iterator[Finding]:
    for call in script.method_calls("step_trainer_in_backward"):
        trainer = script.trainer_of(call.argument(0))
        config = trainer.config if trainer is not None else None
        steps = config.effective(_STEPS).value if config is not None else None
        yield from _finding(script, call, steps)
    for config in script.configs:
        if _steps_in_backward(config.setting("optim").value):
            yield from _finding(script, config, config.effective(_STEPS).value)
    for call in script.method_calls(*_WRAPPERS, _HOOK):
        if call.method != _HOOK or script.steps_optimizer(call.argument(0)):
            yield from _finding(script, call, script.accumulation)


def _steps_in_backward(optimizer: object) -> bool:
    return isinstance(optimizer, str) and (
        optimizer.endswith("_layerwise") or optimizer in ("lomo", "adalomo")
    )


def _finding(script: Script, call: Call, steps: object) -> Iterator[Finding]:
    if type(steps) is int and steps > 1:
        yield Finding(
            script.span(call.node.func),
            f"the optimizer steps inside backward, but {steps} micro-batches make a step: "
            "gradients are used and gone before the next micro-batch could add to them",
            advise(
                "Use a larger micro-batch without accumulation, or an optimizer that steps after "
                "backward"
            ),
        )


RULE = Rule(
    code="MEM505",
    name="accumulated-fused-step",
    level=Level.ERROR,
    summary="gradient accumulation with an optimizer that steps inside backward",
    why=(
        "An optimizer that steps inside backward uses each gradient as soon as it is complete and "
        "frees it. Accumulation wants the opposite: gradients that stay and are added to. Together "
        "every micro-batch makes a step of its own, with the loss divided by the number of "
        "micro-batches: training that looks right and is not. Some libraries refuse it (the "
        "runtime's `OptimizerInBackward` and `step_trainer_in_backward`, the layer-wise optimizers of "
        "transformers); LOMO and a hook written by hand do not."
    ),
    fix_safety="",
    check=check,
    triggers=(frozenset({"in_backward", "InBackward", _HOOK, "layerwise", "lomo"}),),
    references=(
        "https://docs.pytorch.org/tutorials/intermediate/optimizer_step_in_backward_tutorial.html",
    ),
    examples=(
        Example(
            title="a trainer",
            bad="""\
from memlint_runtime import step_trainer_in_backward
from trl import SFTConfig, SFTTrainer

args = SFTConfig("out", gradient_accumulation_steps=8, max_grad_norm=0)
trainer = SFTTrainer("Qwen/Qwen3-0.6B", args=args, train_dataset=dataset)
step_trainer_in_backward(trainer)
trainer.train()
""",
        ),
        Example(
            title="a layer-wise optimizer of transformers",
            bad="""\
from transformers import TrainingArguments

args = TrainingArguments("out", optim="galore_adamw_layerwise", gradient_accumulation_steps=4)
""",
        ),
    ),
)
