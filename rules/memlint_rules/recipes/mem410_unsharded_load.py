"""ZeRO-3 that loads the whole model in every process first.

Source: accelerate's documentation, "DeepSpeed" (``zero3_init_flag``).
"""

from __future__ import annotations

from collections.abc import Iterator

from memlint.rule import Finding, Level, Recipe, RecipeKind, fix, set_key


def _accelerate(recipe: Recipe) -> Iterator[Finding]:
    path = "deepspeed_config.zero3_init_flag"
    flag = recipe.option(path)
    if recipe.option("deepspeed_config.zero_stage").is_value(3) and flag.is_value(False):
        edits = set_key(recipe, path, "True")
        yield Finding(
            flag.span,
            "ZeRO-3 without `zero3_init_flag`: every process first loads the whole model",
            fix("Set `zero3_init_flag: true`", edits, unsafe=True),
            Level.HINT,
        )


CHECKS = {RecipeKind.ACCELERATE: _accelerate}
