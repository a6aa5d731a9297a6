"""Step time and peak on an 8B-shaped LoRA by way of offloading; longest sequence; optimizer.

To reach at 32k tokens: no slower and no more memory than TRL's OffloadActivations, and at most
5 % slower than checkpointing without offload.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import Any

import torch
from memlint_runtime import (
    OptimizerInBackward,
    checkpoint_activations,
    fuse_causal_lm_loss,
    offload_activations,
    tile_mlp,
)
from torch import nn

from tests.gpu.harness import Result, Step, require
from tests.gpu.offload_models import (
    LLAMA_1B,
    LLAMA_8B,
    Shape,
    batch,
    free,
    llama,
    measured,
    with_lora,
)


def _checkpointed(model: nn.Module, device: str) -> Any:
    checkpoint_activations(model)
    return contextlib.nullcontext()


def _ours(model: nn.Module, device: str) -> Any:
    checkpoint_activations(model, offload=offload_activations(device=device))
    return contextlib.nullcontext()


def _trl(model: nn.Module, device: str) -> Any:
    from trl.models.activation_offloading import get_act_offloading_ctx_manager

    checkpoint_activations(model)
    return get_act_offloading_ctx_manager(model, warn_if_no_head=False)


WAYS: dict[str, Callable[[nn.Module, str], Any]] = {
    "checkpointed": _checkpointed,
    "ours": _ours,
    "trl": _trl,
}


def lora_step(way: str, shape: Shape, tokens: int, device: str) -> Result:
    """Forward and backward of a LoRA with a fused loss, checkpointed, offloaded one way."""
    require("peft", *(["trl"] if way == "trl" else []))
    model = with_lora(llama(shape, device))
    fuse_causal_lm_loss(model)
    context = WAYS[way](model, device)
    ids = batch(shape, tokens, device)

    def step() -> None:
        with context:
            loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        model.zero_grad(set_to_none=True)

    return {"way": way, "tokens": tokens, **measured(step, device)}


def unchecked_step(way: str, shape: Shape, tokens: int, device: str) -> Result:
    """The same without checkpointing: everything saved travels, the bus is the limit."""
    require("peft", *(["trl"] if way == "trl" else []))
    model = with_lora(llama(shape, device))
    fuse_causal_lm_loss(model)
    context: Any = contextlib.nullcontext()
    if way == "ours":
        context = offload_activations(model, device=device)
    elif way == "trl":
        from trl.models.activation_offloading import get_act_offloading_ctx_manager

        context = get_act_offloading_ctx_manager(model, warn_if_no_head=False)
    ids = batch(shape, tokens, device)

    def step() -> None:
        with context:
            loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        model.zero_grad(set_to_none=True)

    return {"way": way, "tokens": tokens, **measured(step, device)}


def longest(shape: Shape, device: str, *, seconds: float, start_tokens: int = 32768) -> Result:
    """Half as long again, with all measures on, until memory or `seconds` run out."""
    require("peft")
    model = with_lora(llama(shape, device))
    fuse_causal_lm_loss(model)
    tile_mlp(model)
    checkpoint_activations(model, offload=offload_activations(device=device))
    began = time.perf_counter()
    tried: list[dict[str, float]] = []
    tokens, ended = start_tokens, "out of memory"
    while True:
        try:
            ids = batch(shape, tokens, device)
            start = time.perf_counter()
            model(input_ids=ids, labels=ids).loss.backward()
            if device != "cpu":
                torch.cuda.synchronize()
        except torch.OutOfMemoryError:
            break
        took = time.perf_counter() - start
        peak = torch.cuda.max_memory_allocated() / 2**30 if device != "cpu" else 0.0
        tried.append({"tokens": tokens, "seconds": took, "peak_gib": peak})
        model.zero_grad(set_to_none=True)
        free(device)
        if time.perf_counter() - began + 2.5 * took > seconds:
            ended = "out of time"
            break
        tokens = tokens * 3 // 2
    result: Result = {"tried": tried, "ended": ended, "longest_tokens": tried[-1]["tokens"]}
    if len(tried) > 1 and device != "cpu":
        first, last = tried[0], tried[-1]
        slope = (last["peak_gib"] - first["peak_gib"]) / (last["tokens"] - first["tokens"])
        room = torch.cuda.get_device_properties(0).total_memory / 2**30 - 2 - last["peak_gib"]
        result["gib_per_1000_tokens"] = 1000 * slope
        result["tokens_that_would_fit"] = last["tokens"] + room / max(slope, 1e-9)
    return result


def optimizer_step(inside: bool, shape: Shape, tokens: int, device: str) -> Result:
    """A full fine-tune with AdamW, its step after backward or inside."""
    model = llama(shape, device)
    fuse_causal_lm_loss(model)
    checkpoint_activations(model)
    optimizer: torch.optim.Optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)
    if inside:
        optimizer = OptimizerInBackward(optimizer)
    ids = batch(shape, tokens, device)

    def step() -> None:
        model(input_ids=ids, labels=ids).loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return {"inside": inside, **measured(step, device)}


STEPS = (
    *(
        Step(
            f"offload_lora_8b_{tokens // 1024}k_{way}",
            lambda way=way, tokens=tokens: lora_step(way, LLAMA_8B, tokens, "cuda"),  # type: ignore
            5,
        )
        for tokens in (8192, 32768)
        for way in WAYS
    ),
    *(
        Step(
            f"offload_lora_8b_unchecked_4k_{way}",
            lambda way=way: unchecked_step(way, LLAMA_8B, 4096, "cuda"),  # type: ignore
            3,
        )
        for way in ("none", "ours", "trl")
    ),
    Step("offload_longest_8b", lambda: longest(LLAMA_8B, "cuda", seconds=80), 3),
    Step("optimizer_after_backward_1b", lambda: optimizer_step(False, LLAMA_1B, 4096, "cuda"), 2),
    Step("optimizer_in_backward_1b", lambda: optimizer_step(True, LLAMA_1B, 4096, "cuda"), 2),
)
