"""The time that the fused loss's launch plan takes on A100, H100 and B200 at the least.

Run: python -m tests.bench.roofline [--measured FILE]

A roofline, not a measurement: every launch takes the longest of its arithmetic, its bytes and
LAUNCH_SECONDS; launches follow each other, and the host needs HOST_SECONDS a tile. Loss and all
gradients, the head trained. Tiles and workspace are those that the runtime plans.

Two tables, by what matmuls and memory reach (`Gpu`):

at the peak   every matmul at the dense bf16 peak, every byte at the memory's rate, whoever wrote
              the kernel. What is left is the number of matmuls and the bytes between them.
as measured   shares of the peak that published runs reached, the same for all ways: matmuls of
              cuBLAS, matmuls within Triton kernels that go on with their result, memory.

The others as their sources have them:

cut-cross-entropy  four matmuls in Triton, the logits never in memory, gradients zeroed first, the
                   targets' logits by a kernel of their own. Exact: nothing is skipped
                   (`cce_exact`, but for its sums in float32, which would add bytes).
filtered           its default skips the two matmuls of a gradient's block whose entries are all
                   below a threshold: how many depends on the data. FILTERED is the share that its
                   authors' run (Gemma-2 2B on an instruction data set, A100) still took.
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
from memlint_runtime.losses import product_ops, statistics
from memlint_runtime.losses.passes import default_workspace_bytes, recomputes
from memlint_runtime.losses.planning import plan_joint, plan_reduction
from memlint_runtime.losses.tile_ops import LogitTransform
from memlint_runtime.losses.tiles import Head, Tiling
from torch._subclasses.fake_tensor import FakeTensorMode

from tests.bench import shared_prompt_roofline
from tests.bench.roofline_gpus import GPUS, MEASURED_GPUS, MEMORY, Gpu

HOST_SECONDS = 45e-6
MODELS = {"Llama-3 8B": (128_256, 4096), "Gemma-2 2B": (256_000, 2304)}
TOKENS = (8192, 32_768)


# cut-cross-entropy, Gemma-2 2B, A100: backward 89.3 ms, of which the logits take as long as the
# forward's 46.4; two matmuls without a filter would take twice that.
FILTERED = (89.3 - 46.4) / (2 * 46.4)


@dataclass(frozen=True)
class Plan:
    """What the runtime would launch: tiles of the forward and of the sweep for both gradients."""

    forward: Tiling
    backward: Tiling
    forward_tiles: int
    backward_tiles: int


def plan(vocabulary: int, width: int, tokens: int) -> Plan:
    with FakeTensorMode(), patch.object(statistics, "_HAS_TRITON", True):
        hidden = torch.empty(tokens, width, dtype=torch.bfloat16, device="cuda")
        weight = torch.empty(vocabulary, width, dtype=torch.bfloat16, device="cuda")
        head = Head((hidden,), (weight,), None, LogitTransform(), torch.bfloat16)
        workspace = default_workspace_bytes(
            tokens, width, torch.bfloat16, vocabulary=vocabulary, device="cuda"
        )
        assert recomputes((hidden,), (weight,), torch.bfloat16, workspace)
        forward = plan_reduction(head, workspace)
        backward = plan_joint(head, workspace, scratch=0)
        assert backward is not None
    count = [
        math.ceil(tokens / one.tokens) * math.ceil(vocabulary / one.vocabulary)
        for one in (forward, backward)
    ]
    return Plan(forward, backward, *count)


def ours(gpu: Gpu, vocabulary: int, width: int, tokens: int) -> float:
    """A forward that multiplies and reduces; then for each tile its gradient and two matmuls."""
    made = plan(vocabulary, width, tokens)

    def tile(tiling: Tiling, tiles: int) -> tuple[float, float, int, float]:
        # Tiles at the edges are smaller: the mean tile has the whole's share.
        entries = tokens * vocabulary / tiles
        t = min(tiling.tokens, tokens)
        return entries, 2 * entries * width, t, entries / t

    entries, flops, t, v = tile(made.forward, made.forward_tiles)
    # A maximum and a sum for each half block, written, and read by the kernel that merges them.
    launch = product_ops.launch_constants(gpu.capability, width, extras=0)
    values = 8 * entries / (launch["BLOCK_V"] / 2)
    one = gpu.seconds(flops, 2 * width * (t + v) + values, in_kernel=True) + gpu.seconds(0, values)
    total = made.forward_tiles * max(one, HOST_SECONDS)

    entries, flops, t, v = tile(made.backward, made.backward_tiles)
    inputs = 2 * width * (t + v)
    one = gpu.seconds(flops, inputs + 2 * entries, in_kernel=True)
    # Hidden states: added to sums in float32. Weights: written, or added where tokens have tiles.
    one += gpu.seconds(flops, 2 * entries + 2 * width * v + 8 * t * width)
    whole = t >= tokens
    one += gpu.seconds(flops, 2 * entries + 2 * width * t + (2 if whole else 8) * v * width)
    total += made.backward_tiles * max(one, HOST_SECONDS)
    if not whole:
        total += gpu.seconds(0, 10 * vocabulary * width)  # zeros, and their sums rounded
    return total + gpu.seconds(0, 6 * tokens * width)  # the hidden states' sums rounded


def cut_cross_entropy(
    gpu: Gpu, vocabulary: int, width: int, tokens: int, *, kept: float = 1.0
) -> float:
    one, inputs = 2 * tokens * vocabulary * width, 2 * width * (tokens + vocabulary)
    forward = gpu.seconds(one, inputs, in_kernel=True) + gpu.seconds(0, 4 * tokens * width)
    # Its gradients are sums in half precision: zeros, then a read and a write of each at the least.
    backward = gpu.seconds((1 + 2 * kept) * one, 3 * inputs, in_kernel=True)
    return forward + gpu.seconds(0, inputs) + backward


def filtered(gpu: Gpu, vocabulary: int, width: int, tokens: int) -> float:
    return cut_cross_entropy(gpu, vocabulary, width, tokens, kept=FILTERED)


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
    "ours": ours, "cut-cross-entropy": cut_cross_entropy, "filtered": filtered, "Liger": liger,
    "plain": plain,
}  # fmt: skip
_LOSSES = ("linear_cross_entropy", "linear cross entropy")
_PROVIDERS = {"cce": "filtered", "liger": "Liger", "baseline": "plain",
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
        is_loss = one.get("kernel", "").removeprefix("fused_").startswith(_LOSSES)
        if way and is_loss and gpu and time and None not in shape:
            found[(way, gpu, *shape)] = time
    return found


def write_table(gpus: tuple[Gpu, ...], times: dict[tuple[str, str, int, int, int], float]) -> None:
    print("| model | tokens | tiles | GPU | " + " | ".join(WAYS) + " | ours / cut-cross-entropy |")
    print("| --- " * (5 + len(WAYS)) + "|")
    for model, (vocabulary, width) in MODELS.items():
        for tokens in TOKENS:
            made = plan(vocabulary, width, tokens)
            tiles = (
                f"{made.forward_tiles} of {made.forward.tokens}x{made.forward.vocabulary}, "
                f"{made.backward_tiles} of {made.backward.tokens}x{made.backward.vocabulary}"
            )
            for gpu in gpus:
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--measured", type=Path)
    times = measured(parser.parse_args().measured)
    print("milliseconds of loss and gradients (measured)\n\nat the peak\n")
    write_table(GPUS, times)
    shares = "; ".join(
        f"{gpu.name} cuBLAS {gpu.library:.2f}, Triton {gpu.kernel:.2f}" for gpu in MEASURED_GPUS
    )
    print(f"\nas measured, shares of the peak: {shares}; memory {MEMORY}\n")
    write_table(MEASURED_GPUS, times)
    group = shared_prompt_roofline
    print(f"\nshared prompt, P={group.P} C={group.C} G={group.G}, Qwen2.5-7B, rho {group.RHO:.3f}:")
    print("milliseconds of forward and backward\n\nat the peak\n")
    group.write_table(GPUS)
    shares = "; ".join(
        f"{gpu.name} {gpu.attention:.2f} and {gpu.attention_backward:.2f}" for gpu in MEASURED_GPUS
    )
    print(f"\nas measured, flash attention's shares forward and backward: {shares}\n")
    group.write_table(MEASURED_GPUS)


if __name__ == "__main__":
    main()
