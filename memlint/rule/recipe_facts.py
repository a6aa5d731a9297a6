"""What recipes say, for checks of their keys: a rule writes ``recipes.key_problems(recipe)``."""

from memlint.recipes.keys import KeyProblem, Status, key_problems
from memlint.recipes.kinds import Kind
from memlint.recipes.recipe_training import DEFAULT_LENGTH, is_on, trains
