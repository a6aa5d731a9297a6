"""Reentrant checkpointing.

axolotl needs it beside FlexAttention, whose saved tensors change between the two passes. Source:
``torch.utils.checkpoint``; the recipes of axolotl.
"""

from __future__ import annotations

from collections.abc import Iterator

from memlint.rule import (
    Finding,
    Recipe,
    RecipeKind,
    attends_flexibly,
    fix,
    is_on,
    is_sharded,
    set_key,
    trains,
)

_HELD = "checkpointing is reentrant: one layer's output more is held at the peak"


def _axolotl(recipe: Recipe) -> Iterator[Finding]:
    if is_on(recipe, "gradient_checkpointing") and not attends_flexibly(recipe):
        path = "gradient_checkpointing_kwargs.use_reentrant"
        yield from _reentrant(recipe, path, can_change=not is_sharded(recipe))


def _llama_factory(recipe: Recipe) -> Iterator[Finding]:
    if trains(recipe):
        yield from _reentrant(recipe, "use_reentrant_gc", can_change=True)


def _reentrant(recipe: Recipe, path: str, *, can_change: bool) -> Iterator[Finding]:
    option = recipe.option(path)
    if option.is_value(True):
        edits = set_key(recipe, path, "False") if can_change else None
        yield Finding(option.span, _HELD, fix(f"Set `{option.key}: false`", edits))


CHECKS = {RecipeKind.AXOLOTL: _axolotl, RecipeKind.LLAMA_FACTORY: _llama_factory}
