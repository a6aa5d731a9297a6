"""Parts of a head's weight where the hidden states are, also if the weight is on the host.

Weights that are streamed (`memlint_runtime.stream_frozen_weights`) carry a source of tiles, which
fetches the next tile while one is multiplied. Others that are elsewhere are copied part by part.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

__all__ = ["TILE_SOURCE", "TileSource", "is_remote", "weight_rows", "weight_tile"]

# On the weight of a head: what gives its parts.
TILE_SOURCE = "memlint_tile_source"


class TileSource(Protocol):
    """Gives parts of a weight `[V, D]` on a device."""

    def tile(self, vocabulary: slice, device: torch.device) -> Tensor:
        """`[v, D]` of consecutive entries."""
        ...

    def rows(self, entries: Tensor, device: torch.device) -> Tensor:
        """`[t, D]` of single entries."""
        ...


def is_remote(weight: Tensor) -> bool:
    """True if parts of the weight come from elsewhere."""
    return getattr(weight, TILE_SOURCE, None) is not None


def weight_tile(weight: Tensor, vocabulary: slice, device: torch.device) -> Tensor:
    """`weight[vocabulary]` on `device`."""
    source: TileSource | None = getattr(weight, TILE_SOURCE, None)
    if source is not None:
        return source.tile(vocabulary, device)
    return weight[vocabulary].to(device)


def weight_rows(weight: Tensor, entries: Tensor, device: torch.device) -> Tensor:
    """`weight[entries]` on `device`."""
    source: TileSource | None = getattr(weight, TILE_SOURCE, None)
    if source is not None:
        return source.rows(entries, device)
    return weight.index_select(0, entries.to(weight.device)).to(device)
