"""Embeddings or an output layer trained beside adapters.

Source: the schemas of axolotl and LLaMA-Factory; torchtune's builders (``apply_lora_to_output``).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from memlint.rule import (
    Finding,
    Level,
    Recipe,
    RecipeKind,
    RecipeOption,
    Script,
    advise,
    fix,
    is_adapter,
    set_key,
    set_option,
    trains,
)

_WIDE = frozenset({"embed_tokens", "lm_head"})
_ON_OUTPUT = (
    "an adapter of the output layer keeps the loss from taking the logits in chunks cheaply, and "
    "its activations are as wide as the vocabulary"
)


def _torchtune(recipe: Recipe) -> Iterator[Finding]:
    option = recipe.option("model.apply_lora_to_output")
    if trains(recipe) and option.is_value(True):
        edits = set_key(recipe, "model.apply_lora_to_output", "False")
        yield Finding(
            option.span,
            _ON_OUTPUT,
            fix("Set `apply_lora_to_output: false`", edits, unsafe=True),
            Level.HINT,
        )


def _axolotl(recipe: Recipe) -> Iterator[Finding]:
    option = recipe.option("lora_modules_to_save")
    if is_adapter(recipe) and isinstance(option.value, list):
        yield from _copies(option, {*map(str, option.value)})


def _llama_factory(recipe: Recipe) -> Iterator[Finding]:
    option = recipe.option("additional_target")
    if trains(recipe) and option.given:
        yield from _copies(option, str(option.value).replace(" ", "").split(","))


def _copies(option: RecipeOption, modules: Collection[str]) -> Iterator[Finding]:
    if _WIDE.intersection(modules):
        yield Finding(
            option.span,
            "embeddings and output layer are trained as full copies, with gradients and optimizer "
            "states as wide as the vocabulary",
            advise("Leave them out unless new tokens must be learned"),
            Level.HINT,
        )


def _in_python(script: Script) -> Iterator[Finding]:
    model = script.torchtune
    if model is None or not model.is_adapter:
        return
    option = model.load.setting("apply_lora_to_output")
    if option.is_value(True) and option.node is not None:
        edits = set_option(script, model.load, "apply_lora_to_output", "False")
        yield Finding(
            script.span(option.node),
            _ON_OUTPUT,
            fix("Set `apply_lora_to_output=False`", edits, unsafe=True),
            Level.HINT,
        )


CHECKS = {
    RecipeKind.TORCHTUNE: _torchtune,
    RecipeKind.AXOLOTL: _axolotl,
    RecipeKind.LLAMA_FACTORY: _llama_factory,
}
IN_PYTHON = _in_python
