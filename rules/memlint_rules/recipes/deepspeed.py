"""What is wrong in a configuration of DeepSpeed.

It belongs to a run whose script decides most of it: what is said here holds for any script.
Source: DeepSpeed's configuration reference and ``deepspeed.runtime.zero.config``; transformers
documentation, "DeepSpeed" (activation checkpointing).
"""

from __future__ import annotations

from collections.abc import Iterator

from memlint.rule import Finding, Level, Recipe, advise, fix, rename_key, set_key

_ZERO = "zero_optimization"
_RENAMED = {
    "stage3_gather_fp16_weights_on_model_save": "stage3_gather_16bit_weights_on_model_save",
}
_OFFLOADING = {
    "cpu_offload": '`"offload_optimizer": {"device": "cpu"}`',
    "cpu_offload_params": '`"offload_param": {"device": "cpu"}`',
}


def deprecated_options(recipe: Recipe) -> Iterator[Finding]:
    for old, new in _RENAMED.items():
        option = recipe.option(f"{_ZERO}.{old}")
        if option.given and not recipe.has(f"{_ZERO}.{new}"):
            yield Finding(
                option.span,
                f"DeepSpeed deprecates `{old}`",
                fix(f"Write `{new}` instead of `{old}`", rename_key(recipe, option.path, new)),
                Level.NOTICE,
            )
    for old, words in _OFFLOADING.items():
        option = recipe.option(f"{_ZERO}.{old}")
        if option.is_value(True):
            yield Finding(
                option.span,
                f"DeepSpeed deprecates `{old}`",
                advise(f"Write {words} instead"),
                Level.NOTICE,
            )


def full_precision(recipe: Recipe) -> Iterator[Finding]:
    option = recipe.option("bf16.enabled")
    if option.is_value(False) and recipe.option("fp16.enabled").is_value(False):
        yield Finding(
            option.span,
            "trains in float32, with neither bf16 nor fp16: every activation takes 4 bytes where "
            "2 would do",
            fix(
                'Set `"bf16": {"enabled": true}`',
                set_key(recipe, "bf16.enabled", "True"),
                unsafe=True,
            ),
        )


def ignored_checkpointing(recipe: Recipe) -> Iterator[Finding]:
    option = recipe.option("activation_checkpointing")
    section = option.value
    if isinstance(section, dict) and any(value is True for value in section.values()):
        yield Finding(
            option.span,
            "models of transformers do not read DeepSpeed's `activation_checkpointing`",
            advise("Turn checkpointing on where the model is trained: `gradient_checkpointing`"),
            Level.HINT,
        )


CHECKS = {
    "MEM402": full_precision,
    "MEM902": deprecated_options,
    "MEM904": ignored_checkpointing,
}
