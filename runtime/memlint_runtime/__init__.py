"""What rewritten training scripts call. Every public name is imported when it is first used."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
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
    "sequence_logprobs defer_logits head_logits dpo_loss kto_loss orpo_loss cpo_loss simpo_loss "
    "policy_loss distillation_loss bradley_terry_loss",
    "offload": "offload_activations",
    "checkpoint": "checkpoint_activations",
    "tiling": "tile_mlp",
    "optim": "OptimizerInBackward OffloadedOptimizer",
    "measure": "measure_memory MeasureMemoryCallback",
    "fake_memory": "track_memory",
    "trainer_adapters": "batch_trainer_by_tokens offload_trainer_activations "
    "step_trainer_in_backward",
    "shared_prompt": "shared_prompt_logprobs shared_prefix_logprobs Sharing",
    "streaming": "stream_frozen_weights load_streamed plan_streaming",
}
# The same of what rewritten scripts alone need: `memlint_runtime.compat`, and found here as ever.
FORMER: dict[str, str] = {
    "arguments": "extend_arguments",
    "chat_format": "setup_chat_format",
    "collation": "sum_by_document",
    "completions": "DataCollatorForCompletionOnlyLM",
    "integrations": "Patch",
    "losses": "fuse_causal_lm_loss fuse_trl_losses",
    "offload": "keep_on_device",
    "truncation": "truncate_prompt_and_completion truncate_text",
}
_TABLES = (*_NAMES.items(), *FORMER.items())
_HOMES = {name: home for home, names in _TABLES for name in names.split()}

__all__ = sorted(" ".join(_NAMES.values()).split())


class MissingExtraError(ImportError):
    """A package of the ``runtime`` extra is not installed."""


def names_of(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """A package's `__getattr__`: names of its modules, imported when they are first used."""

    def find(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        try:
            return getattr(importlib.import_module(f"{package}.{homes[name]}"), name)
        except ModuleNotFoundError as error:
            if error.name is None or error.name.split(".")[0] == __name__:
                raise
            raise MissingExtraError(
                f"{package}.{name} needs {error.name}, which is not installed: "
                f"pip install 'torch-memlint[runtime]'",
                name=error.name,
            ) from None

    return find


__getattr__ = names_of(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
