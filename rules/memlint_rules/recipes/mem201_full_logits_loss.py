"""A loss that takes the logits of all tokens at once.

Source: torchtune documentation, "Memory Optimization Overview"; ``torchtune.modules.loss``.
"""

from __future__ import annotations

from collections.abc import Iterator

from memlint.rule import Finding, Recipe, RecipeKind, Script, advise, fix, set_key, trains

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


def _in_python(script: Script) -> Iterator[Finding]:
    if script.torchtune is None or script.may_use("LinearCrossEntropy", "ChunkedOutput"):
        return
    for call in script.calls_to(_WHOLE, "torch.nn.functional.cross_entropy"):
        if call.without_gradients:
            continue
        yield Finding(
            script.span(call.node.func),
            "the loss takes the logits of all tokens at once: as wide as the vocabulary",
            advise(
                f"Use `{_CHUNKED}` on the model's output and call "
                "`model.set_num_output_chunks(loss.num_output_chunks)`"
            ),
        )


CHECKS = {RecipeKind.TORCHTUNE: _torchtune}
IN_PYTHON = _in_python
