"""Any causal-LM or image-text-to-text type of transformers, tiny, from its default configuration.

Its weights are large enough for mistakes to show, and nothing is drawn at random in training.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForImageTextToText
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

VOCABULARY = 128

# Sizes by the names that configurations have for them.
_SIZES: dict[str, int] = dict.fromkeys(
    ("hidden_size", "d_model", "n_embd", "dim", "hidden_dim", "embed_dim", "word_embed_proj_dim",
     "embedding_size", "out_hidden_size", "cross_attention_hidden_size", "lm_head_hidden_size"), 32,
) | dict.fromkeys(
    ("intermediate_size", "ffn_dim", "d_ff", "n_inner", "ffn_hidden_size", "decoder_ffn_dim",
     "encoder_ffn_dim", "dense_intermediate_size", "intermediate_size_mlp", "mlp_hidden_size"), 48,
) | dict.fromkeys(
    ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "decoder_layers", "encoder_layers",
     "depth", "num_decoder_layers"), 2,
) | dict.fromkeys(
    ("num_attention_heads", "n_head", "n_heads", "num_heads", "decoder_attention_heads",
     "encoder_attention_heads", "num_experts", "num_local_experts", "n_routed_experts",
     "mamba_n_heads", "mamba_num_heads", "linear_num_value_heads", "num_ln_in_parallel_attn",
     "moe_num_experts"), 4,
) | dict.fromkeys(
    ("num_key_value_heads", "n_kv_heads", "num_kv_heads", "num_experts_per_tok",
     "num_selected_experts", "moe_topk", "top_k_experts", "linear_num_key_heads", "moe_top_k",
     "moe_k"), 2,
) | dict.fromkeys(
    ("head_dim", "qk_rope_head_dim", "qk_nope_head_dim", "v_head_dim", "q_lora_rank",
     "kv_lora_rank", "linear_key_head_dim", "linear_value_head_dim", "state_size", "mamba_d_state",
     "global_head_dim", "swa_head_dim", "rope_head_dim", "attention_head_dim"), 8,
) | dict.fromkeys(
    ("moe_intermediate_size", "shared_expert_intermediate_size", "mamba_d_head", "mamba_head_dim",
     "hidden_size_per_layer_input", "moe_shared_expert_intermediate_size", "qk_head_dim",
     "expert_ffn_hidden_size"), 16,
) | dict.fromkeys(
    ("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len", "max_sequence_length",
     "max_target_positions", "max_source_positions"), 128,
) | dict.fromkeys(("n_group", "topk_group", "first_k_dense_replace", "decoder_sparse_step"), 1) | {
    "vocab_size": VOCABULARY, "vocab_size_per_layer_input": VOCABULARY, "pad_token_id": 0,
    "bos_token_id": 1, "eos_token_id": 2, "image_size": 16, "patch_size": 4, "sliding_window": 6,
    "type_vocab_size": 2, "num_nextn_predict_layers": 0, "mm_tokens_per_image": 4,
    "num_kv_shared_layers": 0, "time_step_rank": 4, "n_groups": 1,
    "mamba_n_groups": 1, "mamba_ngroups": 1, "linear_num_heads": 4, "linear_head_dim": 8,
}  # fmt: skip

_ANYTHING_BUT_TEXT = ("image", "video", "audio", "vision")


def shrunk(settings: dict[str, Any], *, sections: bool = False) -> dict[str, Any]:
    """The settings of a configuration, and of those within it, at tiny sizes, nothing at random.

    sections: rotary positions are by section, whose sizes are a default that no setting shows.
    """
    made: dict[str, Any] = {}
    own_heads = settings.get("num_key_value_heads") == settings.get("num_attention_heads")
    for name, value in settings.items():
        if isinstance(value, dict) and name != "per_layer_config":
            value = shrunk(value, sections=sections)
            if sections and name in ("rope_parameters", "rope_scaling"):
                value["mrope_section"] = [2, 1, 1]
        elif isinstance(value, float) and ("drop" in name or "jitter" in name):
            value = 0.0
        elif name == "num_key_value_heads" and own_heads:
            value = _SIZES["num_attention_heads"]
        elif name == "head_dim" and (value is None or "expand" in settings):
            value = 8 if value is None else 16
        elif name == "full_attn_idxs":
            value = [1]
        elif name == "mamba_d_ssm":
            value = _SIZES["mamba_n_heads"] * _SIZES["mamba_d_head"]
        elif name == "attention_types":
            value = [[["global", "local"], 1]]
        elif name == "per_layer_config":
            value = {}
        elif type(value) is int and name in _SIZES:
            value = _SIZES[name]
        elif type(value) is int and name.endswith(("_token_id", "_token_index")):
            value = VOCABULARY - 1 - sum(name.startswith(kind) for kind in _ANYTHING_BUT_TEXT)
        elif name in ("layer_types", "layers_block_type", "mlp_layer_types") and value:
            value = [*dict.fromkeys(value)][:2]
            value = value * 2 if len(value) == 1 else value
        elif name == "mrope_section":
            value = [2, 1, 1]
        made[name] = value
    return made


def tiny(model_type: str) -> Any:
    """The model of a type, in training mode, its weights large enough for mistakes to show."""
    default = AutoConfig.for_model(model_type)
    sections = any(part in model_type for part in ("vl", "4v", "46v", "omni", "ocr", "glmga"))
    # The thinkers of omni models read it, and only published configurations have it.
    published = {"vision_start_token_id": 0} if "omni" in model_type else {}
    config = type(default).from_dict(shrunk(published | default.to_dict(), sections=sections))
    auto = (
        AutoModelForCausalLM
        if model_type in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
        else AutoModelForImageTextToText
    )
    with torch.device("meta"):
        size = sum(p.numel() for p in auto.from_config(config).parameters())
    if size > 30_000_000:
        raise RuntimeError(f"{size} parameters when shrunk")
    torch.manual_seed(0)
    model = auto.from_config(config, dtype=torch.float32)
    for parameter in model.parameters():
        if parameter.dim() > 1:
            nn.init.normal_(parameter, 0.0, 0.2)
    return model.train()


def in_float64(model: Any) -> Any:
    """A copy in float64, its experts one by one, since grouped products have no such type."""
    model = copy.deepcopy(model).double()
    for module in model.modules():
        config = getattr(module, "config", None)
        if hasattr(config, "_experts_implementation"):
            config._experts_implementation = "eager"
    return model


def ids_of(rows: int, tokens: int) -> Tensor:
    random = torch.Generator().manual_seed(1)
    return torch.randint(3, VOCABULARY - 12, (rows, tokens), generator=random)
