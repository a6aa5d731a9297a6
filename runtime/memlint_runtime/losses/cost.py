"""What the ways to a loss's gradients take: one model of products, bytes and launches.

What: a launch takes its arithmetic, its bytes and LAUNCH_SECONDS, one after the other. `three` and
`four` count the launches of the two plans that train a head; the runtime takes the shorter one
within the workspace, and `python -m tests.bench.roofline` prints both beside other libraries.
Source: shares of the peaks that published runs reached on an A100, fitted to eight times of the
plain loss and of Liger-Kernel at 128,256 x 4,096 (root mean square of the errors 4 %); `kernel` is
of matmuls within other libraries' Triton kernels. Hopper's were measured on an H200 with torch 2.11
(`python -m tests.gpu --only losses_rates --only losses_heads_8k`): 672 to 701 of 989 TFLOP/s, and
cut-cross-entropy's forward. For other GPUs the A100's shares stand in.

Shapes: T tokens, V vocabulary, D hidden size, t and v their tiles.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import torch

LAUNCH_SECONDS = 4e-6
# Tokens and vocabulary entries.
Tile = tuple[int, int]
# What the host needs for a tile.
_HOST_SECONDS = 45e-6


@dataclass(frozen=True)
class Rates:
    """Dense bf16 peak, the memory's rate, and the shares that products and copies reach of them."""

    name: str
    flops: float
    bytes_per_second: float
    library: float = 0.91
    kernel: float = 0.68
    memory: float = 0.90

    def product(self, flops: float, moved: float, *, in_kernel: bool = False) -> float:
        """Seconds of a product; `in_kernel`: within a Triton kernel that goes on with it."""
        share = self.kernel if in_kernel else self.library
        return flops / (self.flops * share) + self.copy(moved)

    def copy(self, moved: float) -> float:
        """Seconds of a launch that moves so many bytes."""
        return moved / (self.bytes_per_second * self.memory) + LAUNCH_SECONDS


_HOPPER = 0.70, 0.55
RATES = (
    Rates("A100", 312e12, 2.04e12), Rates("H100", 989e12, 3.35e12, *_HOPPER),
    Rates("H200", 989e12, 4.8e12, *_HOPPER), Rates("B200", 2250e12, 8e12),
    Rates("RTX 4090", 165e12, 1.008e12),
)  # fmt: skip


@functools.cache
def rates_of(device: torch.device) -> Rates:
    """The rates of a device; those of an H100 where its own are not known."""
    name = "H100"
    if device.type == "cuda" and torch.cuda.is_available():
        name = torch.cuda.get_device_name(device)
    return next((rates for rates in RATES if rates.name in name), RATES[1])


def three(rates: Rates, T: int, V: int, D: int, *, rows: int, sums_bytes: int) -> float:
    """Seconds of loss and gradients in chunks of `rows` tokens, whose logits are kept for them.

    sums_bytes: of an entry of the sums that the weights' gradients are added to.
    """
    chunks = math.ceil(T / rows)
    rows = math.ceil(T / chunks)
    entries, flops = rows * V, 2 * rows * V * D
    head, hidden = 2 * V * D, 2 * rows * D
    # Logits, their softmax, their gradient over them.
    seconds = rates.product(flops, head + hidden + 2 * entries) + rates.copy(6 * entries)
    seconds += rates.product(flops, head + hidden + 2 * entries)
    added = rates.product(flops, 2 * sums_bytes * V * D + hidden + 2 * entries)
    total = chunks * (seconds + added) - rates.copy(sums_bytes * V * D)
    if chunks > 1 and sums_bytes > 2:
        total += rates.copy((sums_bytes + 2) * V * D)
    # Backward multiplies both gradients by what it begins with.
    return total + rates.copy(4 * D * (T + V))


def four(
    rates: Rates, T: int, V: int, D: int, logit_bytes: int, *, forward: Tile, backward: Tile
) -> float:
    """Seconds of tiles whose logits are multiplied twice: with the hidden states' gradient in the
    forward pass, and with the weights' in backward."""
    seconds = 0.0
    for (t, v), outer in ((forward, "tokens"), (backward, "vocabulary")):
        t, v = min(t, T), min(v, V)
        tiles = math.ceil(T / t) * math.ceil(V / v)
        entries, flops = T * V / tiles, 2 * T * V * D / tiles
        sums = 8 * D * (t if outer == "tokens" else v)
        launches = rates.product(flops, 2 * D * (t + v) + logit_bytes * entries)
        launches += rates.copy((logit_bytes + 2) * entries)
        launches += rates.product(
            flops, 2 * entries + 2 * D * (v if outer == "tokens" else t) + sums
        )
        # Sums scaled to a new maximum.
        launches += rates.copy(sums) if outer == "tokens" else 0.0
        seconds += tiles * max(launches, _HOST_SECONDS)
    return seconds + rates.copy(8 * D * (T + V) + 6 * T * D)
