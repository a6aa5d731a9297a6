"""Training in neither bf16 nor fp16.

Source: the schemas of axolotl and LLaMA-Factory, whose frozen bases keep their checkpoint's dtype;
DeepSpeed's configuration reference.
"""

from __future__ import annotations

from collections.abc import Iterator

from memlint.rule import Finding, Recipe, RecipeKind, RecipeOption, fix, is_on, set_key, trains

_OFF = (False, None)


def _axolotl(recipe: Recipe) -> Iterator[Finding]:
    bf16 = recipe.option("bf16")
    if bf16.value is not False or recipe.option("fp16").value not in _OFF or not trains(recipe):
        return
    if not is_on(recipe, "fp8", "bfloat16", "float16"):
        yield _finding(recipe, bf16, '"auto"', "`bf16: auto`")


def _llama_factory(recipe: Recipe) -> Iterator[Finding]:
    bf16 = recipe.option("bf16")
    if not trains(recipe) or is_on(recipe, "pure_bf16", "fp8"):
        return
    if not recipe.option("finetuning_type").is_value("full"):
        return
    if bf16.value in _OFF and recipe.option("fp16").value in _OFF:
        shown = bf16 if bf16.given else recipe.option("model_name_or_path")
        yield _finding(recipe, bf16._replace(span=shown.span), "True", "`bf16: true`")


def _deepspeed(recipe: Recipe) -> Iterator[Finding]:
    option = recipe.option("bf16.enabled")
    if option.is_value(False) and recipe.option("fp16.enabled").is_value(False):
        yield _finding(recipe, option, "True", '`"bf16": {"enabled": true}`')


def _finding(recipe: Recipe, option: RecipeOption, source: str, words: str) -> Finding:
    return Finding(
        option.span,
        "trains in float32, with neither bf16 nor fp16: every activation takes 4 bytes where 2 "
        "would do",
        fix(f"Set {words}", set_key(recipe, option.path, source), unsafe=True),
    )


CHECKS = {
    RecipeKind.AXOLOTL: _axolotl,
    RecipeKind.LLAMA_FACTORY: _llama_factory,
    RecipeKind.DEEPSPEED: _deepspeed,
}
