"""Switches that torchtune refuses together. Source: its recipes of 0.6 and 0.7."""

from __future__ import annotations

from collections.abc import Iterator

from memlint.rule import Finding, Recipe, advise, edits, fix, recipes

_CHECKPOINTING = "enable_activation_checkpointing"
_OFFLOADING = "enable_activation_offloading"


def _torchtune(recipe: Recipe) -> Iterator[Finding]:
    checkpointing = recipe.option(_CHECKPOINTING)
    is_off = checkpointing.is_value(False) or not checkpointing.given
    if recipes.trains(recipe) and is_off and recipes.is_on(recipe, _OFFLOADING):
        yield Finding(
            recipe.option(_OFFLOADING).span,
            f"torchtune refuses `{_OFFLOADING}` without `{_CHECKPOINTING}`",
            fix(f"Set `{_CHECKPOINTING}: true`", edits.set_key(recipe, _CHECKPOINTING, "True")),
        )
    clip = recipe.option("clip_grad_norm")
    if recipes.is_on(recipe, "optimizer_in_bwd") and isinstance(clip.value, int | float | str):
        yield Finding(
            clip.span,
            "torchtune refuses `clip_grad_norm` beside `optimizer_in_bwd`: no step sees all "
            "gradients",
            advise("Set `clip_grad_norm: null`, or `optimizer_in_bwd: false`"),
        )


CHECKS = {recipes.Kind.TORCHTUNE: _torchtune}
