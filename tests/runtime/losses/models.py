"""Tiny causal LMs of several families, built from configs."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import transformers
from transformers import PreTrainedModel

VOCABULARY = 97
SIZES: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 16,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 4,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("Llama", {}),
    "qwen2_tied": ("Qwen2", {"tie_word_embeddings": True}),
    "gemma2_softcap": ("Gemma2", {"final_logit_softcapping": 2.0, "query_pre_attn_scalar": 4}),
    "cohere_scaled": ("Cohere", {"logit_scale": 0.3}),
    "granite_scaled": ("Granite", {"logits_scaling": 3.0}),
    "phi_bias": ("Phi", {}),
    "gpt2": (
        "GPT2",
        {
            "n_embd": 16,
            "n_layer": 2,
            "n_head": 4,
            "n_positions": 64,
            "resid_pdrop": 0.0,
            "embd_pdrop": 0.0,
            "attn_pdrop": 0.0,
        },
    ),
    "mixtral_auxiliary": (
        "Mixtral",
        {"num_local_experts": 4, "output_router_logits": True, "router_aux_loss_coef": 0.1},
    ),
}


def tiny_model(family: str = "llama", *, seed: int = 0, **options: Any) -> PreTrainedModel:
    """A model in training mode, its weights drawn large enough for logits to matter."""
    name, changes = FAMILIES[family]
    config = getattr(transformers, f"{name}Config")(**SIZES | changes | options)
    torch.manual_seed(seed)
    model: PreTrainedModel = transformers.AutoModelForCausalLM.from_config(config)
    for parameter in model.parameters():
        if parameter.dim() == 2:
            torch.torch.nn.init.normal_(parameter, std=0.3)
    return model.train()


def tiny_batch(rows: int = 3, length: int = 11, *, seed: int = 0) -> dict[str, torch.Tensor]:
    """Right-padded rows, their prompts out of the loss."""
    random = torch.Generator().manual_seed(seed)
    ids = torch.randint(3, VOCABULARY, (rows, length), generator=random)
    mask = torch.ones_like(ids)
    mask[0, length - 3 :] = 0
    labels = ids.masked_fill(mask == 0, -100)
    labels[:, :3] = -100
    return {"input_ids": ids, "attention_mask": mask, "labels": labels}


def lora(model: PreTrainedModel, **options: Any) -> Any:
    peft = pytest.importorskip("peft")
    torch.manual_seed(1)
    config = peft.LoraConfig(r=3, lora_alpha=7, task_type="CAUSAL_LM", **options)
    wrapped = peft.get_peft_model(model, config)
    for name, parameter in wrapped.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter, std=0.3)
    return wrapped.train()
