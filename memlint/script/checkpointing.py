"""Activation checkpointing that a call turns on, beside what a configuration says.

Source: ``prepare_model_for_kbit_training`` of ``peft/utils/other.py``: it turns checkpointing on
for quantized weights alone, and only where ``use_gradient_checkpointing`` is left on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from memlint.script.calls import Call, Trainer
    from memlint.script.model import Script
    from memlint.script.values import Value

_ENABLERS = (
    "gradient_checkpointing_enable",
    "activation_checkpointing_enable",
    "enable_gradient_checkpointing",
    "checkpoint_activations",
    "apply_activation_checkpointing",
)
KBIT_PREPARATION = "peft.prepare_model_for_kbit_training"


def is_checkpointed_by_call(script: Script, trainer: Trainer) -> bool | None:
    """Whether a call of the script turns checkpointing on, or may; None for a model from elsewhere,
    of which nobody can tell."""
    if script.method_calls(*_ENABLERS):
        return True
    if trainer.model.kbit is False:
        return False
    prepared = script.calls_to(KBIT_PREPARATION)
    if trainer.model.kbit is None and not prepared:
        return None
    return not prepared or any(turns_on(script, call) is not False for call in prepared)


def turns_on(script: Script, preparation: Call) -> bool | None:
    """Whether a k-bit preparation turns checkpointing on; None where nobody can tell."""
    wanted = preparation.effective("use_gradient_checkpointing")
    if wanted.value is False:
        return False
    quantized = script.model_facts(_prepared(preparation)).quantized
    if quantized is False:
        return False
    return True if quantized and wanted.value is True else None


def _prepared(preparation: Call) -> Value:
    setting = preparation.setting("model")
    return setting.raw if setting.given else preparation.argument(0)
