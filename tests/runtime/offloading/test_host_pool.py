"""Blocks that come back at any moment, as the garbage collector gives them."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import torch
from memlint_runtime.host_pool import BLOCK_BYTES, HostPool
from torch import Tensor

CPU = torch.device("cpu")


def test_blocks_are_reused_and_counted() -> None:
    pool = HostPool()
    blocks = pool.take(BLOCK_BYTES + 3, CPU)
    assert [block.numel() for block in blocks] == [BLOCK_BYTES, 4]
    assert pool.used_bytes == pool.allocated_bytes == BLOCK_BYTES + 4
    pool.give(blocks, CPU)
    assert pool.used_bytes == 0
    again = pool.take(BLOCK_BYTES + 3, CPU)
    assert [block.data_ptr() for block in again] == [block.data_ptr() for block in blocks]
    assert pool.allocated_bytes == BLOCK_BYTES + 4


def test_blocks_that_come_back_while_others_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the middle of a statement of `take`, where a collection may begin."""
    pool = HostPool()
    held = [pool.take(8, CPU) for _ in range(3)]
    allocate = torch.empty

    def collecting(*size: Any, **options: Any) -> Tensor:
        if held:
            pool.give(held.pop(), CPU)
        return allocate(*size, **options)

    monkeypatch.setattr(torch, "empty", collecting)
    kept = [pool.take(16, CPU) for _ in range(3)]
    assert pool.used_bytes == 3 * 16
    for blocks in kept:
        pool.give(blocks, CPU)
    assert pool.used_bytes == 0


def test_finalizers_of_other_threads_touch_no_count() -> None:
    """Their thread only puts blocks on a queue: no count is read and written there."""
    pool = HostPool()
    held = [pool.take(8, CPU) for _ in range(64)]
    counts = pool._taken_bytes, {key: len(free) for key, free in pool._free.items()}
    givers = [threading.Thread(target=pool.give, args=(blocks, CPU)) for blocks in held]
    for giver in givers:
        giver.start()
    for giver in givers:
        giver.join()
    assert counts == (pool._taken_bytes, {key: len(free) for key, free in pool._free.items()})
    assert pool.used_bytes == 0
    pool.take(8, CPU)
    assert pool.allocated_bytes == 64 * 8
