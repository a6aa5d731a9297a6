"""A loss that takes the logits of all tokens at once.

Source: torchtune documentation, "Memory Optimization Overview"; ``torchtune.modules.loss``.
"""

from __future__ import annotations

from collections.abc import Iterator

from memlint.rule import Finding, Recipe, RecipeKind, fix, set_key, trains

_WHOLE = "torch.nn.CrossEntropyLoss"
_CHUNKED = "torchtune.modules.loss.CEWithChunkedOutputLoss"


def _torchtune(recipe: Recipe) -> Iterator[Finding]:
    option = recipe.option("loss._component_")
    if not trains(recipe) or recipe.component("loss") != _WHOLE:
        return
    alone = recipe.option("loss").value == {"_component_": _WHOLE}
    edits = set_key(recipe, "loss._component_", repr(_CHUNKED)) if alone else None
    yield Finding(
        option.span,
        "the loss takes the logits of all tokens at once, in fp32: as wide as the vocabulary",
        fix(f"Use `{_CHUNKED}`, which takes them in chunks", edits),
    )


CHECKS = {RecipeKind.TORCHTUNE: _torchtune}
