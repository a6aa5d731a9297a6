"""Inputs of checkpointed layers that stay on the GPU.

Source: torchtune documentation, "Memory Optimization Overview"; its recipes, which refuse
offloading for models with a vision tower.
"""

from __future__ import annotations

from collections.abc import Iterator

from memlint.rule import Finding, Recipe, RecipeKind, fix, is_on, set_key, takes_images, trains

_OFFLOADING = "enable_activation_offloading"


def _torchtune(recipe: Recipe) -> Iterator[Finding]:
    option = recipe.option(_OFFLOADING)
    if not trains(recipe) or takes_images(recipe) or not option.is_value(False):
        return
    if is_on(recipe, "enable_activation_checkpointing"):
        yield Finding(
            option.span,
            "the inputs of checkpointed layers stay on the GPU until backward",
            fix(
                f"Set `{_OFFLOADING}: true`: they wait in pinned memory",
                set_key(recipe, _OFFLOADING, "True"),
            ),
        )


CHECKS = {RecipeKind.TORCHTUNE: _torchtune}
