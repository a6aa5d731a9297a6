"""Keys that the program does not read, so that the option is off.

torchtune and axolotl pass over what they do not know in silence. Source: the tables of the
programs' releases; transformers documentation, "DeepSpeed" (activation checkpointing).
"""

from __future__ import annotations

from collections.abc import Iterator

from memlint.rule import Finding, Level, Recipe, advise, recipes
from memlint_rules.recipes.keys import KEYED, finding_of_key


def _ignored(recipe: Recipe) -> Iterator[Finding]:
    for problem in recipes.key_problems(recipe):
        if problem.status is recipes.Status.IGNORED:
            yield finding_of_key(recipe, problem, "does not read", None)


def _deepspeed(recipe: Recipe) -> Iterator[Finding]:
    option = recipe.option("activation_checkpointing")
    section = option.value
    if isinstance(section, dict) and any(value is True for value in section.values()):
        yield Finding(
            option.span,
            "models of transformers do not read DeepSpeed's `activation_checkpointing`",
            advise("Turn checkpointing on where the model is trained: `gradient_checkpointing`"),
            Level.HINT,
        )


CHECKS = {**dict.fromkeys(KEYED, _ignored), recipes.Kind.DEEPSPEED: _deepspeed}
