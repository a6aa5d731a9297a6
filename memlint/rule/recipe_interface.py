"""The names of recipes that ``memlint.rule`` offers to rules."""

from __future__ import annotations

from memlint.recipes.keys import KeyProblem, key_problems
from memlint.recipes.keys import Status as KeyStatus
from memlint.recipes.kinds import Kind as RecipeKind
from memlint.recipes.recipe import Option as RecipeOption
from memlint.recipes.recipe import Recipe
from memlint.recipes.recipe_training import (
    DEFAULT_LENGTH,
    is_on,
    is_sharded,
    trains,
)
from memlint.rule.recipe_keys import KEYED, finding_of_key
from memlint.runs.recipe_changes import rename_key, set_key

__all__ = [
    "DEFAULT_LENGTH",
    "KEYED",
    "KeyProblem",
    "KeyStatus",
    "Recipe",
    "RecipeKind",
    "RecipeOption",
    "finding_of_key",
    "is_on",
    "is_sharded",
    "key_problems",
    "rename_key",
    "set_key",
    "trains",
]
