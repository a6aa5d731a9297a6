"""Models and measured steps for the offloading steps; on the CPU too, tiny, to try them there."""

from __future__ import annotations

import contextlib
import gc
import os
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers import LlamaConfig, LlamaForCausalLM


@dataclass(frozen=True)
class Shape:
    """A Llama's shape."""

    hidden: int
    intermediate: int
    layers: int
    heads: int
    kv_heads: int
    vocabulary: int


LLAMA_8B = Shape(4096, 14336, 32, 32, 8, 128256)
LLAMA_1B = Shape(2048, 8192, 16, 32, 8, 128256)
SMALL = Shape(1024, 3584, 6, 16, 4, 8192)
TINY = Shape(64, 160, 3, 4, 2, 256)


def llama(shape: Shape, device: str, *, seed: int = 0) -> LlamaForCausalLM:
    """Random weights in bf16, made on `device`, in training mode, sdpa attention."""
    torch.manual_seed(seed)
    config = LlamaConfig(
        hidden_size=shape.hidden,
        intermediate_size=shape.intermediate,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.kv_heads,
        vocab_size=shape.vocabulary,
        max_position_embeddings=2**20,
        use_cache=False,
        attn_implementation="sdpa",
    )
    previous = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    try:
        with torch.device(device):
            return LlamaForCausalLM(config).train()
    finally:
        torch.set_default_dtype(previous)


def with_lora(model: LlamaForCausalLM) -> nn.Module:
    """Rank 16 on every linear layer of attention and MLP."""
    from peft import LoraConfig, get_peft_model

    names = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
    wrapped: nn.Module = get_peft_model(model, LoraConfig(r=16, target_modules=names))
    return wrapped


def batch(shape: Shape, tokens: int, device: str) -> Tensor:
    """Token ids [1, tokens]."""
    generator = torch.Generator().manual_seed(1)
    return torch.randint(0, shape.vocabulary, (1, tokens), generator=generator).to(device)


@contextlib.contextmanager
def deterministic() -> Iterator[None]:
    """What a GPU adds up in any order, the backward of flash attention above all, in one order.

    Flash attention does so only where what cannot is an error.
    """
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    # Filling new buffers would write into those that a copy is on its way to.
    fill, torch.utils.deterministic.fill_uninitialized_memory = (
        torch.utils.deterministic.fill_uninitialized_memory, False,
    )  # fmt: skip
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)
        torch.utils.deterministic.fill_uninitialized_memory = fill


def repeats_for(seconds: float) -> int:
    """How often a step that takes so long is timed: within some 10 seconds, 2 to 5 times."""
    return max(2, min(5, int(10 / max(seconds, 1e-3))))


def synchronize(device: str) -> None:
    if device != "cpu":
        torch.cuda.synchronize()


def free(device: str) -> None:
    gc.collect()
    if device != "cpu":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


def measured(step: Callable[[], Any], device: str) -> dict[str, float]:
    """Median seconds of a step and the allocator's peaks in GiB; long steps are repeated less."""
    step()
    synchronize(device)
    start = time.perf_counter()
    step()
    synchronize(device)
    repeats = repeats_for(time.perf_counter() - start)
    free(device)
    seconds = []
    for _ in range(repeats):
        synchronize(device)
        start = time.perf_counter()
        step()
        synchronize(device)
        seconds.append(time.perf_counter() - start)
    on_gpu = device != "cpu"
    peak = torch.cuda.max_memory_allocated() if on_gpu else 0
    reserved = torch.cuda.max_memory_reserved() if on_gpu else 0
    return {
        "seconds": statistics.median(seconds),
        "peak_gib": peak / 2**30,
        "reserved_gib": reserved / 2**30,
    }
