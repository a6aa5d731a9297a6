"""All weights trained where torchtune has the model with adapters."""

from __future__ import annotations

from collections.abc import Iterator

from memlint.rule import (
    Finding,
    Level,
    Recipe,
    RecipeKind,
    advise,
    component_takes,
    is_adapter,
    trains,
)


def _torchtune(recipe: Recipe) -> Iterator[Finding]:
    package, _, builder = recipe.component("model").rpartition(".")
    if not package.startswith("torchtune.models.") or is_adapter(recipe):
        return
    if trains(recipe) and component_takes(f"{package}.lora_{builder}", release=recipe.release):
        yield Finding(
            recipe.option("model._component_").span,
            f"`{builder}` trains all weights: their gradients and optimizer states with them",
            advise(f"Train adapters with `{package}.lora_{builder}` and a `lora_` recipe"),
            Level.HINT,
        )


CHECKS = {RecipeKind.TORCHTUNE: _torchtune}
