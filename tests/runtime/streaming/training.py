"""Tiny adapted models of many families, and steps of training to compare to the bit."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from memlint_runtime import fuse_causal_lm_loss, offload_activations
from memlint_runtime.streaming import StreamedWeights, stream_frozen_weights
from peft import LoraConfig, get_peft_model
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor, nn
from transformers import AutoConfig, AutoModelForCausalLM

from tests.runtime.streaming.schedulers import DelayedCopies

VOCABULARY = 97
LAYERS = 4
_COMMON: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 4,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
_GROUPED = {**_COMMON, "num_key_value_heads": 2, "head_dim": 8}
_MIXED = ["sliding_attention", "full_attention"] * (LAYERS // 2)
_ATTENTION = ["q_proj", "v_proj"]
_EXPERTS = {"num_experts_per_tok": 2, "moe_intermediate_size": 16}
FAMILIES: dict[str, dict[str, Any]] = {
    "llama": _GROUPED,
    "qwen2": {**_GROUPED, "tie_word_embeddings": True},
    "qwen3": _GROUPED,
    "mistral": {**_GROUPED, "sliding_window": 6},
    "gemma2": {**_GROUPED, "sliding_window": 6, "query_pre_attn_scalar": 8},
    "gemma3_text": {**_GROUPED, "sliding_window": 6, "layer_types": _MIXED},
    "phi3": {**_COMMON, "num_key_value_heads": 2},
    "gpt_neox": _COMMON,
    "gpt2": {
        "vocab_size": VOCABULARY,
        "n_embd": 32,
        "n_layer": LAYERS,
        "n_head": 4,
        "n_positions": 64,
    },
    "mixtral": {
        **_GROUPED,
        "num_local_experts": 4,
        "num_experts_per_tok": 2,
        "output_router_logits": True,
        "router_aux_loss_coef": 0.1,
    },
    "qwen3_moe": {**_GROUPED, **_EXPERTS, "num_experts": 4, "decoder_sparse_step": 1},
    "gpt_oss": {
        **_GROUPED,
        "sliding_window": 6,
        "num_local_experts": 4,
        "num_experts_per_tok": 2,
        "layer_types": _MIXED,
    },
}


@dataclass(frozen=True)
class Case:
    """How a model is adapted and trained."""

    family: str = "llama"
    dora: bool = False
    checkpointing: str = "none"  # or "reentrant", "non-reentrant"
    accumulate: int = 1
    offload: bool = False
    fused: bool = False
    dtype: torch.dtype = torch.float32
    changes: dict[str, Any] = field(default_factory=dict)


def base(case: Case) -> Any:
    """A causal LM in training mode."""
    torch.manual_seed(0)
    config = AutoConfig.for_model(case.family, **{**FAMILIES[case.family], **case.changes})
    model = AutoModelForCausalLM.from_config(config).to(case.dtype)
    return model.train()


def adapted(case: Case) -> Any:
    """With LoRA or DoRA on its linear layers."""
    torch.manual_seed(1)
    config = LoraConfig(
        r=4,
        # Adapters on experts have rules of their own in PEFT; the experts' weights stream anyway.
        target_modules=_ATTENTION
        if "num_experts_per_tok" in FAMILIES[case.family]
        else "all-linear",
        fan_in_fan_out=case.family == "gpt2",
        use_dora=case.dora,
        init_lora_weights=False,
        task_type="CAUSAL_LM",
    )
    model: Any = get_peft_model(base(case), config)
    if case.checkpointing != "none":
        model.enable_input_require_grads()
        options = {"use_reentrant": case.checkpointing == "reentrant"}
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs=options)
    return model


def mapped(model: nn.Module, folder: Path) -> Path:
    """Put the frozen weights into a safetensors file, and the model over its mapping."""
    path = folder / "weights.safetensors"
    frozen = {name: p for name, p in model.named_parameters() if not p.requires_grad}
    save_file({name: p.detach().contiguous() for name, p in frozen.items()}, path)
    with safe_open(path, framework="pt") as opened:
        for name, parameter in frozen.items():
            parameter.data = opened.get_tensor(name)
    return path


def batch(generator: torch.Generator, *, rows: int = 2, length: int = 12) -> dict[str, Tensor]:
    ids = torch.randint(3, VOCABULARY, (rows, length), generator=generator)
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": ids}


@dataclass
class Run:
    """What training gave: a loss and the gradients for each step."""

    losses: list[Tensor]
    gradients: list[list[Tensor]]


def one_batch() -> dict[str, Tensor]:
    return batch(torch.Generator().manual_seed(5))


def stream(model: nn.Module, **options: Any) -> Any:
    """Small weights stream too, and copies come late."""
    return stream_frozen_weights(model, **{"copies": DelayedCopies(), "min_bytes": 256, **options})


def change_a_weight(models: Sequence[Any], way: str) -> None:
    """Double a frozen weight of each: between steps, or from a hook while it is on the device."""

    @torch.no_grad()
    def change(module: Any, *ignored: Any) -> None:
        if "data" in way:
            module.weight.data = module.weight.data * 2
        else:
            module.weight.mul_(2)

    for model in models:
        target = model.get_base_model().model.layers[1].mlp.up_proj.base_layer
        if "device" in way:
            handle = target.register_forward_pre_hook(change)
            with torch.no_grad():
                model(**one_batch())
            handle.remove()
        else:
            change(target)


def train(model: nn.Module, case: Case, *, steps: int = 10, **sizes: int) -> Run:
    """Steps of AdamW over batches of random tokens."""
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-2)
    generator = torch.Generator().manual_seed(2)
    offload = contextlib.nullcontext()
    if case.offload:
        offload = offload_activations(model, device="cpu", min_bytes=256)  # type: ignore
    run = Run([], [])
    for step in range(steps):
        torch.manual_seed(step)  # for dropout
        for _ in range(case.accumulate):
            with offload:
                loss = model(**batch(generator, **sizes), use_cache=False).loss / case.accumulate
            loss.backward()
            run.losses.append(loss.detach())
        run.gradients.append([p.grad.clone() for p in trained if p.grad is not None])
        optimizer.step()
        optimizer.zero_grad()
    return run


def assert_same(first: Run, second: Run) -> None:
    """Bit for bit."""
    assert first.gradients[0]
    for one, other in zip(first.losses, second.losses, strict=True):
        assert torch.isfinite(one)
        assert torch.equal(one, other)
    for ones, others in zip(first.gradients, second.gradients, strict=True):
        for one, other in zip(ones, others, strict=True):
            assert torch.equal(one, other)


def compare(case: Case, copies: Any, *, steps: int = 10, **options: Any) -> StreamedWeights:
    """Train resident and streamed; returns the handle of the streamed model."""
    resident, model = adapted(case), adapted(case)
    streamed = stream_frozen_weights(model, copies=copies, min_bytes=256, **options)
    if case.fused:
        fuse_causal_lm_loss(resident)
        fuse_causal_lm_loss(model)
    expected = train(resident, case, steps=steps)
    assert_same(expected, train(model, case, steps=steps))
    assert streamed.ring.fetches > 0
    assert streamed.ring.resident_bytes == 0
    return streamed
