"""What is said of a key that its program does not take."""

from __future__ import annotations

from memlint.rule import Finding, Level, Recipe, advise, edits, fix, recipes

# The programs whose keys the tables hold.
KEYED = (recipes.Kind.TORCHTUNE, recipes.Kind.AXOLOTL, recipes.Kind.LLAMA_FACTORY)


def finding_of_key(
    recipe: Recipe, problem: recipes.KeyProblem, does: str, level: Level | None
) -> Finding:
    """A finding at the key. does: what the program does with it, as ``deprecates``."""
    option = problem.option
    name = option.key if option.key != "_component_" else str(option.value)
    message = f"{problem.program} {does} `{name}`"
    if problem.added:
        message += f" (new in {problem.added})"
        return Finding(option.span, message, advise(f"Use {problem.added} or newer"), level)
    if problem.since:
        message += f" (gone since {problem.since})"
    if not problem.instead:
        return Finding(option.span, message, advise(f"Remove `{name}`"), level)
    words = f"Write `{problem.instead}` instead of `{name}`"
    is_slip = not problem.since and ":" not in problem.instead and name == option.key
    if is_slip and problem.status is not recipes.Status.DEPRECATED:
        # The option takes effect where it had none before.
        changes = edits.rename_key(recipe, option.path, problem.instead)
        return Finding(option.span, message, fix(words, changes, unsafe=True), level)
    return Finding(option.span, message, advise(words), level)
