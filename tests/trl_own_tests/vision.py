"""Processors and configurations of the vision models that TRL's tests train, made without the hub.

By the checkpoint that a script of TRL names. Images are cut small, so that a model on a CPU sees a
few tokens of each; everything else is as the classes of transformers have it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

__all__ = ["LLAVA_TEMPLATE", "config_of", "knows", "named_tokens", "processor_of"]

LLAVA_TEMPLATE = (
    "{% for message in messages %}{{ message.role.upper() + ': ' }}"
    "{% if message.content is string %}{{ message.content }}{% else %}"
    "{% for part in message.content %}{{ '<image>\n' if part.type == 'image' else part.text }}"
    "{% endfor %}{% endif %}"
    "{{ eos_token if message.role == 'assistant' else ' ' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ 'ASSISTANT:' }}{% endif %}"
)
# Side of a square image in pixels, and of its patches.
_SIDE, _PATCH = 56, 14
_QWEN = {
    "image_token": "<|image_pad|>", "video_token": "<|video_pad|>",
    "vision_start_token": "<|vision_start|>", "vision_end_token": "<|vision_end|>",
}  # fmt: skip
_GEMMA4 = {
    "image_token": "<|image|>", "boi_token": "<|image>", "eoi_token": "<image|>",
    "audio_token": "<|audio|>", "boa_token": "<|audio>", "eoa_token": "<audio|>",
    "video_token": "<|video|>",
}  # fmt: skip
_GEMMA3 = {
    "image_token": "<image_soft_token>", "boi_token": "<start_of_image>",
    "eoi_token": "<end_of_image>",
}  # fmt: skip
_CLIP = {"image_size": _SIDE, "patch_size": _PATCH, "intermediate_size": 32, "projection_dim": 16}
_TILES = [[_SIDE, 2 * _SIDE], [2 * _SIDE, _SIDE]]


@dataclass(frozen=True, slots=True)
class _Vision:
    """prefix: of the classes of transformers. tokens: by name. images: what the image processor is
    made with. config, text, vision: what the configuration and its parts have beside what the
    script says.
    """

    prefix: str
    tokens: dict[str, str]
    image_processor: str
    images: dict[str, Any] = field(default_factory=dict)
    config: dict[str, Any] = field(default_factory=dict)
    text: dict[str, Any] = field(default_factory=dict)
    vision: dict[str, Any] = field(default_factory=dict)


def _llava(prefix: str, **more: Any) -> _Vision:
    size = {"size": {"shortest_edge": _SIDE}, "crop_size": {"height": _SIDE, "width": _SIDE}}
    grid = {"image_grid_pinpoints": _TILES} if more else {}
    return _Vision(
        prefix, {"image_token": "<image>"}, f"{prefix}ImageProcessor", size | grid, grid,
        {"intermediate_size": 32, **more}, _CLIP,
    )  # fmt: skip


def _qwen(prefix: str, patch: int) -> _Vision:
    size = {"shortest_edge": (4 * patch) ** 2, "longest_edge": (6 * patch) ** 2}
    images = {"patch_size": patch, "merge_size": 2, "size": size}
    return _Vision(prefix, _QWEN, "Qwen2VLImageProcessor", images)


_VISION = (
    (r"Qwen2-VL", _qwen("Qwen2VL", 14)),
    (r"Qwen2\.5-VL", _qwen("Qwen2_5_VL", 14)),
    (r"Qwen3-VL", _qwen("Qwen3VL", 16)),
    (r"Qwen3\.5", _qwen("Qwen3_5", 16)),
    (r"Qwen3\.6", _qwen("Qwen3_5Moe", 16)),
    (r"gemma-3-", _Vision("Gemma3", _GEMMA3, "Gemma3ImageProcessor",
                          vision={"patch_size": 14, "vision_use_head": False})),
    # Of as many layers as TRL's script gives it, since a configuration notes which are its own.
    (r"gemma-4-", _Vision("Gemma4", _GEMMA4, "Gemma4ImageProcessor",
                          text={"num_hidden_layers": 2, "global_head_dim": 8,
                                "layer_types": ["sliding_attention", "full_attention"]})),
    (r"llava-v1\.6", _llava("LlavaNext", model_type="mistral")),
    (r"llava-1\.5", _llava("Llava")),
)  # fmt: skip


def _row(checkpoint: str) -> _Vision | None:
    return next((row for name, row in _VISION if re.search(name, checkpoint)), None)


def knows(checkpoint: str) -> bool:
    return _row(checkpoint) is not None


def named_tokens(checkpoint: str) -> dict[str, str]:
    """The tokens that its processor asks its tokenizer for, by name."""
    row = _row(checkpoint)
    return {} if row is None else dict(row.tokens)


def processor_of(checkpoint: str, tokenizer: Any) -> Any:
    """Raises ValueError for a checkpoint that is not known here."""
    import transformers

    row = _row(checkpoint)
    if row is None:
        raise ValueError(f"no processor is made for {checkpoint}")
    images = getattr(transformers, row.image_processor)(**row.images)
    parts: dict[str, Any] = {"image_processor": images, "tokenizer": tokenizer}
    name = row.prefix
    if row.tokens is _QWEN:
        newer = row.prefix.startswith("Qwen3")
        video = "Qwen3VLVideoProcessor" if newer else "Qwen2VLVideoProcessor"
        parts["video_processor"] = getattr(transformers, video)()
        name = "Qwen3VL" if newer else row.prefix
    elif row.tokens is _GEMMA4:
        parts["video_processor"] = transformers.Gemma4VideoProcessor()
        parts["feature_extractor"] = transformers.Gemma4AudioFeatureExtractor()
    elif row.vision is _CLIP:
        # The class embedding is a token of the tower, which both models leave out.
        parts |= {"patch_size": _PATCH, "vision_feature_select_strategy": "default",
                  "num_additional_image_tokens": 1}  # fmt: skip
    made = getattr(transformers, f"{name}Processor")
    return made(**parts, chat_template=tokenizer.chat_template)


def config_of(checkpoint: str, tokenizer: Any, options: dict[str, Any]) -> Any:
    """Raises ValueError for a checkpoint that is not known here."""
    import transformers

    row = _row(checkpoint)
    if row is None:
        raise ValueError(f"no configuration is made for {checkpoint}")
    vocabulary = {
        "vocab_size": len(tokenizer), "bos_token_id": tokenizer.bos_token_id,
        "eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id,
    }  # fmt: skip
    if row.tokens is _GEMMA4:
        vocabulary["vocab_size_per_layer_input"] = len(tokenizer)
    made = getattr(transformers, f"{row.prefix}Config")
    ids = {}
    for name, token in row.tokens.items():
        # Some classes name their tokens' ids otherwise.
        for field_name in (f"{name}_id", f"{name}_index"):
            if hasattr(made, field_name) or field_name in getattr(made, "__annotations__", {}):
                ids[field_name] = tokenizer.convert_tokens_to_ids(token)
    return made(
        **row.config | ids | options | {
            "text_config": vocabulary | row.text | options.get("text_config", {}),
            "vision_config": row.vision | options.get("vision_config", {}),
        }
    )  # fmt: skip
