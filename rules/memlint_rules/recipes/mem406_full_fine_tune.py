"""All weights trained where torchtune has the model with adapters."""

from __future__ import annotations

from collections.abc import Iterator

from memlint.rule import (
    Finding,
    Level,
    Recipe,
    RecipeKind,
    Script,
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


def _in_python(script: Script) -> Iterator[Finding]:
    model = script.torchtune
    if model is None or model.is_adapter:
        return
    if component_takes(f"{model.package}.lora_{model.builder}"):
        yield Finding(
            script.span(model.load.node.func),
            f"`{model.builder}` trains all weights: their gradients and optimizer states with them",
            advise(f"Train adapters with `{model.package}.lora_{model.builder}`"),
            Level.HINT,
        )


CHECKS = {RecipeKind.TORCHTUNE: _torchtune}
IN_PYTHON = _in_python
