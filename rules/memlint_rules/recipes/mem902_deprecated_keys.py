"""Keys that the program warns of.

Source: the tables of the programs' releases; DeepSpeed's configuration reference and
``deepspeed.runtime.zero.config``.
"""

from __future__ import annotations

from collections.abc import Iterator

from memlint.rule import Finding, Level, Recipe, advise, edits, fix, recipes
from memlint_rules.recipes.keys import KEYED, finding_of_key

_ZERO = "zero_optimization"
_RENAMED = {
    "stage3_gather_fp16_weights_on_model_save": "stage3_gather_16bit_weights_on_model_save",
}
_OFFLOADING = {
    "cpu_offload": '`"offload_optimizer": {"device": "cpu"}`',
    "cpu_offload_params": '`"offload_param": {"device": "cpu"}`',
}


def _deprecated(recipe: Recipe) -> Iterator[Finding]:
    for problem in recipes.key_problems(recipe):
        if problem.status is recipes.Status.DEPRECATED:
            yield finding_of_key(recipe, problem, "deprecates", Level.NOTICE)


def _deepspeed(recipe: Recipe) -> Iterator[Finding]:
    for old, new in _RENAMED.items():
        option = recipe.option(f"{_ZERO}.{old}")
        if option.given and not recipe.has(f"{_ZERO}.{new}"):
            proposed = fix(
                f"Write `{new}` instead of `{old}`", edits.rename_key(recipe, option.path, new)
            )
            yield Finding(option.span, f"DeepSpeed deprecates `{old}`", proposed, Level.NOTICE)
    for old, words in _OFFLOADING.items():
        option = recipe.option(f"{_ZERO}.{old}")
        if option.is_value(True):
            proposed = advise(f"Write {words} instead")
            yield Finding(option.span, f"DeepSpeed deprecates `{old}`", proposed, Level.NOTICE)


CHECKS = {**dict.fromkeys(KEYED, _deprecated), recipes.Kind.DEEPSPEED: _deepspeed}
