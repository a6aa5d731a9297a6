"""Reused blocks of host memory for tensors that leave the device.

Pinning memory costs about a millisecond per 4 MiB, so blocks are kept from step to step. Their
sizes are powers of two, `BLOCK_BYTES` at most, and a larger tensor takes several: sequences of ever
new lengths then reuse the same few kinds of blocks instead of adding one for each length, and
torch's own cache of pinned memory, which rounds up to powers of two, wastes nothing on top.
Cost: up to half of the last block of a tensor is unused.

Named hazard, with a test that breaks without its guard:
- Blocks come back where the garbage collector runs, in any thread and within any statement here:
  they are put on a queue, and counted when blocks are taken or asked about.
"""

from __future__ import annotations

from collections import defaultdict, deque

import torch
from torch import Tensor

__all__ = ["BLOCK_BYTES", "HostPool"]

BLOCK_BYTES = 16 * 2**20


class HostPool:
    """Hands out uint8 blocks on `host` and takes them back.

    Args:
        host: where the blocks live.
        pin: page-locked memory, which copies on a stream need; only on a machine with a GPU.
    """

    def __init__(self, host: torch.device | str = "cpu", *, pin: bool = False) -> None:
        self.host = torch.device(host)
        self.pin = pin
        self.allocated_bytes = 0
        self._taken_bytes = 0
        self._returned: deque[tuple[tuple[Tensor, ...], torch.device]] = deque()
        self._free: defaultdict[tuple[torch.device, int], list[Tensor]] = defaultdict(list)

    def take(self, num_bytes: int, device: torch.device) -> tuple[Tensor, ...]:
        """Blocks that together hold at least `num_bytes`: full ones, then a smaller one.

        A block serves one device for ever: its stream keeps one use of it behind the other.
        """
        full, rest = divmod(num_bytes, BLOCK_BYTES)
        sizes = [BLOCK_BYTES] * full
        if rest:
            sizes.append(1 << (rest - 1).bit_length())
        self._sort()
        wanted = sum(sizes)
        self._taken_bytes += wanted
        return tuple(self._take_block(size, device) for size in sizes)

    def give(self, blocks: tuple[Tensor, ...], device: torch.device) -> None:
        """Take blocks of `device` back. Copies into and out of them may still be under way."""
        self._returned.append((blocks, device))

    @property
    def used_bytes(self) -> int:
        """Bytes of the blocks that are out."""
        self._sort()
        return self._taken_bytes

    def _sort(self) -> None:
        """Count what came back, and make it ready to be taken."""
        while True:
            try:
                blocks, device = self._returned.popleft()
            except IndexError:
                return
            for block in blocks:
                self._taken_bytes -= block.numel()
                self._free[device, block.numel()].append(block)

    def _take_block(self, num_bytes: int, device: torch.device) -> Tensor:
        free = self._free[device, num_bytes]
        if free:
            return free.pop()
        self.allocated_bytes += num_bytes
        return torch.empty(num_bytes, dtype=torch.uint8, device=self.host, pin_memory=self.pin)
