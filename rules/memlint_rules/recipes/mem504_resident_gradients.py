"""All gradients kept until the optimizer steps.

Source: torchtune documentation, "Memory Optimization Overview"; its recipes, which refuse
accumulation and clipping beside the step in backward.
"""

from __future__ import annotations

from collections.abc import Iterator

from memlint.rule import (
    Finding,
    Level,
    Recipe,
    RecipeKind,
    Script,
    advise,
    fix,
    is_adapter,
    set_key,
    trains,
)


def _torchtune(recipe: Recipe) -> Iterator[Finding]:
    option = recipe.option("optimizer_in_bwd")
    if not trains(recipe) or is_adapter(recipe) or not option.is_value(False):
        return
    if not recipe.option("gradient_accumulation_steps").is_value(1):
        return
    if recipe.option("clip_grad_norm").value is None:
        yield Finding(
            option.span,
            "all gradients are kept until the optimizer steps: 2 bytes a weight in bf16",
            fix(
                "Set `optimizer_in_bwd: true`: each weight is stepped as soon as its gradient is "
                "there",
                set_key(recipe, "optimizer_in_bwd", "True"),
            ),
            Level.HINT,
        )


def _in_python(script: Script) -> Iterator[Finding]:
    model = script.torchtune
    if model is None or model.is_adapter or script.is_sharded or model.optimizer is None:
        return
    if script.accumulation or script.loss_divisor or script.needs_gradients_in_place:
        return
    if script.may_use("in_bwd", "InBackward", "post_accumulate", "clip_grad", "FSDP", "fsdp"):
        return
    yield Finding(
        script.span(model.optimizer.node.func),
        "all gradients are kept until the optimizer steps",
        advise("Step each weight in backward: `torchtune.training.register_optim_in_bwd_hooks`"),
        Level.HINT,
    )


CHECKS = {RecipeKind.TORCHTUNE: _torchtune}
IN_PYTHON = _in_python
