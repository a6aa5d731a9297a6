"""Copies at their laziest and at their quickest, locks that keep a log, and poisoned memory."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from memlint_runtime.device_copies import SynchronousCopies
from memlint_runtime.streaming import blocks
from memlint_runtime.streaming.page_lock import PageLock
from torch import Tensor


class DelayedCopies:
    """Nothing is copied before somebody waits for it; targets hold rubbish until then."""

    def __init__(self) -> None:
        self._queue: list[tuple[int, Callable[[], None]]] = []
        self._issued = 0
        self._lock = threading.Lock()

    def send(self, source: Tensor, blocks: tuple[Tensor, ...]) -> int:
        raise AssertionError("frozen weights are not sent back")

    def fetch(self, target: Tensor, blocks: tuple[Tensor, ...]) -> int:
        target.fill_(0xFF)
        seen = weakref.ref(target.untyped_storage())
        start, length = target.storage_offset(), target.numel()

        def run() -> None:
            storage = seen()
            assert storage is not None, "device memory was dropped while it was being written"
            assert storage.nbytes() >= start + length, "freed under a copy"
            alive = torch.empty(0, dtype=torch.uint8).set_(storage, start, (length,))
            SynchronousCopies().fetch(alive, blocks)

        self._issued += 1
        self._queue.append((self._issued, run))
        return self._issued

    def is_done(self, ticket: int) -> bool:
        return False

    def wait(self, ticket: int) -> None:
        with self._lock:
            while self._queue and self._queue[0][0] <= ticket:
                self._queue.pop(0)[1]()

    def let_go(self, ticket: int) -> None:
        assert not self._queue or self._queue[0][0] > ticket, "freed under a copy"

    def finish(self, ticket: int) -> None:
        self.wait(ticket)


SCHEDULERS: dict[str, Callable[[], Any]] = {
    "at the last moment": DelayedCopies,
    "at once": SynchronousCopies,
}


@pytest.fixture
def poisoned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Freed buffers are overwritten first: whoever kept their memory reads rubbish."""
    resize = blocks._resize

    def poison(flat: Tensor, num_bytes: int) -> None:
        if num_bytes == 0:
            torch.Tensor.fill_(flat, 0xFF)
        resize(flat, num_bytes)
        if num_bytes:
            torch.Tensor.fill_(flat, 0xFF)

    monkeypatch.setattr(blocks, "_resize", poison)


class RecordingLock(PageLock):
    """Locks without a device."""

    def __init__(self) -> None:
        super().__init__()
        self.log: dict[int, int] = {}

    def lock(self, tensor: Tensor, device: torch.device) -> None:
        self.log[tensor.data_ptr()] = tensor.numel()

    def unlock(self, tensor: Tensor) -> None:
        self.log.pop(tensor.data_ptr(), None)

    def release(self) -> None:
        self.log.clear()
