"""A frozen base in 2 bytes a weight.

Source: torchtune's builders of models (``qlora_*``, ``quantize_base``); the schemas of axolotl and
LLaMA-Factory.
"""

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
    fix,
    is_on,
    is_sharded,
    names_quantized,
    set_key,
    set_option,
    trains,
)

_BASE = "the frozen base takes 2 bytes a weight, where 4 bits would do"
_AXOLOTL_QUANTIZES = ("quantization", "model_quantization_config", "fsdp", "fsdp_config")


def _torchtune(recipe: Recipe) -> Iterator[Finding]:
    package, _, builder = recipe.component("model").rpartition(".")
    if not trains(recipe) or not builder.startswith("lora_") or is_sharded(recipe):
        return
    if recipe.has("quantizer") or is_on(recipe, "model.quantize_base"):
        return
    component = f"{package}.q{builder}"
    if component_takes(component, release=recipe.release):
        edits = set_key(recipe, "model._component_", repr(component))
        proposed = fix(f"Use `{component}`", edits, unsafe=True)
    elif component_takes(f"{package}.{builder}", "quantize_base", recipe.release):
        edits = set_key(recipe, "model.quantize_base", "True")
        proposed = fix("Set `quantize_base: true`", edits, unsafe=True)
    else:
        return
    yield Finding(
        recipe.option("model._component_").span,
        f"`{builder}` keeps the frozen base in 2 bytes a weight, where NF4 takes half a byte",
        proposed,
        Level.HINT,
    )


def _axolotl(recipe: Recipe) -> Iterator[Finding]:
    option = recipe.option("adapter")
    if not option.is_value("lora") or is_on(recipe, "load_in_8bit", "load_in_4bit", "gptq"):
        return
    if not trains(recipe) or any(recipe.has(key) for key in _AXOLOTL_QUANTIZES):
        return
    if not names_quantized(recipe.option("base_model").value):
        proposed = advise("Set `adapter: qlora` and `load_in_4bit: true`")
        yield Finding(option.span, _BASE, proposed, Level.HINT)


def _llama_factory(recipe: Recipe) -> Iterator[Finding]:
    tuning = recipe.option("finetuning_type")
    if not trains(recipe) or not tuning.is_value("lora") or recipe.has("quantization_bit"):
        return
    if is_sharded(recipe) or recipe.has("pissa_init") or is_on(recipe, "use_kt"):
        return
    if not names_quantized(recipe.option("model_name_or_path").value):
        edits = set_key(recipe, "quantization_bit", "4")
        proposed = fix("Set `quantization_bit: 4`", edits, unsafe=True)
        yield Finding(tuning.span, _BASE, proposed, Level.HINT)


def _in_python(script: Script) -> Iterator[Finding]:
    model = script.torchtune
    if model is None or not model.is_adapter or model.is_quantized is not False:
        return
    if script.is_sharded or script.may_use("fsdp", "FSDP", "fully_shard", "quantiz"):
        return
    if component_takes(f"{model.package}.{model.builder}", "quantize_base"):
        # The weights of a quantized base are made from bf16 ones.
        narrow = model.dtype == "torch.bfloat16"
        edits = set_option(script, model.load, "quantize_base", "True") if narrow else None
        yield Finding(
            script.span(model.load.node.func),
            f"`{model.builder}` keeps the frozen base in 2 bytes a weight, where NF4 takes half a "
            "byte",
            fix("Set `quantize_base=True`", edits, unsafe=True),
            Level.HINT,
        )


CHECKS = {
    RecipeKind.TORCHTUNE: _torchtune,
    RecipeKind.AXOLOTL: _axolotl,
    RecipeKind.LLAMA_FACTORY: _llama_factory,
}
IN_PYTHON = _in_python
