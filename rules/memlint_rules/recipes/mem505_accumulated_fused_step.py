"""Accumulation beside a step in backward. Source: the recipes of torchtune, which refuse it."""

from __future__ import annotations

from collections.abc import Iterator

from memlint.rule import Finding, Recipe, RecipeKind, fix, set_key


def _torchtune(recipe: Recipe) -> Iterator[Finding]:
    option = recipe.option("optimizer_in_bwd")
    steps = recipe.option("gradient_accumulation_steps").value
    if option.is_value(True) and isinstance(steps, int) and steps > 1:
        yield Finding(
            option.span,
            f"torchtune refuses `optimizer_in_bwd` with {steps} accumulated batches: each batch "
            "would step",
            fix("Set `optimizer_in_bwd: false`", set_key(recipe, "optimizer_in_bwd", "False")),
        )


CHECKS = {RecipeKind.TORCHTUNE: _torchtune}
