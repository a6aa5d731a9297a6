"""A model that is not compiled.

Source: torchtune documentation, "Memory Optimization Overview".
"""

from __future__ import annotations

from collections.abc import Iterator

from memlint.rule import Finding, Level, Recipe, RecipeKind, fix, set_key, trains


def _torchtune(recipe: Recipe) -> Iterator[Finding]:
    option = recipe.option("compile")
    if trains(recipe) and option.is_value(False):
        yield Finding(
            option.span,
            "the model and the loss are not compiled: every operation keeps its own result",
            fix(
                "Set `compile: true`: fused operations keep fewer activations",
                set_key(recipe, "compile", "True"),
            ),
            Level.HINT,
        )


CHECKS = {RecipeKind.TORCHTUNE: _torchtune}
