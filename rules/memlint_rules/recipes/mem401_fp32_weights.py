"""Weights in fp32. Source: torchtune documentation, "Memory Optimization Overview"."""

from __future__ import annotations

from collections.abc import Iterator

from memlint.rule import Finding, Recipe, RecipeKind, fix, set_key, trains


def _torchtune(recipe: Recipe) -> Iterator[Finding]:
    option = recipe.option("dtype")
    if trains(recipe) and option.is_value("fp32"):
        yield Finding(
            option.span,
            "`dtype: fp32` keeps weights, gradients, optimizer states and activations in 4 bytes "
            "where bf16 takes 2",
            fix("Set `dtype: bf16`", set_key(recipe, "dtype", '"bf16"'), unsafe=True),
        )


CHECKS = {RecipeKind.TORCHTUNE: _torchtune}
