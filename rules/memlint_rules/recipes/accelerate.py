"""What is wrong in a configuration of accelerate.

It belongs to a run whose script decides most of it: what is said here holds for any script.
Source: accelerate's documentation, "DeepSpeed" (``zero3_init_flag``).
"""

from __future__ import annotations

from collections.abc import Iterator

from memlint.rule import Finding, Level, Recipe, fix, set_key


def unsharded_load(recipe: Recipe) -> Iterator[Finding]:
    option = recipe.option("deepspeed_config.zero_stage")
    if option.is_value(3) and recipe.option("deepspeed_config.zero3_init_flag").is_value(False):
        flag = recipe.option("deepspeed_config.zero3_init_flag")
        yield Finding(
            flag.span,
            "ZeRO-3 without `zero3_init_flag`: every process first loads the whole model",
            fix(
                "Set `zero3_init_flag: true`",
                set_key(recipe, "deepspeed_config.zero3_init_flag", "True"),
                unsafe=True,
            ),
            Level.HINT,
        )


CHECKS = {"MEM410": unsharded_load}
