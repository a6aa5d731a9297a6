"""What the ways to a loss's gradients take: one model of products, bytes and launches.

What: a launch takes its arithmetic, its bytes and LAUNCH_SECONDS, one after the other. `three` and
`four` count the launches of the two plans that train a head; the runtime takes the shorter one
within the workspace, and `python -m tests.bench.roofline` prints both beside other libraries.
Source: shares of the peaks that published runs reached on an A100, fitted to eight times of the
plain loss and of Liger-Kernel at 128,256 x 4,096 (root mean square of the errors 4 %). Hopper's are
fitted to 36 times of `three`'s plans and of Liger-Kernel on an H100 and an H200 with torch 2.11
(`python -m tests.gpu --only losses_heads`; 4 %, and 7 % without `tile`). They stand in for the
B200, the A100's for the rest.

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
    """Dense bf16 peak, the memory's rate, and the shares that products and copies reach of them.

    apart: share of a library product's bytes that do not move while it computes.
    tile: tokens that such a product computes at once; fewer take as long.
    """

    name: str
    flops: float
    bytes_per_second: float
    library: float = 0.91
    memory: float = 0.90
    apart: float = 1.0
    tile: int = 128

    def product(self, flops: float, moved: float) -> float:
        """Seconds of a product by the vendor's library."""
        return flops / (self.flops * self.library) + self.copy(self.apart * moved)

    def copy(self, moved: float) -> float:
        """Seconds of a launch that moves so many bytes."""
        return moved / (self.bytes_per_second * self.memory) + LAUNCH_SECONDS


_HOPPER = 0.72, 0.90, 0.5, 256
RATES = (
    Rates("A100", 312e12, 2.04e12), Rates("H100", 989e12, 3.35e12, *_HOPPER),
    Rates("H200", 989e12, 4.8e12, *_HOPPER), Rates("B200", 2250e12, 8e12, *_HOPPER),
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
    tiles = T // rows * math.ceil(rows / rates.tile) + math.ceil(T % rows / rates.tile)
    mean = T / chunks
    entries, flops = mean * V, 2 * tiles * rates.tile / chunks * V * D
    head, hidden = 2 * V * D, 2 * mean * D
    # Logits, their softmax, their gradient over them.
    seconds = rates.product(flops, head + hidden + 2 * entries) + rates.copy(6 * entries)
    seconds += rates.product(flops, head + hidden + 2 * entries)
    added = rates.product(2 * entries * D, 2 * sums_bytes * V * D + hidden + 2 * entries)
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
