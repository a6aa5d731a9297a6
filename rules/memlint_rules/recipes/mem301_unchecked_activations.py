"""Activations of all layers kept until backward.

axolotl's FSDP checkpoints by its own wrapper, Unsloth and plugins bring checkpointing of theirs.
LLaMA-Factory checkpoints unless it is told not to. Source: the schemas of the three programs.
"""

from __future__ import annotations

from collections.abc import Iterator

from memlint.rule import Finding, Recipe, RecipeKind, advise, fix, is_on, set_key, trains

_KEPT = "the activations of all layers are kept until backward"


def _torchtune(recipe: Recipe) -> Iterator[Finding]:
    key = "enable_activation_checkpointing"
    option = recipe.option(key)
    if trains(recipe) and option.is_value(False):
        proposed = fix(f"Set `{key}: true`", set_key(recipe, key, "True"))
        yield Finding(option.span, f"`{key}` is off: {_KEPT}", proposed)


def _axolotl(recipe: Recipe) -> Iterator[Finding]:
    option = recipe.option("gradient_checkpointing")
    if option.value not in (False, None) or is_on(recipe, "activation_offloading"):
        return
    if recipe.has("fsdp_config.activation_checkpointing"):
        return
    if any(key.startswith("unsloth_") for key in recipe.keys):
        return
    edits = None
    others = ("fsdp", "fsdp_config", "plugins")
    if option.value is None and not any(recipe.has(key) for key in others):
        edits = set_key(recipe, "gradient_checkpointing", "True")
    proposed = fix("Set `gradient_checkpointing: true`", edits)
    yield Finding(option.span, f"activation checkpointing is off: {_KEPT}", proposed)


def _llama_factory(recipe: Recipe) -> Iterator[Finding]:
    key = "disable_gradient_checkpointing"
    option = recipe.option(key)
    if trains(recipe) and option.is_value(True):
        message = f"activation checkpointing is disabled: {_KEPT}"
        yield Finding(option.span, message, advise(f"Remove `{key}`"))


CHECKS = {
    RecipeKind.TORCHTUNE: _torchtune,
    RecipeKind.AXOLOTL: _axolotl,
    RecipeKind.LLAMA_FACTORY: _llama_factory,
}
