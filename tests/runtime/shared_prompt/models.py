"""Tiny models of the families that sharing is proved on, and the repeated batch's own answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from transformers import (
    AutoModelForCausalLM,
    Gemma2Config,
    Gemma3TextConfig,
    GptOssConfig,
    LlamaConfig,
    MistralConfig,
    MixtralConfig,
    Phi3Config,
    PreTrainedModel,
    Qwen2Config,
    Qwen3Config,
    Qwen3MoeConfig,
)

VOCABULARY = 64
_SIZES: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "attention_dropout": 0.0,
}

CONFIGS: dict[str, Callable[[], Any]] = {
    "llama": lambda: LlamaConfig(**_SIZES),
    "qwen2": lambda: Qwen2Config(**_SIZES),
    "qwen3": lambda: Qwen3Config(**_SIZES, head_dim=8),
    "mistral with window": lambda: MistralConfig(**_SIZES, sliding_window=9),
    "gemma2": lambda: Gemma2Config(
        **_SIZES, head_dim=8, sliding_window=7, attn_logit_softcapping=5.0,
        final_logit_softcapping=4.0, query_pre_attn_scalar=8,
    ),
    "gemma3": lambda: Gemma3TextConfig(
        **_SIZES, head_dim=8, sliding_window=7, query_pre_attn_scalar=8,
        layer_types=["sliding_attention", "full_attention", "sliding_attention"],
    ),
    "phi3": lambda: Phi3Config(**_SIZES, resid_pdrop=0.0, embd_pdrop=0.0),
    "mixtral": lambda: MixtralConfig(
        **_SIZES, num_local_experts=4, num_experts_per_tok=2, sliding_window=None
    ),
    "gpt-oss": lambda: GptOssConfig(
        **_SIZES, head_dim=8, num_local_experts=4, num_experts_per_tok=2, sliding_window=7,
        layer_types=["sliding_attention", "full_attention", "sliding_attention"],
    ),
    "qwen3 moe": lambda: Qwen3MoeConfig(
        **_SIZES, head_dim=8, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16,
    ),
}  # fmt: skip
MOE = ["mixtral", "qwen3 moe", "gpt-oss"]


def tiny(
    name: str, *, checkpointing: bool = False, implementation: str = "eager", **settings: Any
) -> PreTrainedModel:
    """A model with random weights large enough that mistakes show; in training mode.

    settings: of its configuration, beside those of its row.
    """
    torch.manual_seed(0)
    config = CONFIGS[name]()
    config.update(settings)
    model = AutoModelForCausalLM.from_config(
        config, attn_implementation=implementation, dtype=torch.float32
    )
    for parameter in model.parameters():
        nn.init.normal_(parameter, 0.0, 0.3 if parameter.dim() > 1 else 0.1)
    if checkpointing:
        checkpoint(model)
    model.train()
    return model


def checkpoint(model: PreTrainedModel, *, reentrant: bool = False, **options: Any) -> None:
    """By the name that this version of transformers has for it."""
    enable = getattr(model, "activation_checkpointing_enable", None)
    (enable or model.gradient_checkpointing_enable)({"use_reentrant": reentrant, **options})


def repeated(
    model: nn.Module,
    prompt_ids: Tensor,
    prompt_mask: Tensor,
    completion_ids: Tensor,
    completion_mask: Tensor,
    temperature: float = 1.0,
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Log-probabilities, entropies and auxiliary loss of the repeated batch: plain full logits."""
    mask = torch.cat([prompt_mask, completion_mask], 1).long()
    ids = torch.cat([prompt_ids, completion_ids], 1)
    moe = hasattr(model.config, "output_router_logits")
    extra = {"output_router_logits": True} if moe else {}
    out = model(
        input_ids=ids, attention_mask=mask, position_ids=(mask.cumsum(1) - 1).clamp(min=0),
        use_cache=False, **extra,
    )  # fmt: skip
    width = completion_ids.shape[1]
    all_logprobs = torch.log_softmax(out.logits[:, -width - 1 : -1].float() / temperature, -1)
    logprobs = all_logprobs.gather(-1, completion_ids.unsqueeze(-1)).squeeze(-1)
    entropies = -(all_logprobs.exp() * all_logprobs).sum(-1)
    keep = completion_mask.bool()
    aux = out.aux_loss if moe else None
    return logprobs.masked_fill(~keep, 0.0), entropies.masked_fill(~keep, 0.0), aux


def batch(
    groups: list[int], prompt: int = 14, completion: int = 9, seed: int = 0, side: str = "left"
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Prompts of different lengths, `groups[i]` completions of different lengths for each."""
    draw = torch.Generator().manual_seed(seed)

    def length(most: int) -> int:
        return int(torch.randint(max(1, most // 2), most + 1, (1,), generator=draw))

    rows = sum(groups)
    prompt_ids = torch.zeros(rows, prompt, dtype=torch.long)
    prompt_mask = torch.zeros(rows, prompt, dtype=torch.long)
    completion_ids = torch.zeros(rows, completion, dtype=torch.long)
    completion_mask = torch.zeros(rows, completion, dtype=torch.long)
    row = 0
    for group in groups:
        n = length(prompt)
        ids = torch.randint(3, VOCABULARY, (n,), generator=draw)
        where = slice(prompt - n, prompt) if side == "left" else slice(0, n)
        for _ in range(group):
            c = length(completion)
            prompt_ids[row, where] = ids
            prompt_mask[row, where] = 1
            completion_ids[row, :c] = torch.randint(3, VOCABULARY, (c,), generator=draw)
            completion_mask[row, :c] = 1
            row += 1
    return prompt_ids, prompt_mask, completion_ids, completion_mask


def gradients(loss: Tensor, model: nn.Module) -> dict[str, Tensor]:
    model.zero_grad(set_to_none=True)
    loss.backward()
    return {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}


def relative_error(found: dict[str, Tensor], wanted: dict[str, Tensor]) -> float:
    """Largest of the gradients' relative errors, each against its own norm."""
    assert found.keys() == wanted.keys()
    return max(
        float((found[n] - wanted[n]).norm() / wanted[n].norm().clamp(min=1e-12)) for n in wanted
    )
