"""A large batch on the GPU at once.

Source: torchtune documentation, "Memory Optimization Overview".
"""

from __future__ import annotations

from collections.abc import Iterator

from memlint.rule import Finding, Level, Recipe, RecipeKind, fix, is_on, set_key, together, trains


def _torchtune(recipe: Recipe) -> Iterator[Finding]:
    batch = recipe.option("batch_size")
    steps = recipe.option("gradient_accumulation_steps")
    if not trains(recipe) or not isinstance(batch.value, int) or batch.value < 16:
        return
    if not steps.is_value(1) or is_on(recipe, "optimizer_in_bwd"):
        return
    micro = next((one for one in (4, 3, 2) if batch.value % one == 0), 1)
    count = batch.value // micro
    edits = together(
        set_key(recipe, "batch_size", str(micro)),
        set_key(recipe, "gradient_accumulation_steps", str(count)),
    )
    yield Finding(
        batch.span,
        f"the activations of {batch.value} samples are on the GPU at once: accumulating gradients "
        "over smaller batches learns the same",
        fix(f"Set `batch_size: {micro}` and `gradient_accumulation_steps: {count}`", edits),
        Level.HINT,
    )


CHECKS = {RecipeKind.TORCHTUNE: _torchtune}
