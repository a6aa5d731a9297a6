"""A large batch on the GPU at once.

Source: torchtune documentation, "Memory Optimization Overview".
"""

from __future__ import annotations

from collections.abc import Iterator

from memlint.rule import (
    Finding,
    Level,
    Purpose,
    Recipe,
    RecipeKind,
    Script,
    advise,
    fix,
    is_on,
    set_key,
    together,
    trains,
)

_TOGETHER = (
    "the activations of {} samples are on the GPU at once: accumulating gradients over smaller "
    "batches learns the same"
)


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
        _TOGETHER.format(batch.value),
        fix(f"Set `batch_size: {micro}` and `gradient_accumulation_steps: {count}`", edits),
        Level.HINT,
    )


def _in_python(script: Script) -> Iterator[Finding]:
    if script.torchtune is None or script.accumulation is not None:
        return
    for data in script.datasets:
        size = data.batch_size.value if data.batch_size is not None else None
        if data.purpose is Purpose.TRAINING and type(size) is int and size >= 16:
            yield Finding(
                data.span,
                _TOGETHER.format(size),
                advise("Accumulate the gradients of smaller batches"),
                Level.HINT,
            )


CHECKS = {RecipeKind.TORCHTUNE: _torchtune}
IN_PYTHON = _in_python
