"""Which models can keep documents apart, and why the others cannot.

What: a reason to refuse a transformers model, read from its class and configuration.
Why: a layer that carries a state along the row (Mamba, linear attention, convolutions) mixes the
documents of a row whatever the attention does, and no error would ever show it.
"""

from __future__ import annotations

from typing import Any

# Layer types of transformers' configurations that see earlier tokens through attention alone,
# causally, up to a window that goes by position.
_SERVED_LAYERS = frozenset({"full_attention", "sliding_attention"})


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
    if getattr(model, "_is_stateful", False):
        return "its state-space or linear layers carry a state from one document into the next"
    kinds = set(getattr(config, "layer_types", None) or ())
    kinds |= set(getattr(config, "layers_block_type", None) or ())
    if other := sorted(kinds - _SERVED_LAYERS - {"attention"}):
        return f"its {', '.join(other)} layers are not causal attention over a window"
    if not getattr(config, "is_causal", True) or getattr(
        config, "use_bidirectional_attention", False
    ):
        return "its tokens attend both ways"
    if any(getattr(module, "is_causal", None) is False for module in text_part(model).modules()):
        return "its tokens attend both ways"
    if not model._can_set_attn_implementation():
        return "its attention is not behind transformers' attention interface"
    return None
