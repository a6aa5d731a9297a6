"""The time that losses take on GPUs by the model that the runtime plans by, beside their memory.

Run: python -m tests.bench.roofline [--measured FILE]

Arithmetic, not a measurement: every launch takes its arithmetic, its bytes and a launch's time, one
after the other (`memlint_runtime.losses.cost`). Loss and all gradients, the head trained, bf16.
Chunks and tiles are those that the runtime plans.

ours               at the default workspace, at the smallest within which it takes at most 1.25
                   of cut-cross-entropy's time, in steps of 16 MiB, and at 64 MiB.
cut-cross-entropy  four matmuls in Triton, the logits never in memory, gradients zeroed first. Its
                   default skips the two matmuls of a gradient's block whose entries are all below a
                   threshold: how many depends on the data. FILTERED is the share that its authors'
                   run (Gemma-2 2B on an instruction data set, A100) still took; "exact" skips none.
Liger              chunks of tokens, gradients in the forward, three matmuls, bf16 logits in memory.
torch chunked      `linear_cross_entropy` with options: the same, chunks half as large ("auto").
plain              three matmuls, whole logits in bf16 and float32, log-softmax, and back.

FILE: JSON lines with `kernel` or `id`, `dims`, `gpu`, `speed_ms`; the model's error is printed for
every time in it of a shape, a GPU and a way that the model knows.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

import torch
from memlint_runtime.losses import cost, statistics
from memlint_runtime.losses.cost import RATES, Rates
from memlint_runtime.losses.in_forward import ChunkPlan, plan_chunks
from memlint_runtime.losses.passes import default_workspace_bytes
from memlint_runtime.losses.planning import plan_tiling
from memlint_runtime.losses.tile_ops import LogitTransform
from memlint_runtime.losses.tiles import Head
from torch._subclasses.fake_tensor import FakeTensorMode

from tests.bench import shared_prompt_roofline
from tests.bench.roofline_gpus import GPUS, MEASURED_GPUS

MIB = 2**20
MODELS = {
    "Llama-3 8B": (128_256, 4096), "Gemma-2 2B": (256_000, 2304), "Qwen3 8B": (151_936, 4096)
}  # fmt: skip
TOKENS = (8192, 32_768)
MOST = 1.25
# Shares of the peak that cut-cross-entropy's matmuls reach: in its authors' run, and in its forward
# pass on an H200.
KERNELS = {"A100": 0.68, "H100": 0.55, "H200": 0.55, "B200": 0.55}
# Gemma-2 2B, A100: backward 89.3 ms, of which the logits take as long as the forward's 46.4; two
# matmuls without a filter would take twice that.
FILTERED = (89.3 - 46.4) / (2 * 46.4)


@dataclass(frozen=True)
class Answer:
    """Seconds, and bytes beside hidden states and head: gradients and what a way holds besides."""

    seconds: float
    bytes: int
    plan: str = ""


def _gradients(vocabulary: int, width: int, tokens: int) -> int:
    return 2 * width * (vocabulary + tokens)


def ours(
    rates: Rates, vocabulary: int, width: int, tokens: int, workspace: int | None = None
) -> Answer | None:
    """What the runtime plans within a workspace; None where it would need a fifth product."""
    with FakeTensorMode(), patch.object(statistics, "_HAS_TRITON", True):
        hidden = torch.empty(tokens, width, dtype=torch.bfloat16, device="cuda")
        weight = torch.empty(vocabulary, width, dtype=torch.bfloat16, device="cuda")
        transform = LogitTransform()
        head = Head((hidden,), (weight,), None, transform, torch.bfloat16, half_logits=True)
        if workspace is None:
            workspace = default_workspace_bytes(
                tokens, width, torch.bfloat16, vocabulary=vocabulary, device="cuda"
            )
        with patch.object(cost, "rates_of", lambda device: rates):
            chunks = plan_chunks(head, workspace, [True])
        held = _gradients(vocabulary, width, tokens) + workspace
        shape = tokens, vocabulary, width
        if chunks is not None:
            return Answer(_chunked(rates, shape, chunks), held, _told(tokens, chunks))
        try:
            forward, backward = (
                plan_tiling(head, workspace, outer, scratch=1) for outer in ("tokens", "vocabulary")
            )
        except ValueError:
            return None
        sizes = [(tiling.tokens, tiling.vocabulary) for tiling in (forward, backward)]
        seconds = cost.four(rates, *shape, 2, forward=sizes[0], backward=sizes[1])
        return Answer(seconds, held, f"4 products, tiles {sizes[1][0]}x{sizes[1][1]}")


def _chunked(rates: Rates, shape: tuple[int, int, int], plan: ChunkPlan) -> float:
    return cost.three(rates, *shape, rows=plan.rows, sums_bytes=4 if plan.sums else 2)


def _told(tokens: int, plan: ChunkPlan) -> str:
    sums = ", float32 sums" if plan.sums else ""
    return f"3 products, {math.ceil(tokens / plan.rows)} chunks of {plan.rows}{sums}"


def smallest(rates: Rates, vocabulary: int, width: int, tokens: int) -> Answer:
    """Ours at the least workspace within which it takes at most MOST of cut-cross-entropy."""
    most = MOST * cut_cross_entropy(rates, vocabulary, width, tokens).seconds
    for step in range(1, 256):
        answer = ours(rates, vocabulary, width, tokens, 16 * MIB * step)
        if answer is not None and answer.seconds <= most:
            return answer
    raise AssertionError("no workspace is enough")


def cut_cross_entropy(
    rates: Rates, vocabulary: int, width: int, tokens: int, *, kept: float = FILTERED
) -> Answer:
    flops, inputs = 2 * tokens * vocabulary * width, 2 * width * (tokens + vocabulary)
    forward = _in_kernel(rates, flops, inputs) + rates.copy(4 * tokens * width)
    # Its gradients are sums in half precision: zeros, then a read and a write of each at the least.
    backward = _in_kernel(rates, (1 + 2 * kept) * flops, 3 * inputs)
    seconds = forward + rates.copy(inputs) + backward
    return Answer(seconds, _gradients(vocabulary, width, tokens))


def _in_kernel(rates: Rates, flops: float, moved: float) -> float:
    """Seconds of a matmul within a Triton kernel that goes on with its result."""
    return flops / (rates.flops * KERNELS.get(rates.name, KERNELS["A100"])) + rates.copy(moved)


def exact(rates: Rates, vocabulary: int, width: int, tokens: int) -> Answer:
    return cut_cross_entropy(rates, vocabulary, width, tokens, kept=1.0)


def _by_aspect(
    rates: Rates, vocabulary: int, width: int, tokens: int, *, divided: int = 1, sums_bytes: int = 2
) -> Answer:
    """Chunks whose logits are as large as the hidden states, or a part of them."""
    rows = 2 ** math.ceil(math.log2(math.ceil(tokens / math.ceil(vocabulary / width))))
    rows = max(rows // divided, 1)
    shape = tokens, vocabulary, width
    seconds = cost.three(rates, *shape, rows=rows, sums_bytes=sums_bytes)
    held = _gradients(vocabulary, width, tokens) + 2 * rows * vocabulary
    return Answer(seconds, held + (4 * vocabulary * width if sums_bytes == 4 else 0))


def liger(rates: Rates, vocabulary: int, width: int, tokens: int) -> Answer:
    return _by_aspect(rates, vocabulary, width, tokens)


def torch_chunked(rates: Rates, vocabulary: int, width: int, tokens: int) -> Answer:
    return _by_aspect(rates, vocabulary, width, tokens, divided=2)


def plain(rates: Rates, vocabulary: int, width: int, tokens: int) -> Answer:
    flops, entries = 2 * tokens * vocabulary * width, tokens * vocabulary
    inputs = 2 * width * (tokens + vocabulary)
    # bf16 to float32, log-softmax, its gradient, and that to bf16.
    passes = sum(rates.copy(moved * entries) for moved in (6, 8, 12, 6))
    seconds = 3 * rates.product(flops, inputs + 2 * entries) + passes
    return Answer(seconds, _gradients(vocabulary, width, tokens) + 12 * entries)


Way = Callable[[Rates, int, int, int], Answer]
PEERS: dict[str, Way] = {
    "plain": plain, "torch chunked": torch_chunked, "Liger": liger,
    "cut-cross-entropy": cut_cross_entropy,
}  # fmt: skip
_LOSSES = ("linear_cross_entropy", "linear cross entropy")
_PROVIDERS = {"cce": "cut-cross-entropy", "liger": "Liger", "baseline": "plain",
              "huggingface": "plain"}  # fmt: skip


def measured(file: Path) -> list[tuple[str, Rates, tuple[int, int, int], float, bool]]:
    """Way, GPU, shape, milliseconds of loss and gradients, and whether its logits are capped."""
    found = []
    for line in file.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        dims, way = row.get("dims") or {}, _PROVIDERS.get(row.get("provider"))
        shape = dims.get("V"), dims.get("H"), dims.get("BT", dims.get("tokens"))
        rates = next((rates for rates in RATES if rates.name in row.get("gpu", "")), None)
        times = row.get("speed_ms") or {}
        time = times.get("loss-fw-bw", times.get("full"))
        is_loss = row.get("kernel", "").removeprefix("fused_").startswith(_LOSSES)
        if way and is_loss and rates and time and None not in shape:
            found.append((way, rates, shape, time, "softcap" in dims))
    return found


def write_errors(file: Path) -> None:
    print("| way | GPU | head, tokens | measured ms | by the model | error |")
    print("| --- " * 6 + "|")
    for way, rates, (vocabulary, width, tokens), time, capped in measured(file):
        predicted = 1e3 * PEERS[way](rates, vocabulary, width, tokens).seconds
        told = f"{vocabulary:,} x {width:,}, {tokens:,}" + (", soft cap" if capped else "")
        error = f"{predicted / time - 1:+.1%}"
        print(f"| {way} | {rates.name} | {told} | {time:.1f} | {predicted:.1f} | {error} |")


def write_table() -> None:
    names = [*PEERS, "exact", "ours", "ours, smallest"]
    columns = [
        "model",
        "tokens",
        "GPU",
        *names,
        "ours of the best",
        "smallest of cut-cross-entropy",
        "at 64 MiB",
    ]
    print("| " + " | ".join(columns) + " |")
    print("| --- " * len(columns) + "|")
    for rates, (model, vocabulary, width, tokens) in _cases():
        shape = rates, vocabulary, width, tokens
        peers = {name: run(*shape) for name, run in PEERS.items()}
        default, least = ours(*shape), smallest(*shape)
        assert default is not None
        answers = [*peers.values(), exact(*shape), default, least]
        cells = [model, f"{tokens:,}", rates.name]
        cells += [f"{1e3 * answer.seconds:.1f}" for answer in answers]
        best = min(answer.seconds for answer in peers.values())
        cut = peers["cut-cross-entropy"]
        cells.append(f"{default.seconds / best:.3f}")
        for answer in (least, ours(*shape, 64 * MIB)):
            assert answer is not None
            cells.append(_beside(answer, cut))
        print("| " + " | ".join(cells) + " |")


def _beside(answer: Answer, other: Answer) -> str:
    return f"{answer.seconds / other.seconds:.2f}, memory {answer.bytes / other.bytes:.2f}"


def _cases() -> Iterator[tuple[Rates, tuple[str, int, int, int]]]:
    for model, (vocabulary, width) in MODELS.items():
        for tokens in TOKENS:
            for rates in RATES:
                yield rates, (model, vocabulary, width, tokens)


def write_memory() -> None:
    """Of each way beside hidden states and head, and our plan at the default."""
    columns = ["model", "tokens", *PEERS, "ours", "of cut-cross-entropy", "plan"]
    print("| " + " | ".join(columns) + " |")
    print("| --- " * len(columns) + "|")
    for rates, (model, vocabulary, width, tokens) in _cases():
        if rates is not RATES[1]:
            continue
        shape = rates, vocabulary, width, tokens
        default = ours(*shape)
        assert default is not None
        answers = [*(run(*shape) for run in PEERS.values()), default]
        cells = [model, f"{tokens:,}", *(f"{answer.bytes / MIB:,.0f}" for answer in answers)]
        ratio = default.bytes / _gradients(vocabulary, width, tokens)
        print("| " + " | ".join([*cells, f"{ratio:.2f}", default.plan]) + " |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--measured", type=Path)
    file = parser.parse_args().measured
    print("milliseconds of loss and gradients, by the model\n")
    write_table()
    print("\nMiB beside hidden states and head, gradients included\n")
    write_memory()
    if file is not None:
        print("\nthe model beside published times\n")
        write_errors(file)
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
