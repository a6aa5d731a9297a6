"""Keys that the newest release of the program does not take.

LLaMA-Factory stops at a key that it does not know; torchtune and axolotl pass over it in silence,
so that the option is off. Source: the tables of the programs' releases.
"""

from __future__ import annotations

from collections.abc import Iterator

from memlint.rule import (
    Finding,
    KeyProblem,
    KeyStatus,
    Level,
    Recipe,
    advise,
    fix,
    key_problems,
    rename_key,
)


def removed_keys(recipe: Recipe) -> Iterator[Finding]:
    """MEM901: the program stops."""
    for problem in key_problems(recipe):
        if problem.status is KeyStatus.REFUSED:
            yield _finding(recipe, problem, "does not take", Level.ERROR)


def ignored_keys(recipe: Recipe) -> Iterator[Finding]:
    """MEM904: the program reads the recipe without it."""
    for problem in key_problems(recipe):
        if problem.status is KeyStatus.IGNORED:
            yield _finding(recipe, problem, "does not read", None)


def deprecated_keys(recipe: Recipe) -> Iterator[Finding]:
    """MEM902: the program warns."""
    for problem in key_problems(recipe):
        if problem.status is KeyStatus.DEPRECATED:
            yield _finding(recipe, problem, "deprecates", Level.NOTICE)


def _finding(recipe: Recipe, problem: KeyProblem, does: str, level: Level | None) -> Finding:
    option = problem.option
    name = option.key if option.key != "_component_" else str(option.value)
    message = f"{problem.program} {does} `{name}`"
    if problem.since:
        message += f" (gone since {problem.since})"
    if not problem.instead:
        return Finding(option.span, message, advise(f"Remove `{name}`"), level)
    words = f"Write `{problem.instead}` instead of `{name}`"
    is_slip = not problem.since and ":" not in problem.instead and name == option.key
    if is_slip and problem.status is not KeyStatus.DEPRECATED:
        # The option takes effect where it had none before.
        edits = rename_key(recipe, option.path, problem.instead)
        return Finding(option.span, message, fix(words, edits, unsafe=True), level)
    return Finding(option.span, message, advise(words), level)


CHECKS = {"MEM901": removed_keys, "MEM902": deprecated_keys, "MEM904": ignored_keys}
