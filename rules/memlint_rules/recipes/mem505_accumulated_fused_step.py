"""Accumulation beside a step in backward, or gradients that each backward pass takes away.

Sources: the recipes of torchtune, which refuse the first; its page on the optimizer that offloads.
"""

from __future__ import annotations

from collections.abc import Iterator

from memlint.rule import Finding, Recipe, RecipeKind, fix, set_key


def _torchtune(recipe: Recipe) -> Iterator[Finding]:
    steps = recipe.option("gradient_accumulation_steps").value
    if not isinstance(steps, int) or steps <= 1:
        return
    yield from _offloaded(recipe, steps)
    option = recipe.option("optimizer_in_bwd")
    if option.is_value(True):
        yield Finding(
            option.span,
            f"torchtune refuses `optimizer_in_bwd` with {steps} accumulated batches: each batch "
            "would step",
            fix("Set `optimizer_in_bwd: false`", set_key(recipe, "optimizer_in_bwd", "False")),
        )


def _offloaded(recipe: Recipe, steps: int) -> Iterator[Finding]:
    component = recipe.option("optimizer._component_").value
    option = recipe.option("optimizer.offload_gradients")
    offloads = isinstance(component, str) and component.endswith(".CPUOffloadOptimizer")
    if offloads and option.is_value(True):
        edits = set_key(recipe, option.path, "False")
        yield Finding(
            option.span,
            f"each backward pass overwrites the gradients on the CPU: a step sees those of the "
            f"last of {steps} accumulated batches",
            fix("Set `offload_gradients: false`, or accumulate none", edits, unsafe=True),
        )


CHECKS = {RecipeKind.TORCHTUNE: _torchtune}
