"""torch's caching allocator: what a sequence of allocations reserves from the GPU.

The rules of ``c10/cuda/CUDACachingAllocator.cpp``: sizes are rounded up to 512 bytes; those up to
1 MiB come from segments of 2 MiB, those under 10 MiB from segments of 20 MiB, larger ones from
segments of their own size in steps of 2 MiB. A request takes the smallest free block that holds
it, and splits it where the rest is worth keeping; freed blocks merge with free neighbours of
their segment. Segments go back to the GPU only when it is full.
"""

from __future__ import annotations

from bisect import bisect_left, insort

from memlint.source.record import slotted

_SMALL = 2**20
_SMALL_SEGMENT = 2 * 2**20
_MIDDLE = 10 * 2**20
_MIDDLE_SEGMENT = 20 * 2**20
_STEP = 2 * 2**20
_ROUND = 512


@slotted
class Block:
    """A stretch of a segment, free or in use."""

    size: int
    small: bool
    order: int
    free: bool = False
    before: Block | None = None
    after: Block | None = None


class CachingAllocator:
    """Counts reserved bytes over a sequence of ``allocate`` and ``release``."""

    def __init__(self, capacity: int = 0) -> None:
        self.capacity = capacity
        self.reserved = 0
        self.peak_reserved = 0
        self.allocated = 0
        self.peak_allocated = 0
        self._free: dict[bool, list[tuple[int, int, Block]]] = {True: [], False: []}
        self._blocks: dict[object, Block] = {}
        self._order = 0

    def allocate(self, key: object, size: int) -> None:
        """Hand out ``size`` bytes under a name."""
        size = max(-(-size // _ROUND) * _ROUND, _ROUND)
        small = size <= _SMALL
        free = self._free[small]
        index = bisect_left(free, (size,))
        if index < len(free):
            block = free.pop(index)[2]
            block.free = False
        else:
            block = self._segment(size, small)
        rest = block.size - size
        if rest >= _ROUND if small else rest > _SMALL:
            self._split(block, size)
        self._blocks[key] = block
        self.allocated += block.size
        self.peak_allocated = max(self.peak_allocated, self.allocated)

    def release(self, key: object) -> None:
        """Give a named allocation back to the cache."""
        block = self._blocks.pop(key, None)
        if block is None:
            return
        self.allocated -= block.size
        block.free = True
        before, after = block.before, block.after
        if before is not None and before.free:
            self._unlist(before)
            before.size += block.size
            before.after = after
            if after is not None:
                after.before = before
            block = before
        if after is not None and after.free:
            self._unlist(after)
            block.size += after.size
            block.after = after.after
            if after.after is not None:
                after.after.before = block
        insort(self._free[block.small], (block.size, block.order, block))

    def _unlist(self, block: Block) -> None:
        free = self._free[block.small]
        index = bisect_left(free, (block.size, block.order))
        free.pop(index)

    def _segment(self, size: int, small: bool) -> Block:
        if small:
            whole = _SMALL_SEGMENT
        elif size < _MIDDLE:
            whole = _MIDDLE_SEGMENT
        else:
            whole = -(-size // _STEP) * _STEP
        if self.capacity and self.reserved + whole > self.capacity:
            self._give_back()
        self.reserved += whole
        self.peak_reserved = max(self.peak_reserved, self.reserved)
        self._order += 1
        return Block(whole, small, self._order)

    def _split(self, block: Block, size: int) -> None:
        self._order += 1
        rest = Block(block.size - size, block.small, self._order)
        rest.free = True
        rest.before = block
        rest.after = block.after
        if block.after is not None:
            block.after.before = rest
        block.after = rest
        block.size = size
        insort(self._free[rest.small], (rest.size, rest.order, rest))

    def _give_back(self) -> None:
        """Release the segments that are wholly free."""
        for small, free in self._free.items():
            kept: list[tuple[int, int, Block]] = []
            for entry in free:
                block = entry[2]
                if block.before is None and block.after is None:
                    self.reserved -= block.size
                else:
                    kept.append(entry)
            self._free[small] = kept
