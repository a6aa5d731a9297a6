"""Which models can keep documents apart, and why the others cannot.

What: a reason to refuse a transformers model, read from its class and configuration.
Why: a layer that carries a state along the row (Mamba, linear attention, convolutions) mixes the
documents of a row whatever the attention does, and no error would ever show it. Those that can be
run over rows of their own, document by document, are (`memlint_runtime.recurrent`).

transformers gives a layer's sliding window twice: in the mask, and to the attention function. Some
models (Qwen2-MoE, PhiMoE) give it in the mask only, so that attention which makes no mask would see
further back than the model was trained to, without a word. Up to the window nothing differs.
"""

from __future__ import annotations

import inspect
from typing import Any

from memlint_runtime.recurrent import find_state_layers

# Layer types of transformers' configurations that see earlier tokens through attention alone,
# causally, up to a window that goes by position; or see none.
_SERVED_LAYERS = frozenset({"full_attention", "sliding_attention", "attention", "mlp", "moe"})


def text_part(model: Any) -> Any:
    """The decoder of a `PreTrainedModel` that reads tokens, without towers for images or audio."""
    if model.config.get_text_config() is model.config or not hasattr(model, "get_decoder"):
        return model
    return model.get_decoder()


def reason_to_refuse(model: Any) -> str | None:
    """Why documents cannot be kept apart in a `PreTrainedModel`, or None where they can."""
    config = model.config.get_text_config()
    if any(getattr(part, "is_encoder_decoder", False) for part in (model.config, config)):
        return "it is an encoder-decoder model, whose encoder attends both ways"
    if reason := _reason_of_states(model, config):
        return reason
    if not getattr(config, "is_causal", True) or getattr(
        config, "use_bidirectional_attention", False
    ):
        return "its tokens attend both ways"
    if any(getattr(module, "is_causal", None) is False for module in text_part(model).modules()):
        return "its tokens attend both ways"
    if _attends(model) and not model._can_set_attn_implementation():
        return "its attention is not behind transformers' attention interface"
    return None


def _reason_of_states(model: Any, config: Any) -> str | None:
    """Why layers beside attention would mix documents, or None where they can be kept apart."""
    states = find_state_layers(text_part(model))
    if states.strange is not None:
        return f"it keeps a state along the row, and {states.strange}"
    if getattr(model, "_is_stateful", False) and not states.modules:
        return "its state-space or linear layers carry a state from one document into the next"
    kinds = getattr(config, "layer_types", None) or getattr(config, "layers_block_type", None) or ()
    other = {kind for i, kind in enumerate(kinds) if i not in states.places} - _SERVED_LAYERS
    if other:
        return f"its {', '.join(sorted(other))} layers are not causal attention over a window"
    return None


def _attends(model: Any) -> bool:
    """True if some layer has attention beside its state, or in place of one."""
    states = find_state_layers(text_part(model))
    layers = getattr(model.config.get_text_config(), "num_hidden_layers", None)
    return layers is None or not states.places >= set(range(layers))


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
