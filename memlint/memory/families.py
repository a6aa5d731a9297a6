"""Reads a ``config.json`` into an ``Architecture``.

Most decoders share one vocabulary of keys; families differ in a few facts (which biases, which
norm, fused projections), which stand in ``traits``. A model type that is not listed is read by
the shared keys and named in ``unknown``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from memlint.memory.architecture import Architecture, Linear, Mlp, Tower
from memlint.memory.config_values import Config, ConfigError, number
from memlint.memory.decoders import baichuan, decoder, falcon
from memlint.memory.encoders import bart, bert, encoder_layer, t5, vit
from memlint.memory.renamed import shared_names
from memlint.memory.traits import TRAITS

_STATE_SPACE = frozenset(("mamba", "mamba2", "falcon_mamba", "rwkv", "rwkv5", "xlstm", "bamba"))


def read_config(config: Config) -> Architecture:
    """The architecture that a ``config.json`` describes.

    Raises:
        ConfigError: a size without which nothing can be computed is missing.
    """
    config, kind = shared_names(config, str(config.get("model_type") or _guess(config)))
    _refuse_states(config, kind)
    if kind in _TEXT_INSIDE or (
        "text_config" in config and isinstance(config["text_config"], dict)
    ):
        return _multimodal(config, kind)
    reader = _READERS.get(kind, decoder)
    architecture = reader(config, kind)
    labels = config.get("id2label")
    classes = config.get("architectures") or [""]
    changes: dict[str, Any] = {}
    if str(classes[0]).endswith(
        ("ForSequenceClassification", "ForImageClassification", "ForTokenClassification")
    ):
        changes["head"] = "classes"
        changes["labels"] = (
            len(labels) if isinstance(labels, dict) else number(config, "num_labels", default=2)
        )
    quantization = config.get("quantization_config")
    if isinstance(quantization, Mapping):
        changes["quantization"] = str(quantization.get("quant_method", "bitsandbytes"))
    dtype = config.get("dtype") or config.get("torch_dtype")
    if dtype:
        changes["dtype"] = str(dtype)
    if kind not in _READERS and kind not in TRAITS:
        changes["unknown"] = (kind,)
    return architecture._replace(**changes) if changes else architecture


def _refuse_states(config: Config, kind: str) -> None:
    """State-space layers keep what their kernels choose: no number is better than a wrong one."""
    types = config.get("layer_types") or config.get("layers_block_type") or ()
    named = "mamba" in types if isinstance(types, (list, tuple)) else False
    if named or kind in _STATE_SPACE or {"time_step_rank", "mamba_d_state"} & set(config):
        raise ConfigError(f"state-space layers ({kind}) are not modelled, only attention")


def _guess(config: Config) -> str:
    names = " ".join(config.get("architectures") or ())
    for name in ("QWenLMHead", "ChatGLM", "Baichuan", "Falcon", "Bert", "ViT", "GPT2", "Mistral"):
        if name in names:
            return {"QWenLMHead": "qwen"}.get(name, name.lower())
    return "llama"


_TEXT_INSIDE = (
    "llava",
    "llava_next",
    "paligemma",
    "idefics2",
    "idefics3",
    "mllama",
    "qwen2_vl",
    "qwen2_5_vl",
    "qwen3_vl",
    "gemma3",
    "mistral3",
    "internvl",
    "smolvlm",
    "llama4",
    "qwen3_5",
    "qwen3_5_moe",
    "llava_onevision",
    "aya_vision",
    "gemma3n",
    "gemma4",
)


def _multimodal(config: Config, kind: str) -> Architecture:
    """A language model inside a model that also sees: the text part and a vision tower."""
    text = dict(config.get("text_config") or {})
    inherited = (
        "hidden_size",
        "num_hidden_layers",
        "vocab_size",
        "num_attention_heads",
        "num_key_value_heads",
        "intermediate_size",
        "tie_word_embeddings",
    )
    for name in inherited:
        if name not in text and name in config:
            text[name] = config[name]
    text.setdefault(
        "model_type",
        {
            "qwen2_vl": "qwen2",
            "qwen2_5_vl": "qwen2",
            "qwen3_vl": "qwen3",
            "gemma3": "gemma3_text",
        }.get(kind, "llama"),
    )
    inner_kind = str(text["model_type"])
    renamed = {
        "qwen2_vl_text": "qwen2",
        "qwen2_5_vl_text": "qwen2",
        "qwen3_vl_text": "qwen3",
        "qwen3_vl_moe_text": "qwen3_moe",
    }
    text["model_type"] = renamed.get(inner_kind, inner_kind)
    architecture = read_config(text)
    vision = config.get("vision_config")
    if isinstance(vision, Mapping):
        tower = _vision_tower(vision, architecture.hidden, kind)
        if tower is not None:
            architecture = architecture._replace(towers=(tower,))
        else:
            architecture = architecture._replace(unknown=("vision_config",))
    dtype = config.get("dtype") or config.get("torch_dtype")
    return architecture._replace(family=kind, dtype=str(dtype or architecture.dtype))


def _vision_tower(vision: Config, hidden: int, kind: str) -> Tower | None:
    width = vision.get("embed_dim" if kind == "qwen2_vl" else "hidden_size")
    depth = vision.get("num_hidden_layers") or vision.get("depth")
    if not isinstance(width, int) or not isinstance(depth, int):
        return None
    heads = number(vision, "num_attention_heads", "num_heads", default=16)
    inner = vision.get("intermediate_size")
    if not isinstance(inner, int):
        inner = int(width * float(vision.get("mlp_ratio", 4)))
    image = number(vision, "image_size", default=0)
    patch = number(vision, "patch_size", default=14)
    names = ("q_proj", "k_proj", "v_proj", "out_proj", "fc1", "fc2")
    gated = kind in ("qwen2_5_vl",)
    layer = encoder_layer(
        width, heads, inner, str(vision.get("hidden_act", "gelu")), names, dropout=0.0
    )
    if gated:
        layer = layer._replace(
            mlp=Mlp(
                gated=True,
                inner=inner,
                activation="silu",
                projections=(
                    Linear("gate_proj", width, inner, True),
                    Linear("up_proj", width, inner, True),
                    Linear("down_proj", inner, width, True),
                ),
            )
        )
    channels = number(vision, "num_channels", "in_channels", "in_chans", default=3)
    temporal = number(vision, "temporal_patch_size", default=1)
    other = patch * patch * channels * temporal * width + width
    if image:
        other += ((image // patch) ** 2) * width + 2 * width
    merge = number(vision, "spatial_merge_size", default=1) ** 2
    if merge > 1:
        other += (merge * width) ** 2 + merge * width * hidden + merge * width + hidden
    elif kind in ("paligemma", "gemma3"):
        other += width * hidden
    else:
        other += width * hidden + hidden * hidden + 2 * hidden
    tokens = (image // patch) ** 2 if image else 0
    return Tower("vision tower", width, ((layer, depth),), other_parameters=other, tokens=tokens)


Reader = Callable[[Config, str], Architecture]

_READERS: dict[str, Reader] = {
    "baichuan": baichuan,
    "falcon": falcon,
    "RefinedWeb": falcon,
    "RefinedWebModel": falcon,
    "bert": bert,
    "roberta": bert,
    "xlm-roberta": bert,
    "camembert": bert,
    "electra": bert,
    "distilbert": bert,
    "mpnet": bert,
    "deberta-v2": bert,
    "vit": vit,
    "deit": vit,
    "t5": t5,
    "mt5": t5,
    "bart": bart,
    "mbart": bart,
    "pegasus": bart,
    "marian": bart,
    "m2m_100": bart,
    "whisper": bart,
}
