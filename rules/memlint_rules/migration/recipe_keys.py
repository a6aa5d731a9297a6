"""Keys and switches of recipes that their programs refuse, warn of or pass over.

LLaMA-Factory stops at any key that it does not know; torchtune and axolotl pass over such keys in
silence. Source: the tables of the programs' releases; torchtune's recipes of 0.6 and 0.7;
DeepSpeed's configuration reference and ``deepspeed.runtime.zero.config``; transformers
documentation, "DeepSpeed" (activation checkpointing).
"""

from collections.abc import Iterator

from memlint.rule import Finding, Level, Recipe, advise, edits, fix, recipes

_ZERO = "zero_optimization"
_RENAMED = {
    "stage3_gather_fp16_weights_on_model_save": "stage3_gather_16bit_weights_on_model_save",
}
_BY_SECTION = {
    "cpu_offload": '`"offload_optimizer": {"device": "cpu"}`',
    "cpu_offload_params": '`"offload_param": {"device": "cpu"}`',
}
_CHECKPOINTING = "enable_activation_checkpointing"
_OFFLOADING = "enable_activation_offloading"


def removed_keys(recipe: Recipe) -> Iterator[Finding]:
    """Yield keys at which the program stops."""
    return _keys(recipe, recipes.Status.REFUSED, "does not take", Level.ERROR)


def deprecated_keys(recipe: Recipe) -> Iterator[Finding]:
    """Yield keys that the program warns of."""
    yield from _keys(recipe, recipes.Status.DEPRECATED, "deprecates", Level.NOTICE)
    if recipe.kind is recipes.Kind.DEEPSPEED:
        yield from _deprecated_by_deepspeed(recipe)


def ignored_keys(recipe: Recipe) -> Iterator[Finding]:
    """Yield keys that the program does not read, so that the option is off."""
    yield from _keys(recipe, recipes.Status.IGNORED, "does not read", None)
    if recipe.kind is recipes.Kind.DEEPSPEED:
        yield from _ignored_under_deepspeed(recipe)


def conflicting_switches(recipe: Recipe) -> Iterator[Finding]:
    """Yield switches that torchtune refuses together."""
    if recipe.kind is not recipes.Kind.TORCHTUNE:
        return
    checkpointing = recipe.option(_CHECKPOINTING)
    is_off = checkpointing.is_value(False) or not checkpointing.given
    if recipes.trains(recipe) and is_off and recipes.is_on(recipe, _OFFLOADING):
        yield Finding(
            recipe.option(_OFFLOADING).span,
            f"torchtune refuses `{_OFFLOADING}` without `{_CHECKPOINTING}`",
            fix(f"Set `{_CHECKPOINTING}: true`", edits.set_key(recipe, _CHECKPOINTING, "True")),
        )
    clip = recipe.option("clip_grad_norm")
    if recipes.is_on(recipe, "optimizer_in_bwd") and isinstance(clip.value, int | float | str):
        yield Finding(
            clip.span,
            "torchtune refuses `clip_grad_norm` beside `optimizer_in_bwd`: no step sees all "
            "gradients",
            advise("Set `clip_grad_norm: null`, or `optimizer_in_bwd: false`"),
        )


def _keys(
    recipe: Recipe, status: recipes.Status, does: str, level: Level | None
) -> Iterator[Finding]:
    for problem in recipes.key_problems(recipe):
        if problem.status is status:
            yield _finding(recipe, problem, does, level)


def _finding(
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


def _deprecated_by_deepspeed(recipe: Recipe) -> Iterator[Finding]:
    for old, new in _RENAMED.items():
        option = recipe.option(f"{_ZERO}.{old}")
        if option.given and not recipe.has(f"{_ZERO}.{new}"):
            proposed = fix(
                f"Write `{new}` instead of `{old}`", edits.rename_key(recipe, option.path, new)
            )
            yield Finding(option.span, f"DeepSpeed deprecates `{old}`", proposed, Level.NOTICE)
    for old, words in _BY_SECTION.items():
        option = recipe.option(f"{_ZERO}.{old}")
        if option.is_value(True):
            proposed = advise(f"Write {words} instead")
            yield Finding(option.span, f"DeepSpeed deprecates `{old}`", proposed, Level.NOTICE)


def _ignored_under_deepspeed(recipe: Recipe) -> Iterator[Finding]:
    option = recipe.option("activation_checkpointing")
    section = option.value
    if isinstance(section, dict) and any(value is True for value in section.values()):
        yield Finding(
            option.span,
            "models of transformers do not read DeepSpeed's `activation_checkpointing`",
            advise("Turn checkpointing on where the model is trained: `gradient_checkpointing`"),
            Level.HINT,
        )
