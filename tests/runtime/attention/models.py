"""Tiny decoders of many families, float32, random weights, and batches of ragged documents."""

from __future__ import annotations

import functools
import inspect
from typing import Any

import torch
from torch import Tensor
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.models.lfm2.modeling_lfm2 import Lfm2ShortConv

VOCAB = 97

_COMMON: dict[str, Any] = {
    "vocab_size": VOCAB,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 256,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
_GQA = {**_COMMON, "num_key_value_heads": 2}
_DELTA = {
    "head_dim": 8,
    "linear_num_value_heads": 4,
    "linear_num_key_heads": 2,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 8,
    "layer_types": ["linear_attention", "full_attention"],
}

FAMILIES: dict[str, dict[str, Any]] = {
    "llama": _GQA,
    "qwen2": _GQA,
    "qwen3": {**_GQA, "head_dim": 8},
    # A window shorter than the documents, so that it cuts inside them.
    "mistral": {**_GQA, "sliding_window": 6},
    "gemma2": {**_GQA, "head_dim": 8, "sliding_window": 6, "query_pre_attn_scalar": 8},
    "gemma3_text": {
        **_GQA,
        "head_dim": 8,
        "sliding_window": 6,
        "query_pre_attn_scalar": 8,
        "layer_types": ["sliding_attention", "full_attention"],
    },
    "phi3": _GQA,
    "gpt_neox": _COMMON,
    "qwen3_moe": {
        **_GQA,
        "head_dim": 8,
        "num_experts": 4,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 16,
        "decoder_sparse_step": 1,
    },
    "gpt_oss": {
        **_GQA,
        "head_dim": 8,
        "sliding_window": 6,
        "num_local_experts": 4,
        "num_experts_per_tok": 2,
        "layer_types": ["sliding_attention", "full_attention"],
    },
}

# Layers that carry a state along the row: delta rules, a state-space scan, a convolution, and both
# kinds in one layer.
HYBRIDS: dict[str, dict[str, Any]] = {
    "qwen3_next": {
        **_GQA,
        **_DELTA,
        "num_experts": 4,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 16,
        "shared_expert_intermediate_size": 16,
    },
    "qwen3_5_text": {**_GQA, **_DELTA},
    "olmo_hybrid": {**_GQA, **_DELTA, "linear_num_key_heads": 4},
    "bamba": {
        **_GQA,
        "mamba_n_heads": 4,
        "mamba_d_head": 16,
        "mamba_d_state": 8,
        "mamba_chunk_size": 4,
        "attn_layer_indices": [1],
    },
    "falcon_h1": {
        **_GQA,
        "head_dim": 8,
        "mamba_d_ssm": 64,
        "mamba_n_heads": 4,
        "mamba_d_head": 16,
        "mamba_d_state": 8,
        "mamba_chunk_size": 4,
    },
    "kimi_linear": {
        **_GQA,
        "num_key_value_heads": 4,
        "layer_types": ["linear_attention", "full_attention"],
        "linear_head_dim": 8,
        "linear_num_heads": 4,
        "kv_lora_rank": 8,
        "qk_rope_head_dim": 8,
        "qk_nope_head_dim": 8,
        "v_head_dim": 8,
        "moe_intermediate_size": 16,
        "num_local_experts": 4,
        "num_experts_per_tok": 2,
    },
    "lfm2": {**_GQA, "layer_types": ["conv", "full_attention"]},
}
if "seq_idx" in inspect.signature(Lfm2ShortConv.forward).parameters:
    del HYBRIDS["lfm2"]  # transformers 5.17: its layers hand it no other keyword, so it is refused
FAMILIES |= HYBRIDS

# Families whose sdpa path does not exist in transformers: soft caps, sinks.
EAGER_ONLY = frozenset({"gemma2", "gpt_oss"})


def tiny_model(family: str, **overrides: Any) -> Any:
    torch.manual_seed(0)
    config = AutoConfig.for_model(family, **{**FAMILIES[family], **overrides})
    reference = "eager" if family in EAGER_ONLY else "sdpa"
    model = AutoModelForCausalLM.from_config(config, attn_implementation=reference)
    for name, parameter in model.named_parameters():
        # Zero at birth: gradients and logits would not notice them.
        if "sinks" in name or "norm" in name:
            torch.nn.init.normal_(parameter, std=0.5)
    return model.float()


def documents(*lengths: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(1)
    return [torch.randint(3, VOCAB, (n,), generator=generator) for n in lengths]


def padded(docs: list[Tensor]) -> dict[str, Tensor]:
    """Right-padded `[N, S]` batch, labels -100 on the padding."""
    pad = functools.partial(torch.nn.utils.rnn.pad_sequence, batch_first=True)
    return {
        "input_ids": pad(docs, padding_value=0),
        "attention_mask": pad([torch.ones_like(d) for d in docs]),
        "labels": pad(docs, padding_value=-100),
    }


def flattened(docs: list[Tensor]) -> dict[str, Tensor]:
    """One row, position ids that restart, labels -100 at each first token."""
    labels = [d.clone() for d in docs]
    for label in labels:
        label[0] = -100
    return {
        "input_ids": torch.cat(docs)[None],
        "position_ids": torch.cat([torch.arange(len(d)) for d in docs])[None],
        "labels": torch.cat(labels)[None],
    }


def checkpoint(model: Any) -> None:
    """Turn activation checkpointing on, whatever this transformers version calls it."""
    name = "activation_checkpointing_enable"
    if not hasattr(model, name):
        name = "gradient_checkpointing_enable"
    getattr(model, name)({"use_reentrant": False})
