"""Attention that writes its scores out. Source: the schemas of axolotl and LLaMA-Factory."""

from __future__ import annotations

from collections.abc import Iterator

from memlint.rule import Finding, Recipe, RecipeKind, advise, fix, set_key, trains

_SCORES = "eager attention keeps a score for every pair of tokens and head"


def _axolotl(recipe: Recipe) -> Iterator[Finding]:
    by_name = recipe.option("attn_implementation")
    by_switch = recipe.option("eager_attention")
    if by_name.is_value("eager"):
        # Plugins bring kernels of their own, which may need the eager path.
        edits = None if recipe.has("plugins") else set_key(recipe, "attn_implementation", '"sdpa"')
        proposed = fix("Set `attn_implementation: sdpa`", edits, unsafe=True)
        yield Finding(by_name.span, _SCORES, proposed)
    elif by_switch.is_value(True):
        yield Finding(by_switch.span, _SCORES, advise("Set `sdp_attention: true` instead"))


def _llama_factory(recipe: Recipe) -> Iterator[Finding]:
    option = recipe.option("flash_attn")
    if trains(recipe) and option.is_value("disabled"):
        proposed = fix("Set `flash_attn: sdpa`", set_key(recipe, "flash_attn", '"sdpa"'))
        yield Finding(option.span, _SCORES, proposed)


CHECKS = {RecipeKind.AXOLOTL: _axolotl, RecipeKind.LLAMA_FACTORY: _llama_factory}
