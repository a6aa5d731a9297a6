"""An output head that stays on the host: a fused loss reads it by tiles of the vocabulary.

The next tile is on its way while one is multiplied, in forward and in backward; the device holds
two. Where logits are wanted whole (evaluation, generation, a loss that is not fused) the head comes
as a block does.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from memlint_runtime.integrations import Patch
from memlint_runtime.losses.remote_weights import TILE_SOURCE
from memlint_runtime.streaming.blocks import Block
from memlint_runtime.streaming.ring import Ring
from memlint_runtime.streaming.slots import as_bytes

__all__ = ["HeadTiles", "is_tiled_now"]

_MARK = "memlint_head_tiles"


class HeadTiles:
    """Gives parts of the head `[V, D]` to the sweeps of the losses."""

    def __init__(self, block: Block, ring: Ring, model: Any) -> None:
        self.block = block
        self.ring = ring
        self.model = model
        self.fetched_bytes = 0
        self._ahead: tuple[slice, torch.device, Tensor, Any] | None = None

    def install(self, patch: Patch) -> None:
        """Put the source of tiles where the losses look for it, until `patch` is undone."""
        head, weight = self.block.module, self.block.slots[0].parameter
        assert weight is not None
        patch.replace(head, _MARK, self)
        setattr(weight, TILE_SOURCE, self)
        patch.on_undo(lambda: delattr(weight, TILE_SOURCE))

    def tile(self, vocabulary: slice, device: torch.device) -> Tensor:
        """`[v, D]` of these entries, on `device`."""
        self.block.refresh()
        ahead, self._ahead = self._ahead, None
        if ahead is None or ahead[:2] != (vocabulary, device):
            self._drop(ahead)
            ahead = self._fetch(vocabulary, device)
        copies = self.ring.copies_on(device)
        copies.wait(ahead[3])
        following = slice(vocabulary.stop, 2 * vocabulary.stop - vocabulary.start)
        if following.start < self._whole.shape[0]:
            end = min(following.stop, self._whole.shape[0])
            self._ahead = self._fetch(slice(following.start, end), device)
        return ahead[2]

    def rows(self, entries: Tensor, device: torch.device) -> Tensor:
        """The weights `[t, D]` of single entries."""
        self.block.refresh()
        return self._whole.index_select(0, entries.to(self._whole.device)).to(device)

    def release(self) -> None:
        """Drop the tile that is on its way: a sweep that failed leaves one."""
        ahead, self._ahead = self._ahead, None
        self._drop(ahead)

    @property
    def _whole(self) -> Tensor:
        return self.block.slots[0].home

    def _fetch(
        self, vocabulary: slice, device: torch.device
    ) -> tuple[slice, torch.device, Tensor, Any]:
        part = self._whole[vocabulary]
        target = torch.empty(part.shape, dtype=part.dtype, device=device)
        store, copies = self.block.store, self.ring.copies_on(device)
        length, row = part.nbytes, self._whole[0].nbytes
        ticket = store.send(self.block, as_bytes(target), copies, vocabulary.start * row)
        end = min(vocabulary.stop * row + length, self.block.num_bytes)
        if vocabulary.stop * row < end:
            store.read_ahead([(self.block, vocabulary.stop * row, end)])
        self.fetched_bytes += length
        return vocabulary, device, target, ticket

    def _drop(self, ahead: tuple[slice, torch.device, Tensor, Any] | None) -> None:
        if ahead is not None:
            self.ring.copies_on(ahead[1]).wait(ahead[3])


def is_tiled_now(module: Any) -> bool:
    """True if `module` is a streamed head whose logits are computed tile by tile at present."""
    tiles: HeadTiles | None = vars(module).get(_MARK)
    if tiles is None:
        return False
    from memlint_runtime.losses.causal_lm import fused_loss_of
    from memlint_runtime.losses.deferred import deferred_logits_of

    fused = fused_loss_of(tiles.model)
    if fused is not None and fused.requests and not fused.requests[-1].whole:
        return fused.options.backend == "tiles"
    deferred = deferred_logits_of(tiles.model)
    return deferred is not None and not deferred.generating
