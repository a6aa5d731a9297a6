"""A model that is not compiled.

Source: torchtune documentation, "Memory Optimization Overview".
"""

from __future__ import annotations

from collections.abc import Iterator

from memlint.rule import Finding, Level, Recipe, RecipeKind, Script, advise, fix, set_key, trains

_UNFUSED = "the model and the loss are not compiled: every operation keeps its own result"


def _torchtune(recipe: Recipe) -> Iterator[Finding]:
    option = recipe.option("compile")
    if trains(recipe) and option.is_value(False):
        yield Finding(
            option.span,
            _UNFUSED,
            fix(
                "Set `compile: true`: fused operations keep fewer activations",
                set_key(recipe, "compile", "True"),
            ),
            Level.HINT,
        )


def _in_python(script: Script) -> Iterator[Finding]:
    model = script.torchtune
    if model is not None and not script.may_use("compile"):
        yield Finding(
            script.span(model.load.node.func),
            _UNFUSED,
            advise("Call `torchtune.training.compile_model(model)`"),
            Level.HINT,
        )


CHECKS = {RecipeKind.TORCHTUNE: _torchtune}
IN_PYTHON = _in_python
