"""What rewritten training scripts call. Every public name is imported when it is first used."""

from __future__ import annotations

import importlib
from typing import Any

# Module of this package -> the public names that it defines.
_NAMES: dict[str, str] = {
    "lengths": "LengthProfile",
    "packing": "plan_packing pack_dataset StreamingPacker",
    "collation": "PaddingFreeCollator PreferenceCollator",
    "sampling": "TokenBudgetSampler",
    "truncation": "truncate",
    "prompt_limits": "limit_prompts",
    "integrations": "undo",
    "padding_free_trainers": "train_without_padding",
    "attention": "use_variable_length_attention",
    "losses": "fuse LinearCrossEntropyLoss cross_entropy token_logprobs token_statistics "
    "sequence_logprobs defer_logits dpo_loss kto_loss orpo_loss cpo_loss simpo_loss policy_loss "
    "distillation_loss bradley_terry_loss",
    "offload": "offload_activations",
    "checkpoint": "checkpoint_activations",
    "tiling": "tile_mlp",
    "optim": "OptimizerInBackward",
    "measure": "measure_memory MeasureMemoryCallback",
    "fake_memory": "track_memory",
    "trainer_adapters": "batch_trainer_by_tokens offload_trainer_activations "
    "step_trainer_in_backward",
    "shared_prompt": "shared_prompt_logprobs Sharing",
    "streaming": "stream_frozen_weights load_streamed plan_streaming",
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names.split()}

__all__ = sorted(_HOMES)


class MissingExtraError(ImportError):
    """A package of the ``runtime`` extra is not installed."""


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        # What rewritten scripts alone need stands in `compat`, and is found here as well.
        from memlint_runtime.compat import HOMES

        home = HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return load(home, name)


def load(home: str, name: str) -> Any:
    """A name of a module of this package. Raises MissingExtraError where that lacks a package."""
    try:
        return getattr(importlib.import_module(f"{__name__}.{home}"), name)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] == __name__:
            raise
        raise MissingExtraError(
            f"memlint_runtime.{name} needs {error.name}, which is not installed: "
            f"pip install 'torch-memlint[runtime]'",
            name=error.name,
        ) from None


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
