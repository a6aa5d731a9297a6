"""Which blocks are on the device, and which come next: a ring of buffers, bounded in bytes.

When a block is used, the ones that are expected after it start to arrive, in the place of those
that are needed latest. A copy waits for what the computation has been given so far, so that a
buffer is not written while a kernel reads it; the block then computes beside that copy.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from memlint_runtime.device_copies import Copies, copies_for
from memlint_runtime.streaming.blocks import Block, RingMemory
from memlint_runtime.streaming.order import Order, Phase
from memlint_runtime.streaming.store import Store

__all__ = ["Ring"]


class Ring:
    """Brings blocks to the device and takes them away.

    capacity_bytes: of all resident blocks together. One block that is larger is resident alone.
    default_device: where a block computes that has no tensor of its own there.
    copies: how bytes travel; by default side streams where the device has them.
    store: where the blocks wait.
    fetched_bytes, fetches: since the beginning. peak_bytes: most that were resident.
    """

    def __init__(
        self,
        blocks: list[Block],
        capacity_bytes: int,
        default_device: Callable[[], torch.device],
        copies: Copies | None,
        store: Store,
    ) -> None:
        self.blocks = blocks
        self.capacity_bytes = capacity_bytes
        self.default_device = default_device
        self.order = Order(len(blocks))
        self.active: Block | None = None
        self.fetched_bytes = 0
        self.fetches = 0
        self.peak_bytes = 0
        self._copies = copies
        self._copies_by_type: dict[str, Copies] = {}
        self.store = store
        self.memory = RingMemory()
        self._phase: Phase | None = None

    @property
    def resident_bytes(self) -> int:
        return sum(block.num_bytes for block in self.blocks if block.resident)

    def use(self, block: Block, phase: Phase) -> None:
        """Have the weights of `block` on the device, and those that follow on their way."""
        if block is self.active and phase == self._phase and block.on_device:
            block.arrive()  # on another stream, perhaps
            return
        if self.active is not None and self.active is not block:
            self.active.go_home()
        self.active, self._phase = block, phase
        self.order.note((block.index, phase))
        if not block.resident:
            self._fetch(block, keep=[])
        block.use()
        self.fetch_ahead()

    def fetch_ahead(self) -> None:
        """Start what is expected next, as far as it fits; have read what comes after that."""
        keep = [] if self.active is None else [self.active]
        upcoming = [self.blocks[index] for index in self._upcoming()]
        for place, block in enumerate(upcoming):
            if sum(kept.num_bytes for kept in keep) + block.num_bytes > self.capacity_bytes:
                self.store.read_ahead((each, 0, each.num_bytes) for each in upcoming[place:])
                return
            if not block.resident:
                self._fetch(block, keep)
            keep.append(block)

    def leave(self) -> None:
        """Make the active block's parameters hold the host's memory."""
        if self.active is not None:
            self.active.go_home()

    def release_all(self) -> None:
        """Give all memory on the device back."""
        for block in self.blocks:
            block.release()
        self.active = None

    def _fetch(self, block: Block, keep: list[Block]) -> None:
        self._make_room(block.num_bytes, keep)
        device = block.device(self.default_device())
        block.fetch(device, self.copies_on(device), self.memory)
        self.fetches += 1
        self.fetched_bytes += block.num_bytes
        self.peak_bytes = max(self.peak_bytes, self.resident_bytes)

    def _make_room(self, num_bytes: int, keep: list[Block]) -> None:
        resident = [each for each in self.blocks if each.resident and each not in keep]
        held = self.resident_bytes
        soon = {index: place for place, index in enumerate(self._upcoming())}
        # What is needed latest goes first; what nobody expects, before that.
        resident.sort(key=lambda each: -soon.get(each.index, len(self.blocks)))
        for other in resident:
            if held + num_bytes <= self.capacity_bytes:
                return
            other.release()
            held -= other.num_bytes

    def _upcoming(self) -> list[int]:
        present = None if self.active is None else self.active.index
        return self.order.upcoming(len(self.blocks), present)

    def copies_on(self, device: torch.device) -> Copies:
        """How bytes travel to and from `device`."""
        if self._copies is not None:
            return self._copies
        if device.type not in self._copies_by_type:
            self._copies_by_type[device.type] = copies_for(device.type)
        return self._copies_by_type[device.type]
