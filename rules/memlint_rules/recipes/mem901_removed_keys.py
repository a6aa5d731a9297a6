"""Keys at which the program stops: LLaMA-Factory at any that it does not know.

Source: the tables of the programs' releases.
"""

from __future__ import annotations

from collections.abc import Iterator

from memlint.rule import Finding, Level, Recipe, recipes
from memlint_rules.recipes.keys import KEYED, finding_of_key


def _removed(recipe: Recipe) -> Iterator[Finding]:
    for problem in recipes.key_problems(recipe):
        if problem.status is recipes.Status.REFUSED:
            yield finding_of_key(recipe, problem, "does not take", Level.ERROR)


CHECKS = dict.fromkeys(KEYED, _removed)
