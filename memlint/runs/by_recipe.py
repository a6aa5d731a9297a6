"""The record of a run that a recipe describes: what its keys mean, and how they are set."""

import json

from memlint.recipes.keys import component_takes
from memlint.recipes.recipe import UNKNOWN, Recipe, remove_key, set_key
from memlint.recipes.recipe_training import is_adapter, is_on, is_sharded
from memlint.runs.program_options import KEPT_BASE, OPTIONS, Option
from memlint.runs.run import Change, Field, TrainingRun
from memlint.script.call_settings import UNSURE
from memlint.source.edits import Edit


class RecipeRun(TrainingRun):
    """What a recipe of torchtune, axolotl or LLaMA-Factory trains, or a file that goes with it."""

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe

    @property
    def is_sharded(self) -> bool:
        return is_sharded(self.recipe)

    def _by_rows(self, name: str) -> Field:
        row = self._row(name)
        if row is None or row.unsure(self.recipe):
            return Field()
        option = self.recipe.option(row.key)
        value = UNSURE if option.value is UNKNOWN else row.read(option.value)
        said = row.said or _said(option.key, option.value)
        shown = option if option.given or not row.at else self.recipe.option(row.at)
        return Field(value, shown.span, said.format(str(option.value).rpartition(".")[2]))

    def _write_row(self, name: str, value: object) -> Change:
        row = self._row(name)
        if row is None:
            return super()._write_row(name, value)
        recipe = self.recipe
        if row.advice(recipe):
            return Change({name: value}, row.advice(recipe))
        keys = {row.key: row.written(value), **row.adds(recipe)}
        edits: tuple[Edit, ...] | None = ()
        for key, wanted in keys.items():
            edit = remove_key(recipe, key) if wanted is None else set_key(recipe, key, repr(wanted))
            edits = None if edits is None or edit is None else (*edits, *edit)
        said = [self._said(key, wanted) for key, wanted in keys.items() if wanted is not None]
        message = " and ".join((said[0], *(one.removeprefix("Set ") for one in said[1:])))
        message += row.more(recipe)
        return Change({name: value}, message, None if row.kept(recipe) else edits, row.unsafe)

    def _said(self, key: str, value: object) -> str:
        above, _, last = key.rpartition(".")
        if last == "_component_":
            return f"Use `{value}`"
        if self.recipe.document.json and above:
            return f'Set `"{above}": {json.dumps({last: value})}`'
        return f"Set `{last}: {str(value).lower() if isinstance(value, bool) else value}`"

    def _row(self, name: str) -> Option | None:
        """The row of a field: of several, the first whose option is given."""
        rows = [row for row in OPTIONS.get(self.recipe.kind, ()) if row.field == name]
        return next((row for row in rows if self.recipe.has(row.key)), rows[0] if rows else None)


def _said(key: str, value: object) -> str:
    if isinstance(value, bool) or value is None:
        return f"`{key}` is {'on' if value else 'off'}"
    return f"`{key}: {value}`".replace("{", "{{").replace("}", "}}")


class TorchtuneRecipe(RecipeRun):
    """What a recipe of torchtune trains: the model's builder says with what."""

    @property
    def _builder(self) -> tuple[str, str]:
        package, _, builder = self.recipe.component("model").rpartition(".")
        return package, builder

    def _has(self, component: str, parameter: str = "") -> bool:
        return component_takes(component, parameter, self.recipe.release)

    def read_method(self) -> Field:
        """All weights, where torchtune has the model with adapters too."""
        package, builder = self._builder
        if is_adapter(self.recipe):
            return Field("lora")
        full = package.startswith("torchtune.models.") and self._has(f"{package}.lora_{builder}")
        span = self.recipe.option("model._component_").span
        return Field("full" if full else UNSURE, span, f"`{builder}` trains all weights")

    def write_method(self, value: str) -> Change:
        """Another builder, with another recipe's program."""
        package, builder = self._builder
        message = f"Train adapters with `{package}.lora_{builder}` and a `lora_` recipe"
        return Change({"method": value}, message)

    def read_quantization(self) -> Field:
        """None of a frozen base that torchtune could quantize."""
        package, builder = self._builder
        recipe = self.recipe
        quantized = recipe.has("quantizer") or is_on(recipe, "model.quantize_base")
        if quantized or self.is_sharded or not builder.startswith("lora_"):
            return Field()
        known = self._has(f"{package}.q{builder}")
        known = known or self._has(f"{package}.{builder}", "quantize_base")
        span = recipe.option("model._component_").span
        return Field(None if known else UNSURE, span, KEPT_BASE.format(builder))

    def write_quantization(self, value: str) -> Change:
        """The builder of the quantized model, or its switch."""
        package, builder = self._builder
        key, wanted = "model._component_", f"{package}.q{builder}"
        if self._has(wanted):
            edits, message = set_key(self.recipe, key, repr(wanted)), f"Use `{wanted}`"
        else:
            edits = set_key(self.recipe, "model.quantize_base", "True")
            message = "Set `quantize_base: true`"
        return Change({"quantization": value}, message, edits, True)
