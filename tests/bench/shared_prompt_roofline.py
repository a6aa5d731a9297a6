"""Forward and backward of a group with its prompt shared and with it repeated, at the least.

Printed by python -m tests.bench.roofline; the rules are those told there. A group of G=16
completions of C=256 tokens of one prompt of P=5,000, Qwen2.5-7B, checkpointed, head included;
neither generation nor the optimizer's step. Both ways counted by the same functions: matmuls,
attention calls, the kernels between them and the head. The runs and looks back are those that the
runtime plans for the group. TRL's way: G rows of P + C tokens, one causal call a layer.

Attention: PyTorch's flash kernels, 4 x pairs x width operations forward and 10 backward, pairs
above the diagonal left out; backward's float32 sums of the queries' gradient and, where query heads
share a key head, the gradients of each before they are summed.
Between matmuls every tensor is read and written once (norms, rotation, gated activation, sums):
the least that fusing leaves, and the same for each token of both ways.
Shared only: merging the look back into the runs' output (one Triton kernel, 6 bytes an entry; "by
PyTorch" 34), and adding the two parts' gradients.
Head: G x C tokens on both sides, as TRL computes it: logits of each chunk made twice, four matmuls.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import torch
from memlint_runtime.attention.kernels.flash import CpuRuns
from memlint_runtime.attention.kernels.joined import Part
from memlint_runtime.attention.plan import plan_runs
from memlint_runtime.shared_prompt.layout import build_tree

from tests.bench.roofline_gpus import Gpu

P, C, G = 5000, 256, 16
RHO = G * (P + C) / (P + G * C)
LAYERS, WIDTH, INNER, VOCABULARY = 28, 3584, 18_944, 152_064
HEADS, KEY_HEADS, DIMENSION = 28, 4, 128
QUERY, KEY = HEADS * DIMENSION, KEY_HEADS * DIMENSION
MATMULS = (
    (WIDTH, QUERY), (WIDTH, KEY), (WIDTH, KEY), (QUERY, WIDTH),
    (WIDTH, INNER), (WIDTH, INNER), (INNER, WIDTH),
)  # fmt: skip
# Bytes of a token between the matmuls of a layer: norms, rotation, activation, residual sums.
BETWEEN = 2 * 4 * WIDTH + 4 * (QUERY + KEY) + 6 * INNER + 2 * 6 * WIDTH
MERGED, MERGED_BY_PYTORCH = 6, 34


@dataclass(frozen=True)
class Call:
    """One attention call: query tokens, key tokens, and pairs of them that it weighs."""

    queries: int
    keys: int
    pairs: float

    def forward(self, gpu: Gpu) -> float:
        moved = 4 * self.queries * QUERY + 4 * self.keys * KEY
        return gpu.attention_seconds(4 * self.pairs * QUERY, moved)

    def backward(self, gpu: Gpu) -> float:
        q, k = self.queries * QUERY, self.keys * QUERY
        time = gpu.seconds(0, 4 * q)  # each output times its gradient, summed
        time += gpu.seconds(0, 4 * q) + gpu.seconds(0, 6 * q)  # float32 sums: zeroed, rounded
        time += gpu.attention_seconds(10 * self.pairs * QUERY, 12 * q + 4 * k, backward=True)
        return time + 2 * gpu.seconds(0, 2 * k + 2 * self.keys * KEY)  # query heads' parts summed


@dataclass(frozen=True)
class Way:
    """A layer's calls for all tokens, and what merging the calls moves."""

    tokens: int
    calls: tuple[Call, ...]
    merged_tokens: int = 0
    looked_at: int = 0

    def merging(self, gpu: Gpu, entry_bytes: int) -> tuple[float, float]:
        """Forward and backward."""
        if not self.merged_tokens:
            return 0.0, 0.0
        moved = self.merged_tokens * (entry_bytes * QUERY + 12 * HEADS)
        adding = gpu.seconds(0, 6 * self.merged_tokens * QUERY)
        adding += 2 * gpu.seconds(0, 6 * self.looked_at * KEY)
        return gpu.seconds(0, moved), adding


def shared() -> Way:
    prompt = torch.arange(P).repeat(G, 1)
    ids = torch.cat([prompt, torch.arange(P, P + G * C).view(G, C)], 1)
    tree = build_tree(ids, torch.ones_like(ids), torch.arange(P + C).repeat(G, 1) >= P)
    return _way_of(plan_runs(tree, torch.device("cpu")), tree.num_tokens)


def _way_of(plan: tuple[Part, ...], tokens: int) -> Way:
    nodes, _ = _bounds(plan[0])
    own = Call(tokens, tokens, sum((b - a) ** 2 / 2 for a, b in pairwise(nodes)))
    looks = []
    for level in plan[1:]:
        queries, keys = _bounds(level)
        runs = zip(pairwise(queries), pairwise(keys), strict=True)
        pairs = sum((b - a) * (d - c) for (a, b), (c, d) in runs)
        looks.append(Call(queries[-1], keys[-1], pairs))
    return Way(
        tokens,
        (own, *looks),
        sum(look.queries for look in looks),
        sum(look.keys for look in looks),
    )


def _bounds(part: Part) -> tuple[tuple[int, ...], tuple[int, ...]]:
    assert isinstance(part.kernel, CpuRuns)
    return part.kernel.queries.bounds or (), part.kernel.keys.bounds or ()


def repeated() -> Way:
    tokens = G * (P + C)
    return Way(tokens, (Call(tokens, tokens, G * (P + C) ** 2 / 2),))


def parts(gpu: Gpu, way: Way, *, lora: bool, entry_bytes: int) -> dict[str, float]:
    """Seconds of a group's forward and backward by what takes them."""
    matmul = sum(
        gpu.seconds(2 * way.tokens * a * b, 2 * (way.tokens * (a + b) + a * b)) for a, b in MATMULS
    )
    between = gpu.seconds(0, BETWEEN * way.tokens)
    attention = sum(call.forward(gpu) for call in way.calls)
    backward = sum(call.backward(gpu) for call in way.calls)
    merge, adding = way.merging(gpu, entry_bytes)
    # Checkpointed: each layer's forward twice. A frozen weight needs one matmul of backward's two.
    return {
        "matmuls": LAYERS * matmul * (3 if lora else 4),
        "attention": LAYERS * (2 * attention + backward),
        "merging": LAYERS * (2 * merge + adding),
        "between": LAYERS * 4 * between,
        "head": head(gpu, lora=lora),
    }


def head(gpu: Gpu, *, lora: bool) -> float:
    tokens = G * C
    entries, inputs = tokens * VOCABULARY, 2 * WIDTH * (tokens + VOCABULARY)
    matmul = gpu.seconds(2 * entries * WIDTH, inputs + 2 * entries)
    # Logits of either pass read, their gradient written.
    return matmul * (3 if lora else 4) + gpu.seconds(0, 2 * entries) + gpu.seconds(0, 4 * entries)


def write_table(gpus: tuple[Gpu, ...]) -> None:
    names = ("matmuls", "attention", "merging", "between", "head")
    print("| trained | GPU | path | " + " | ".join(names) + " | total | of rho | by PyTorch |")
    print("| --- " * (len(names) + 6) + "|")
    ways = {"TRL": repeated(), "ours": shared()}
    for lora in (False, True):
        for gpu in gpus:
            theirs = sum(parts(gpu, ways["TRL"], lora=lora, entry_bytes=0).values())
            for name, way in ways.items():
                found = parts(gpu, way, lora=lora, entry_bytes=MERGED)
                total = sum(found.values())
                slow = sum(parts(gpu, way, lora=lora, entry_bytes=MERGED_BY_PYTORCH).values())
                cells = " | ".join(f"{1e3 * found[part]:.1f}" for part in names)
                ratios = [f"{theirs / each / RHO:.3f}" for each in (total, slow)]
                print(
                    f"| {'LoRA' if lora else 'all'} | {gpu.name} | {name} | {cells} | "
                    f"{1e3 * total:.1f} | {' | '.join(ratios if name == 'ours' else ['', ''])} |"
                )
