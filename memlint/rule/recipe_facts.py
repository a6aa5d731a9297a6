"""What recipes say, for checks of their keys: a rule writes ``recipes.key_problems(recipe)``."""

from __future__ import annotations

from memlint.recipes.keys import KeyProblem, Status, key_problems
from memlint.recipes.kinds import Kind
from memlint.recipes.recipe_training import DEFAULT_LENGTH, is_on, trains

__all__ = [
    "DEFAULT_LENGTH",
    "KeyProblem",
    "Kind",
    "Status",
    "is_on",
    "key_problems",
    "trains",
]
