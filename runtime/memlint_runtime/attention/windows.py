"""Windows that live in a model's mask alone.

transformers gives a layer's sliding window twice: in the mask, and to the attention function. Some
models (Qwen2-MoE, PhiMoE) give it in the mask only, so that attention which makes no mask would see
further back than the model was trained to, without a word. Up to the window nothing differs.
"""

from __future__ import annotations

import inspect
from typing import Any

__all__ = ["attends", "require_within_window", "window_in_mask_alone"]


def window_in_mask_alone(model: Any) -> int | None:
    """Tokens of a `PreTrainedModel`'s sliding window that no attention call is told of, or None."""
    config = model.config.get_text_config()
    window = getattr(config, "sliding_window", None)
    if not isinstance(window, int) or getattr(config, "use_sliding_window", True) is False:
        return None
    kinds = getattr(config, "layer_types", None)
    if kinds is not None and "sliding_attention" not in kinds:
        return None
    calls = {inspect.unwrap(type(module).forward) for module in model.modules() if attends(module)}
    return None if any(_passes(call, "sliding_window") for call in calls) else window


def require_within_window(model: Any, window: int | None, tokens: int) -> None:
    """Raise ValueError where a sequence of so many tokens outgrows a window in the mask alone."""
    if window is not None and tokens > window:
        raise ValueError(
            f"{type(model).__name__} gives its sliding window of {window} tokens in its mask "
            f"alone, which is not made here, and a sequence has {tokens}: cut sequences to "
            f"{window} tokens, or train it on padded batches with TRL's or transformers' own "
            "classes"
        )


def attends(module: Any) -> bool:
    """True if this is a layer's attention, behind transformers' interface."""
    if not isinstance(getattr(module, "layer_idx", None), int):
        return False
    code = getattr(inspect.unwrap(type(module).forward), "__code__", None)
    return code is not None and "ALL_ATTENTION_FUNCTIONS" in code.co_names


def _passes(function: Any, keyword: str) -> bool:
    """True if a call in the function's body has this keyword."""
    constants = function.__code__.co_consts
    return any(isinstance(const, tuple) and keyword in const for const in constants)
