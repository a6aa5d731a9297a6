"""What rewritten training scripts call. Every public name is imported when it is first used."""

from __future__ import annotations

import importlib
from typing import Any

# Public name -> the module of this package that defines it.
_HOMES: dict[str, str] = {
    "LengthProfile": "lengths",
    "plan_packing": "packing",
    "pack_dataset": "packing",
    "StreamingPacker": "packing",
    "PaddingFreeCollator": "collation",
    "PreferenceCollator": "collation",
    "sum_by_document": "collation",
    "DataCollatorForCompletionOnlyLM": "completions",
    "setup_chat_format": "chat_format",
    "extend_arguments": "arguments",
    "TokenBudgetSampler": "sampling",
    "truncate": "truncation",
    "truncate_prompt_and_completion": "truncation",
    "truncate_text": "truncation",
    "limit_prompts": "prompt_limits",
    "Patch": "integrations",
    "undo": "integrations",
    "train_without_padding": "padding_free_trainers",
    "use_variable_length_attention": "attention",
    "token_logprobs": "losses",
    "fuse": "losses",
    "LinearCrossEntropyLoss": "losses",
    "fuse_causal_lm_loss": "losses",
    "fuse_trl_losses": "losses",
    "sequence_logprobs": "losses",
    "offload_activations": "offload",
    "checkpoint_activations": "checkpoint",
    "tile_mlp": "tiling",
    "OptimizerInBackward": "optim",
    "measure_memory": "measure",
    "MeasureMemoryCallback": "measure",
    "track_memory": "fake_memory",
    "keep_on_device": "offload",
    "batch_trainer_by_tokens": "trainer_adapters",
    "offload_trainer_activations": "trainer_adapters",
    "step_trainer_in_backward": "trainer_adapters",
    "shared_prompt_logprobs": "shared_prompt",
    "stream_frozen_weights": "streaming",
    "load_streamed": "streaming",
    "plan_streaming": "streaming",
}

__all__ = sorted(_HOMES)


class MissingExtraError(ImportError):
    """A package of the ``runtime`` extra is not installed."""


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
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
