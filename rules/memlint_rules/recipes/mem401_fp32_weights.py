"""Weights in fp32. Source: torchtune documentation, "Memory Optimization Overview"."""

from __future__ import annotations

from collections.abc import Iterator

from memlint.rule import (
    Finding,
    Fix,
    Recipe,
    RecipeKind,
    ReplaceExpression,
    Script,
    TorchtuneModel,
    WrapStatements,
    fix,
    reference_to,
    set_key,
    trains,
)


def _torchtune(recipe: Recipe) -> Iterator[Finding]:
    option = recipe.option("dtype")
    if trains(recipe) and option.is_value("fp32"):
        yield Finding(
            option.span,
            "`dtype: fp32` keeps weights, gradients, optimizer states and activations in 4 bytes "
            "where bf16 takes 2",
            fix("Set `dtype: bf16`", set_key(recipe, "dtype", '"bf16"'), unsafe=True),
        )


_WIDE = "torch.float32"


def _in_python(script: Script) -> Iterator[Finding]:
    model = script.torchtune
    if model is None or model.dtype != _WIDE:
        return
    given = model.dtype_argument
    yield Finding(
        script.span(given if given is not None else model.load.node.func),
        "builds the model in float32: weights, gradients, optimizer states and activations take 4 "
        "bytes where bf16 takes 2",
        _narrow(script, model),
    )


def _narrow(script: Script, model: TorchtuneModel) -> Fix:
    message = "Build it under `torchtune.training.set_default_dtype(torch.bfloat16)`"
    narrow = reference_to(script, "torch.bfloat16", model.load.node)
    under = reference_to(script, "torchtune.training.set_default_dtype", model.load.node)
    if narrow is None or under is None:
        return fix(message, None)
    given = model.dtype_argument
    if given is not None:
        edits = (ReplaceExpression(script.span(given), narrow.text), *narrow.edits)
        return fix("Set `torch.bfloat16`", edits, unsafe=True)
    span = script.span(script.statement(model.load.node))
    if model.name is None:
        return fix(message, None)
    wrap = WrapStatements(span, span, f"with {under.text}({narrow.text}):")
    return fix(message, (wrap, *under.edits, *narrow.edits), unsafe=True)


CHECKS = {RecipeKind.TORCHTUNE: _torchtune}
IN_PYTHON = _in_python
