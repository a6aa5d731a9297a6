"""The time that the fused loss's launch plan takes on A100, H100 and B200 at the least.

Run: python -m tests.bench.roofline [--measured FILE]

A roofline, not a measurement: every launch takes the longest of its arithmetic at the dense bf16
peak, its bytes at the memory's rate, and LAUNCH_SECONDS; launches follow each other, and the host
needs HOST_SECONDS a tile. Loss and all gradients, the head trained. Tiles and workspace are those
that the runtime plans. The others as their sources have them:

cut-cross-entropy  four matmuls, the logits never in memory; its skipping of blocks without weight
                   is left out, as it depends on the data.
Liger              chunks of tokens, gradients in the forward, three matmuls, bf16 logits in memory.
plain              three matmuls, whole logits in bf16 and float32, log-softmax, and back.

FILE: JSON lines with `kernel` or `id`, `dims`, `gpu`, `speed_ms`; times of the same shape on the
same GPU are printed beside the roofline.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

import torch
from memlint_runtime.losses import statistics
from memlint_runtime.losses.passes import default_workspace_bytes
from memlint_runtime.losses.planning import plan_tiling
from memlint_runtime.losses.tile_ops import LogitTransform
from memlint_runtime.losses.tiles import Axis, Head, Tiling
from torch._subclasses.fake_tensor import FakeTensorMode

LAUNCH_SECONDS, HOST_SECONDS = 4e-6, 45e-6
MODELS = {"Llama-3 8B": (128_256, 4096), "Gemma-2 2B": (256_000, 2304)}
TOKENS = (8192, 32_768)


@dataclass(frozen=True)
class Gpu:
    name: str
    flops: float
    bytes_per_second: float

    def seconds(self, flops: float, moved: float) -> float:
        """One launch."""
        return max(flops / self.flops, moved / self.bytes_per_second, LAUNCH_SECONDS)


GPUS = (Gpu("A100", 312e12, 2.04e12), Gpu("H100", 989e12, 3.35e12), Gpu("B200", 2250e12, 8e12))


@dataclass(frozen=True)
class Plan:
    """What the runtime would launch: tiles of the forward and of the weights' sweep."""

    forward: Tiling
    backward: Tiling
    forward_tiles: int
    backward_tiles: int


def plan(vocabulary: int, width: int, tokens: int) -> Plan:
    with FakeTensorMode(), patch.object(statistics, "has_triton", lambda _: True):
        hidden = torch.empty(tokens, width, dtype=torch.bfloat16, device="cuda")
        weight = torch.empty(vocabulary, width, dtype=torch.bfloat16, device="cuda")
        head = Head((hidden,), (weight,), None, LogitTransform(), torch.bfloat16)
        whole = default_workspace_bytes(
            tokens, width, torch.bfloat16, vocabulary=vocabulary, device="cuda"
        )
        free = whole - tokens * width * 2

        def tiling(outer: Axis) -> Tiling:
            return plan_tiling(head, free, outer, scratch=1)

        forward, backward = tiling("tokens"), tiling("vocabulary")
    count = [
        math.ceil(tokens / one.tokens) * math.ceil(vocabulary / one.vocabulary)
        for one in (forward, backward)
    ]
    return Plan(forward, backward, *count)


def ours(gpu: Gpu, vocabulary: int, width: int, tokens: int) -> float:
    """Forward with the hidden states' gradient kept, then the weights' sweep."""
    made = plan(vocabulary, width, tokens)
    total = 0.0
    for tiling, tiles, forward in (
        (made.forward, made.forward_tiles, True),
        (made.backward, made.backward_tiles, False),
    ):
        # Tiles at the edges are smaller: the mean tile has the whole's share.
        entries = tokens * vocabulary / tiles
        t, v = min(tiling.tokens, tokens), min(tiling.vocabulary, vocabulary)
        flops, inputs = 2 * entries * width, 2 * width * (t + v)
        outer = t if forward else v
        device = gpu.seconds(flops, inputs + 4 * entries)  # logits, in float32
        device += gpu.seconds(0, 6 * entries)  # one pass of the Triton kernel
        accumulated = 8 * outer * width
        device += gpu.seconds(flops, 2 * entries + inputs / 2 + accumulated)
        if forward:
            device += gpu.seconds(0, accumulated)  # sums scaled to the new maximum
        total += tiles * max(device, HOST_SECONDS)
    return total


def cut_cross_entropy(gpu: Gpu, vocabulary: int, width: int, tokens: int) -> float:
    one, inputs = 2 * tokens * vocabulary * width, 2 * width * (tokens + vocabulary)
    return gpu.seconds(one, inputs) + gpu.seconds(3 * one, 3 * inputs)


def liger(gpu: Gpu, vocabulary: int, width: int, tokens: int) -> float:
    rows = 2 ** math.ceil(math.log2(math.ceil(tokens / math.ceil(vocabulary / width))))
    flops, entries = 2 * rows * vocabulary * width, rows * vocabulary
    head, part = 2 * vocabulary * width, 2 * rows * width
    chunk = gpu.seconds(flops, head + part + 2 * entries)
    chunk += gpu.seconds(0, 6 * entries)  # logits twice, their gradient once
    chunk += gpu.seconds(flops, head + part + 2 * entries)
    # The weights' gradient of the chunk is added to the sum by its matmul.
    chunk += gpu.seconds(flops, 2 * head + part + 2 * entries)
    return chunk * math.ceil(tokens / rows)


def plain(gpu: Gpu, vocabulary: int, width: int, tokens: int) -> float:
    flops, entries = 2 * tokens * vocabulary * width, tokens * vocabulary
    inputs = 2 * width * (tokens + vocabulary)
    matmul = gpu.seconds(flops, inputs + 2 * entries)
    # bf16 to float32, log-softmax, its gradient, and that to bf16.
    passes = sum(gpu.seconds(0, moved * entries) for moved in (6, 8, 12, 6))
    return 3 * matmul + passes


WAYS: dict[str, Callable[[Gpu, int, int, int], float]] = {
    "ours": ours, "cut-cross-entropy": cut_cross_entropy, "Liger": liger, "plain": plain,
}  # fmt: skip
_PROVIDERS = {"cce": "cut-cross-entropy", "liger": "Liger", "baseline": "plain",
              "huggingface": "plain"}  # fmt: skip


def measured(file: Path | None) -> dict[tuple[str, str, int, int, int], float]:
    """Milliseconds of loss and gradients by way, GPU, vocabulary, width and tokens."""
    found: dict[tuple[str, str, int, int, int], float] = {}
    for line in file.read_text(encoding="utf-8").splitlines() if file else []:
        one = json.loads(line)
        dims, way = one.get("dims", {}), _PROVIDERS.get(one.get("provider"))
        shape = [dims.get("V"), dims.get("H"), dims.get("BT", dims.get("tokens"))]
        gpu = next((gpu.name for gpu in GPUS if gpu.name in one.get("gpu", "")), None)
        times = one.get("speed_ms") or {}
        time = times.get("loss-fw-bw", times.get("full"))
        if way and gpu and time and None not in shape:
            found[(way, gpu, *shape)] = time
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--measured", type=Path)
    times = measured(parser.parse_args().measured)
    print("milliseconds of loss and gradients at the least (measured)\n")
    print("| model | tokens | tiles | GPU | " + " | ".join(WAYS) + " | ours / cut-cross-entropy |")
    print("| --- " * (5 + len(WAYS)) + "|")
    for model, (vocabulary, width) in MODELS.items():
        for tokens in TOKENS:
            made = plan(vocabulary, width, tokens)
            tiles = (
                f"{made.forward_tiles} of {made.forward.tokens}x{made.forward.vocabulary}, "
                f"{made.backward_tiles} of {made.backward.tokens}x{made.backward.vocabulary}"
            )
            for gpu in GPUS:
                found = {way: run(gpu, vocabulary, width, tokens) for way, run in WAYS.items()}
                cells = []
                for way, seconds in found.items():
                    known = times.get((way, gpu.name, vocabulary, width, tokens))
                    cells.append(f"{1e3 * seconds:.1f}" + (f" ({known:.1f})" if known else ""))
                ratio = found["ours"] / found["cut-cross-entropy"]
                print(
                    f"| {model} | {tokens:,} | {tiles} | {gpu.name} | {' | '.join(cells)} | "
                    f"{ratio:.3f} |"
                )


if __name__ == "__main__":
    main()
