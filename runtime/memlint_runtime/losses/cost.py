"""What the ways to a loss's gradients take: one model of products, bytes and launches.

What: a launch takes its arithmetic, its bytes and LAUNCH_SECONDS, one after the other. `three` and
`four` count the launches of the two plans that train a head; the runtime takes the shorter one
within the workspace, and `python -m tests.bench.roofline` prints both beside other libraries.
Source: shares of the peaks that published runs reached on an A100, fitted to eight times of the
plain loss and of Liger-Kernel at 128,256 x 4,096 (root mean square of the errors 4 %), and the
forward of cut-cross-entropy for matmuls within Triton kernels. For other GPUs no run is known that
is a product alone: the A100's shares stand in.

Shapes: T tokens, V vocabulary, D hidden size, t and v their tiles.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import torch

LAUNCH_SECONDS = 4e-6
# What the host needs for a tile.
_HOST_SECONDS = 45e-6


@dataclass(frozen=True)
class Rates:
    """Dense bf16 peak, the memory's rate, and the shares that products and copies reach of them."""

    name: str
    capability: int
    flops: float
    bytes_per_second: float
    library: float = 0.91
    kernel: float = 0.68
    memory: float = 0.90

    def product(self, flops: float, moved: float, *, in_kernel: bool = False) -> float:
        """Seconds of a product; `in_kernel`: within a Triton kernel that goes on with it."""
        return flops / (self.flops * (self.kernel if in_kernel else self.library)) + self.copy(
            moved
        )

    def copy(self, moved: float) -> float:
        """Seconds of a launch that moves so many bytes."""
        return moved / (self.bytes_per_second * self.memory) + LAUNCH_SECONDS


RATES = (
    Rates("A100", 80, 312e12, 2.04e12), Rates("H100", 90, 989e12, 3.35e12),
    Rates("H200", 90, 989e12, 4.8e12), Rates("B200", 100, 2250e12, 8e12),
    Rates("RTX 4090", 89, 165e12, 1.008e12),
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
    rates: Rates, T: int, V: int, D: int, *, forward: tuple[int, int], backward: tuple[int, int]
) -> float:
    """Seconds of a forward that multiplies and reduces; then for each tile its gradient, and both
    products with it. forward, backward: tokens and vocabulary entries of a tile."""
    seconds = 0.0
    tiles, entries, t, v = _mean_tile(T, V, forward)
    flops = 2 * entries * D
    # A maximum and a sum for each half block, written, and read by the kernel that merges them.
    values = 8 * entries / 128
    launches = rates.product(flops, 2 * D * (t + v) + values, in_kernel=True) + rates.copy(values)
    seconds += tiles * max(launches, _HOST_SECONDS)
    tiles, entries, t, v = _mean_tile(T, V, backward)
    flops = 2 * entries * D
    launches = rates.product(flops, 2 * D * (t + v) + 2 * entries, in_kernel=True)
    # Hidden states: added to sums in float32. Weights: written, or added where tokens have tiles.
    launches += rates.product(flops, 2 * entries + 2 * D * v + 8 * t * D)
    launches += rates.product(flops, 2 * entries + 2 * D * t + (2 if t >= T else 8) * v * D)
    seconds += tiles * max(launches, _HOST_SECONDS)
    if t < T:
        seconds += rates.copy(10 * V * D)  # zeros, and their sums rounded
    return seconds + rates.copy(6 * T * D)  # the hidden states' sums rounded


def _mean_tile(T: int, V: int, tile: tuple[int, int]) -> tuple[int, float, float, float]:
    """Tiles, and the mean one's entries, tokens and vocabulary: those at the edges are smaller."""
    t = min(tile[0], T)
    tiles = math.ceil(T / t) * math.ceil(V / min(tile[1], V))
    entries = T * V / tiles
    return tiles, entries, t, entries / t
