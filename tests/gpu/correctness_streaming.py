"""Streamed frozen weights on real streams: gradients bit-equal at real sizes, memory given back."""

from __future__ import annotations

import gc
import tempfile
from pathlib import Path
from typing import Any

import torch
from memlint_runtime import checkpoint_activations, fuse_causal_lm_loss, stream_frozen_weights
from memlint_runtime.streaming import StreamedWeights

from tests.gpu.harness import Result, Step, require
from tests.gpu.offload_models import (
    LLAMA_8B,
    SMALL,
    Shape,
    batch,
    deterministic,
    llama,
    synchronize,
    with_lora,
)
from tests.runtime.streaming.training import mapped


@deterministic()
def bit_equal(
    shape: Shape,
    tokens: int,
    device: str,
    *,
    quantized: bool = False,
    ways: tuple[str, ...] = ("none", "checkpointed", "fused loss"),
    steps: int = 10,
) -> Result:
    """Steps resident, then streamed, from the same weights; both ways of checkpointing.

    tokens: so many that a fused loss goes by tiles in both. Of few, a head that is resident makes
    its logits whole, in another order of additions.
    """
    found: Result = {}
    for way in ways:
        losses: list[list[float]] = []
        gradients: list[list[torch.Tensor]] = []
        for streams in (False, True):
            model = _adapted(shape, device, quantized=quantized)
            streamed = stream_frozen_weights(model) if streams else None
            if way != "none":
                checkpoint_activations(model)
            if way == "fused loss":
                fuse_causal_lm_loss(model)
            seen, last = _train(model, batch(shape, tokens, device), steps)
            losses.append(seen)
            gradients.append(last)
            if streamed is not None:
                found[way] = _counters(streamed, device)
            del model, streamed
            gc.collect()
        if losses[0] != losses[1]:
            raise AssertionError(f"{way}: losses differ: {losses}")
        for one, other in zip(*gradients, strict=True):
            if not torch.equal(one, other):
                raise AssertionError(f"{way}: gradients differ")
    return found


def _adapted(shape: Shape, device: str, *, quantized: bool) -> Any:
    model = llama(shape, device)
    if quantized:
        _quantize(model, device)
    torch.manual_seed(1)
    adapted: Any = with_lora(model)
    adapted.enable_input_require_grads()
    return adapted.to(device)


def _quantize(model: Any, device: str) -> None:
    """nf4 with nested scales, layer by layer."""
    require("bitsandbytes")
    import bitsandbytes as bnb
    from torch import nn

    for layer in model.model.layers:
        for name, linear in list(layer.named_modules()):
            if isinstance(linear, nn.Linear):
                path, _, last = name.rpartition(".")
                made = bnb.nn.Linear4bit(
                    linear.in_features, linear.out_features, bias=False,
                    compute_dtype=torch.bfloat16, quant_type="nf4",
                )  # fmt: skip
                made.load_state_dict({"weight": linear.weight.detach().cpu()})
                setattr(layer.get_submodule(path), last, made.to(device))


def _train(
    model: Any, ids: torch.Tensor, steps: int = 10
) -> tuple[list[float], list[torch.Tensor]]:
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-3)
    losses: list[float] = []
    gradients: list[torch.Tensor] = []
    for _ in range(steps):
        loss = model(input_ids=ids, labels=ids, use_cache=False).loss
        loss.backward()
        losses.append(loss.item())
        gradients = [p.grad.clone() for p in trained if p.grad is not None]
        optimizer.step()
        optimizer.zero_grad()
    return losses, gradients


def _counters(streamed: StreamedWeights, device: str) -> dict[str, int]:
    found = {
        "host_bytes": streamed.host_bytes,
        "ring_bytes": streamed.ring.peak_bytes,
        "fetched_bytes": streamed.ring.fetched_bytes,
        "locked_bytes": streamed.pages.locked_bytes,
        "surprises": streamed.ring.order.surprises,
    }
    if device != "cpu":
        found["peak_bytes"] = torch.cuda.max_memory_allocated()
    return found


@deterministic()
def bit_equal_from_files(shape: Shape, tokens: int, device: str) -> Result:
    """The same where the weights stay in a memory-mapped file, read ahead into locked memory."""
    found: Result = {}
    losses: list[list[float]] = []
    gradients: list[list[torch.Tensor]] = []
    with tempfile.TemporaryDirectory() as folder:
        for streams in (False, True):
            model = _adapted(shape, "cpu", quantized=False)
            if streams:
                mapped(model, Path(folder))
                streamed = stream_frozen_weights(model, store="files")
            model.to(device)
            checkpoint_activations(model)
            steps, last = _train(model, batch(shape, tokens, device))
            losses.append(steps)
            gradients.append(last)
        found |= _counters(streamed, device)
        found |= {"read_ahead": streamed.store.ahead, "read_late": streamed.store.late}
        streamed.undo()
    if losses[0] != losses[1]:
        raise AssertionError(f"losses differ: {losses}")
    for one, other in zip(*gradients, strict=True):
        if not torch.equal(one, other):
            raise AssertionError("gradients differ")
    return found


def given_back(shape: Shape, tokens: int, device: str) -> Result:
    """Device memory after steps, after failing steps, and host locks after `undo`."""
    model = _adapted(shape, device, quantized=False)
    streamed = stream_frozen_weights(model)
    ids = batch(shape, tokens, device)
    after: list[int] = []
    failing = False

    def fail(*ignored: Any) -> None:
        if failing:
            raise KeyError

    model.get_base_model().model.layers[1].mlp.register_forward_hook(fail)
    for step in range(40):
        failing = step % 4 == 3
        try:
            model(input_ids=ids, labels=ids, use_cache=False).loss.backward()
        except KeyError:
            gc.collect()
        model.zero_grad()
        synchronize(device)
        if not failing:
            after.append(torch.cuda.memory_allocated() if device != "cpu" else 0)
    if max(after[3:]) > after[2] + 2**20:
        raise AssertionError(f"memory grows: {after}")
    streamed.undo()
    if streamed.pages.locked_bytes:
        raise AssertionError(f"{streamed.pages.locked_bytes} bytes stayed locked")
    return {"device_bytes": after[-1]}


STEPS = (
    Step("streaming_bit_equal_small", lambda: bit_equal(SMALL, 2048, "cuda"), 3),
    Step(
        "streaming_bit_equal_8b",
        lambda: bit_equal(LLAMA_8B, 512, "cuda", ways=("fused loss",), steps=4),
        4,
    ),
    Step("streaming_bit_equal_nf4", lambda: bit_equal(SMALL, 2048, "cuda", quantized=True), 3),
    Step("streaming_bit_equal_files", lambda: bit_equal_from_files(SMALL, 2048, "cuda"), 3),
    Step("streaming_given_back", lambda: given_back(SMALL, 2048, "cuda"), 3),
)
