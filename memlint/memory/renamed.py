"""Configurations that say by other names what families share: translated before they are read.

Sources: ``configuration_*.py`` of the models' repositories (ChatGLM-6B, phi-1.5's first code,
OLMo's own, DBRX) and of transformers (CodeGen, GPT-Neo, ModernBERT, DINOv2).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Config = Mapping[str, Any]

_SAME = {
    "phi-msft": "phi",
    "mixformer-sequential": "phi",
    "xverse": "llama",
    "aquila": "llama",
    "aquila3": "llama",
    "skywork": "llama",
    "orion": "llama",
    "telechat": "llama",
    "deberta": "deberta-v2",
    "dinov2": "vit",
    "beit": "vit",
}


def shared_names(config: Config, kind: str) -> tuple[Config, str]:
    """The configuration and its family by the names that the readers know."""
    kind = _SAME.get(kind, kind)
    translate = _TRANSLATIONS.get(kind)
    return (translate(config) if translate else config), kind


def _chatglm(config: Config) -> Config:
    """ChatGLM-6B, the first: plain feed-forward, layer norms, tied output matrix."""
    if "inner_hidden_size" not in config:
        return config
    return {
        **config,
        "intermediate_size": config["inner_hidden_size"],
        "plain_feed_forward": True,
        "attention_out_bias": True,
        "mlp_bias": True,
        "normalization_type": "layernorm",
        "tie_word_embeddings": True,
    }


def _phi(config: Config) -> Config:
    if "rotary_dim" not in config or "n_embd" not in config or not config.get("n_head"):
        return config
    head = int(config["n_embd"]) / int(config["n_head"])
    return {**config, "partial_rotary_factor": int(config["rotary_dim"] or head) / head}


def _olmo(config: Config) -> Config:
    inner = config.get("mlp_hidden_size") or int(config.get("mlp_ratio", 4)) * config["d_model"]
    return {
        **config,
        "intermediate_size": int(inner) // 2,
        "vocab_size": config.get("embedding_size") or config.get("vocab_size"),
        "tie_word_embeddings": bool(config.get("weight_tying", True)),
    }


def _dbrx(config: Config) -> Config:
    experts, attention = config.get("ffn_config") or {}, config.get("attn_config") or {}
    return {
        **config,
        "intermediate_size": experts.get("ffn_hidden_size"),
        "num_local_experts": experts.get("moe_num_experts"),
        "num_experts_per_tok": experts.get("moe_top_k"),
        "num_key_value_heads": attention.get("kv_n_heads"),
    }


def _vit(config: Config) -> Config:
    if "intermediate_size" in config or not isinstance(config.get("mlp_ratio"), (int, float)):
        return config
    inner = int(config["mlp_ratio"] * int(config.get("hidden_size") or 768))
    return {**config, "intermediate_size": inner}


_TRANSLATIONS: dict[str, Callable[[Config], Config]] = {
    "chatglm": _chatglm,
    "phi": _phi,
    "hf_olmo": _olmo,
    "dbrx": _dbrx,
    "vit": _vit,
}
