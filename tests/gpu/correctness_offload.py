"""Offloading on streams: gradients bit-equal, nothing left behind, no growth."""

from __future__ import annotations

import contextlib
import gc
from typing import Any

import torch
from memlint_runtime import (
    OffloadedOptimizer,
    OptimizerInBackward,
    checkpoint_activations,
    offload_activations,
    tile_mlp,
)
from memlint_runtime.offload import ActivationOffload

from tests.gpu.harness import Result, Step
from tests.gpu.offload_models import SMALL, Shape, batch, deterministic, llama, synchronize

OPTIONS: dict[str, dict[str, int]] = {
    "everything": {},
    "budget": {"budget_bytes": 200 * 2**20},
    "no prefetch, none in flight": {"prefetch": 0, "in_flight": 0},
    "far ahead": {"prefetch": 16, "in_flight": 16},
}


def _gradients(model: Any, ids: torch.Tensor, context: Any) -> list[torch.Tensor]:
    with context:
        loss = model(input_ids=ids, labels=ids).loss
    loss.backward()
    found = [p.grad.clone() for p in model.parameters() if p.grad is not None]
    model.zero_grad(set_to_none=True)
    return found


@deterministic()
def bit_equal(shape: Shape, tokens: int, device: str) -> Result:
    """Three steps of each way of offloading against none; embeddings frozen (atomic adds)."""
    model = llama(shape, device)
    model.model.embed_tokens.requires_grad_(False)
    ids = batch(shape, tokens, device)
    expected = _gradients(model, ids, contextlib.nullcontext())
    again = _gradients(model, ids, contextlib.nullcontext())
    if not _same(expected, again):
        raise AssertionError("the plain step is not deterministic here; nothing can be compared")
    sent: Result = {}

    def check(name: str, offload: ActivationOffload, *, around: bool) -> None:
        for _ in range(3):
            context = offload if around else contextlib.nullcontext()
            if not _same(expected, _gradients(model, ids, context)):
                raise AssertionError(f"{name}: gradients differ from those without offloading")
        gc.collect()
        if offload.pool.used_bytes or offload.resident_bytes:
            raise AssertionError(f"{name}: {offload.pool.used_bytes} bytes were left on the host")
        sent[name] = offload.sent_bytes

    for name, options in OPTIONS.items():
        offload = offload_activations(model, device=device, **options)
        check(name, offload, around=True)
    offload = offload_activations(device=device)
    setting = checkpoint_activations(model, offload=offload)
    check("checkpointed", offload, around=False)
    setting.remove()
    return sent


def exceptions(shape: Shape, tokens: int, device: str) -> Result:
    """A step that fails between forward and backward, 20 times: memory as before."""
    model = llama(shape, device)
    ids = batch(shape, tokens, device)
    offload = offload_activations(model, device=device)
    allocated: list[int] = []
    for _ in range(20):
        with contextlib.suppress(KeyError), offload:
            loss = model(input_ids=ids, labels=ids).loss
            del loss
            raise KeyError
        gc.collect()
        synchronize(device)
        allocated.append(_allocated(device))
    if offload.pool.used_bytes or allocated[-1] != allocated[1]:
        raise AssertionError(f"memory grows with failed steps: {allocated}")
    return {"allocated_bytes": allocated[-1], "host_bytes": offload.pool.allocated_bytes}


def fifty_steps(shape: Shape, tokens: int, device: str) -> Result:
    """Fifty steps of varying length: device and host memory after each."""
    model = llama(shape, device)
    offload = offload_activations(model, device=device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    generator = torch.Generator().manual_seed(0)
    after: list[int] = []
    host: list[int] = []
    for _ in range(50):
        length = int(torch.randint(tokens // 2, tokens, (), generator=generator))
        ids = batch(shape, length, device)
        with offload:
            loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        del loss, ids
        synchronize(device)
        after.append(_allocated(device))
        host.append(offload.pool.allocated_bytes)
    if max(after[5:]) > after[4] + 2**20 or host[-1] > 1.1 * host[24]:
        raise AssertionError(f"memory grows: device {after}, host {host}")
    return {"device_bytes": after[-1], "host_bytes": host[-1], "host_after_5": host[4]}


def everything_together(shape: Shape, tokens: int, device: str) -> Result:
    """Checkpointing, offload, tiled MLP and step in backward train like the plain loop."""
    losses: dict[str, list[float]] = {}
    for name in ("plain", "all"):
        model = llama(shape, device)
        optimizer: torch.optim.Optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
        if name == "all":
            tile_mlp(model, tile_tokens=tokens // 4)
            checkpoint_activations(model, offload=offload_activations(device=device))
            optimizer = OptimizerInBackward(optimizer)
        losses[name] = []
        for _ in range(10):
            ids = batch(shape, tokens, device)
            loss = model(input_ids=ids, labels=ids).loss
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            losses[name].append(loss.item())
    worst = max(abs(a - b) / a for a, b in zip(losses["plain"], losses["all"], strict=True))
    if worst > 0.02 or losses["all"][-1] > losses["all"][0]:
        raise AssertionError(f"training differs: {losses}")
    return {"worst_relative_difference": worst, "last_losses": [v[-1] for v in losses.values()]}


@deterministic()
def optimizer_on_the_host(shape: Shape, tokens: int, device: str) -> Result:
    """Six updates of two micro-batches with states and gradients on the host, in small buckets:
    parameters and states are those of the plain optimizer; embeddings frozen (atomic adds)."""
    models, saved = [], []
    for wrap in (None, OffloadedOptimizer):
        model = llama(shape, device)
        model.model.embed_tokens.requires_grad_(False)
        optimizer: torch.optim.Optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
        if wrap is not None:
            optimizer = wrap(optimizer, bucket_bytes=2**20)
        for update in range(6):
            for micro_batch in range(2):
                ids = (batch(shape, tokens, device) + 2 * update + micro_batch) % shape.vocabulary
                model(input_ids=ids, labels=ids).loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        models.append(list(model.parameters()))
        states = optimizer.state_dict()["state"].values()
        saved.append([state["exp_avg_sq"].cpu() for state in states])
    if not (_same(*models) and _same(*saved)):
        raise AssertionError("training with an offloaded optimizer differs from the plain one")
    host_bytes = sum(state.nbytes for state in saved[1])
    return {"state_bytes": 2 * host_bytes, "allocated_bytes": _allocated(device)}


def _allocated(device: str) -> int:
    return torch.cuda.memory_allocated() if device != "cpu" else 0


def _same(first: list[torch.Tensor], second: list[torch.Tensor]) -> bool:
    return all(torch.equal(one, other) for one, other in zip(first, second, strict=True))


STEPS = (
    Step("offload_bit_equal", lambda: bit_equal(SMALL, 4096, "cuda"), 3),
    Step("offload_after_exceptions", lambda: exceptions(SMALL, 2048, "cuda"), 2),
    Step("offload_fifty_steps", lambda: fifty_steps(SMALL, 4096, "cuda"), 3),
    Step("offload_everything_together", lambda: everything_together(SMALL, 2048, "cuda"), 3),
    Step("offload_optimizer", lambda: optimizer_on_the_host(SMALL, 512, "cuda"), 2),
)
