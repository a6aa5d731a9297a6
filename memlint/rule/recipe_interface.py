"""The names of recipes that ``memlint.rule`` offers to rules."""

from __future__ import annotations

from memlint.recipes.keys import KeyProblem, component_takes, key_problems
from memlint.recipes.keys import Status as KeyStatus
from memlint.recipes.kinds import Kind as RecipeKind
from memlint.recipes.recipe import Option as RecipeOption
from memlint.recipes.recipe import Recipe, names_quantized
from memlint.recipes.recipe_training import (
    DEFAULT_LENGTH,
    attends_flexibly,
    can_pack,
    is_adapter,
    is_on,
    is_sharded,
    takes_images,
    trains,
)
from memlint.rule.recipe_keys import KEYED, finding_of_key
from memlint.runs.recipe_changes import remove_key, rename_key, set_key

__all__ = [
    "DEFAULT_LENGTH",
    "KEYED",
    "KeyProblem",
    "KeyStatus",
    "Recipe",
    "RecipeKind",
    "RecipeOption",
    "attends_flexibly",
    "can_pack",
    "component_takes",
    "finding_of_key",
    "is_adapter",
    "is_on",
    "is_sharded",
    "key_problems",
    "names_quantized",
    "remove_key",
    "rename_key",
    "set_key",
    "takes_images",
    "trains",
]
