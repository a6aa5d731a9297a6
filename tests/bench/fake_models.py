"""Models for measuring by fakes: made in bf16, because fakes cannot be converted afterwards."""

from __future__ import annotations

import torch
from transformers import LlamaConfig, LlamaForCausalLM


def bf16_llama(config: LlamaConfig) -> LlamaForCausalLM:
    """A Llama in training mode whose weights are bf16; call it under FakeTensorMode."""
    previous = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    try:
        return LlamaForCausalLM(config).train()
    finally:
        torch.set_default_dtype(previous)
