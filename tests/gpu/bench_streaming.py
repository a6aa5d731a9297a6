"""Tokens a second and peak of an 8B-shaped LoRA: resident, streamed, and accelerate's offload.

To reach: from the length that `plan_streaming` names on, at most 5 % slower than resident; the
copies beside the computation, so that a step takes about the longer of the two.
"""

from __future__ import annotations

from typing import Any

import torch
from memlint_runtime import (
    checkpoint_activations,
    fuse_causal_lm_loss,
    plan_streaming,
    stream_frozen_weights,
)

from tests.gpu.harness import Result, Step, require
from tests.gpu.offload_models import LLAMA_8B, Shape, batch, free, llama, measured, with_lora

WAYS = ("resident", "streamed", "streamed, one buffer", "accelerate")
TOKENS = (512, 4096, 16384)


def lora_steps(way: str, shape: Shape, device: str, lengths: tuple[int, ...] = TOKENS) -> Result:
    """Forward and backward of checkpointed layers under the fused loss, at several lengths."""
    # Made on the device, where random numbers take a tenth of the time.
    base = llama(shape, device)
    if way != "resident":
        base = base.cpu()
        free(device)
    model: Any = with_lora(base)
    model.enable_input_require_grads()
    checkpoint_activations(model)
    streamed = None
    if way == "accelerate":
        require("accelerate")
        from accelerate import cpu_offload

        cpu_offload(base, execution_device=torch.device(device))
    else:
        fuse_causal_lm_loss(model)
    if way.startswith("streamed"):
        streamed = stream_frozen_weights(model, buffers=1 if "one" in way else 2)
    if way != "accelerate":
        model.to(device)
    found: Result = {"way": way}
    if streamed is not None:
        found["gigabytes_per_second"] = _bus_rate(streamed, device)
    for tokens in lengths:
        ids = batch(shape, tokens, device)

        def step(ids: torch.Tensor = ids) -> None:
            model(input_ids=ids, labels=ids, use_cache=False).loss.backward()
            model.zero_grad()

        took: Result = {**measured(step, device)}
        took["tokens_per_second"] = tokens / float(str(took["seconds"]))
        if streamed is not None:
            config = model.get_base_model().config
            plan = plan_streaming(config, "H100", tokens=tokens)
            took["planned_seconds_h100"] = plan.streamed_seconds
            took["surprises"] = streamed.ring.order.surprises
        found[f"{tokens} tokens"] = took
    return found


def _bus_rate(streamed: Any, device: str) -> float:
    """What copies of a block alone reach."""
    import time

    block = streamed.blocks[0]
    target = torch.empty(block.num_bytes, dtype=torch.uint8, device=device)
    copies = streamed.ring.copies_on(torch.device(device))
    start = time.perf_counter()
    for _ in range(10):
        copies.wait(block.store.send(block, target, copies))
    if device != "cpu":
        torch.cuda.synchronize()
    return float(10 * block.num_bytes / (time.perf_counter() - start) / 1e9)


STEPS = tuple(
    Step(
        f"streaming_lora_8b_{way.replace(', ', '_').replace(' ', '_')}",
        lambda way=way: lora_steps(way, LLAMA_8B, "cuda"),  # type: ignore[misc]
        4,
    )
    for way in WAYS
)
