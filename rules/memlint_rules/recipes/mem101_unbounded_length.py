"""Samples of any length.

Source: torchtune documentation, "Memory Optimization Overview", and its tokenizers, which cut at
``max_seq_len`` alone.
"""

from __future__ import annotations

from collections.abc import Iterator

from memlint.rule import (
    DEFAULT_LENGTH,
    Finding,
    Recipe,
    RecipeKind,
    Script,
    fix,
    is_on,
    set_key,
    set_option,
    takes_images,
    trains,
)


def _torchtune(recipe: Recipe) -> Iterator[Finding]:
    length = recipe.option("tokenizer.max_seq_len")
    if not trains(recipe) or not recipe.component("tokenizer") or length.value is not None:
        return
    if is_on(recipe, "dataset.packed"):
        return  # refused at the start
    # A cut could take an image's token and leave the image.
    edits = set_key(recipe, "tokenizer.max_seq_len", str(DEFAULT_LENGTH))
    yield Finding(
        length.span,
        "the tokenizer has no `max_seq_len`: the longest sample decides the peak",
        fix(
            f"Set `max_seq_len: {DEFAULT_LENGTH}`, or what your data needs: longer samples are cut",
            None if takes_images(recipe) else edits,
            unsafe=True,
        ),
    )


def _in_python(script: Script) -> Iterator[Finding]:
    model = script.torchtune
    # Anything else that names a length may cut to it.
    if model is None or script.may_use("max_seq_len", "truncat", "PackedDataset"):
        return
    data = [call.setting("packed") for call in model.component_calls("torchtune.datasets")]
    if any(packed.given is not False and packed.value is not False for packed in data):
        return
    for call in model.component_calls(model.package):
        if call.method.endswith("_tokenizer") and not call.has_unknown_keywords:
            edits = set_option(script, call, "max_seq_len", str(DEFAULT_LENGTH))
            yield Finding(
                script.span(call.node.func),
                "the tokenizer has no `max_seq_len`: the longest sample decides the peak",
                fix(
                    f"Set `max_seq_len={DEFAULT_LENGTH}`, or what your data needs: longer samples "
                    "are cut",
                    edits,
                    unsafe=True,
                ),
            )


CHECKS = {RecipeKind.TORCHTUNE: _torchtune}
IN_PYTHON = _in_python
