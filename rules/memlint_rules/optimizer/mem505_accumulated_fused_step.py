"""Gradient accumulation with an optimizer that steps inside backward.

An optimizer that steps in backward uses each gradient as soon as it is there and lets go of it:
nothing is left for the next micro-batch to add to. With accumulation each micro-batch then makes a
step of its own, with the learning rate meant for all of them together, and the loss already divided
by their number. Source: PyTorch tutorial, "How to save memory by fusing the optimizer step into the
backward pass"; ``memlint_runtime.OptimizerInBackward``, which refuses it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from memlint.rule import (
    Applicability,
    Call,
    Config,
    Example,
    Finding,
    Fix,
    Level,
    Rule,
    Script,
)

_STEPS = "gradient_accumulation_steps"
_HOOK = "register_post_accumulate_grad_hook"
_WRAPPERS = ("OptimizerInBackward", "_apply_optimizer_in_backward")
_ADVICE = Fix(
    "Use a larger micro-batch without accumulation, or an optimizer that steps after backward",
    (),
    Applicability.DISPLAY,
)
_WHY = "gradients are used and gone before the next micro-batch could add to them"


def check(script: Script) -> Iterator[Finding]:
    for call in script.method_calls("step_trainer_in_backward"):
        config = _config_of(script, call)
        steps = config.effective(_STEPS).value if config is not None else None
        if type(steps) is int and steps > 1:
            yield _finding(script, call, steps)
    for config in script.configs:
        steps, optimizer = config.effective(_STEPS).value, config.setting("optim").value
        if type(steps) is int and steps > 1 and _steps_in_backward(optimizer):
            yield _finding(script, config, steps)
    steps = _accumulated_in_loop(script)
    if steps is None:
        return
    for call in (*script.method_calls(*_WRAPPERS), *script.method_calls(_HOOK)):
        if call.method != _HOOK or _hook_steps(script, call):
            yield _finding(script, call, steps)


def _steps_in_backward(optimizer: object) -> bool:
    return isinstance(optimizer, str) and (
        optimizer.endswith("_layerwise") or optimizer in ("lomo", "adalomo")
    )


def _config_of(script: Script, call: Call) -> Config | None:
    """The configuration of the trainer that a call gets."""
    given = call.node.args[0] if call.node.args else None
    if given is None:
        return None
    made = getattr(getattr(script.value(given), "made_by", None), "node", None)
    trainers = [one for one in script.trainers if one.node is made]
    return trainers[0].config if trainers else None


def _accumulated_in_loop(script: Script) -> int | None:
    """Micro-batches for each step of a hand-written loop; None where there is one, or unknown."""
    for call in script.calls_to("accelerate.Accelerator"):
        steps = call.setting(_STEPS).value
        if type(steps) is int and steps > 1:
            return steps
    for loop in script.loops:
        for node in ast.walk(loop.node):
            if isinstance(node, ast.If) and _calls_step(node):
                for inner in ast.walk(node.test):
                    if isinstance(inner, ast.BinOp) and isinstance(inner.op, ast.Mod):
                        steps = script.python(inner.right)
                        if type(steps) is int and steps > 1:
                            return steps
    return None


def _calls_step(tree: ast.AST) -> bool:
    return any(
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "step"
        for node in ast.walk(tree)
    )


def _hook_steps(script: Script, call: Call) -> bool:
    """Whether the hook is a function of the script that steps an optimizer."""
    hook = call.argument(0)
    node = getattr(hook, "node", None)
    return isinstance(node, ast.FunctionDef | ast.Lambda) and _calls_step(node)


def _finding(script: Script, call: Call, steps: int) -> Finding:
    return Finding(
        script.span(call.node.func),
        f"the optimizer steps inside backward, but {steps} micro-batches make a step: {_WHY}",
        _ADVICE,
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
