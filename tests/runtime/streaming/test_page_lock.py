"""Locked host memory: what a refusal leaves behind, whose pages they are, who is waited for."""

from __future__ import annotations

import mmap
import warnings

import pytest
import torch
from memlint_runtime.streaming import page_lock, stream_frozen_weights
from memlint_runtime.streaming.page_lock import PageLock, page_aligned
from torch import Tensor, nn

FIRST, SECOND = torch.device("cuda", 0), torch.device("cuda", 1)


class Cuda:
    """As much of CUDA as locks use. A failure stays its last error until a kernel is launched."""

    def __init__(self, locks: int) -> None:
        self.locks = locks
        self.last_error = 0
        self.waited: list[torch.device] = []
        self.ranges: list[tuple[int, int]] = []

    def cudaHostRegister(self, pointer: int, num_bytes: int, flags: int) -> int:  # noqa: N802
        self.ranges.append((pointer, pointer + num_bytes))
        self.last_error = 0 if len(self.ranges) <= self.locks else 2
        return self.last_error

    def cudaHostUnregister(self, pointer: int) -> int:  # noqa: N802
        self.last_error = 713 if pointer not in {start for start, _ in self.ranges} else 0
        return self.last_error

    def launch(self, *size: int, device: torch.device) -> Tensor:
        code, self.last_error = self.last_error, 0
        if code:
            raise RuntimeError("CUDA error: out of memory")
        return torch.empty(size)


def use(cuda: Cuda, monkeypatch: pytest.MonkeyPatch) -> Cuda:
    monkeypatch.setattr(page_lock, "_cuda_runtime", lambda: cuda)
    monkeypatch.setattr(torch, "ones", cuda.launch)
    monkeypatch.setattr(torch.cuda, "synchronize", cuda.waited.append)
    return cuda


def test_a_refusal_is_no_error_of_the_next_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda, lock = use(Cuda(locks=1), monkeypatch), PageLock()
    pieces = [page_aligned(100) for _ in range(3)]
    lock.lock(pieces[0], FIRST)
    with pytest.warns(UserWarning, match="cudaHostRegister returned 2"):
        lock.lock(pieces[1], FIRST)
    assert cuda.last_error == 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        lock.lock(pieces[2], FIRST)
    assert lock.locked_bytes == 100
    assert len(cuda.ranges) == 2


def test_unlocking_leaves_no_error_and_waits_for_every_device(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cuda, lock = use(Cuda(locks=9), monkeypatch), PageLock()
    piece = page_aligned(100)
    for device in (FIRST, SECOND, FIRST):
        lock.lock(piece, device)
    assert len(cuda.ranges) == 1
    cuda.ranges.clear()  # as if another had unlocked it
    lock.unlock(piece)
    assert set(cuda.waited) == {FIRST, SECOND}
    assert cuda.last_error == 0
    assert not lock.locked


def test_a_dropped_lock_leaves_no_memory_locked(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda, lock = use(Cuda(locks=9), monkeypatch), PageLock()
    unlocked: list[int] = []
    monkeypatch.setattr(cuda, "cudaHostUnregister", lambda pointer: unlocked.append(pointer) or 0)
    piece = page_aligned(100)
    lock.lock(piece, FIRST)
    del lock
    assert unlocked == [piece.data_ptr()]
    assert cuda.waited == [FIRST]


@pytest.mark.parametrize("num_bytes", [0, 1, mmap.PAGESIZE - 1, mmap.PAGESIZE, 70_001])
def test_a_piece_has_its_pages_for_itself(num_bytes: int) -> None:
    pieces = [page_aligned(num_bytes) for _ in range(8)]
    for piece in pieces:
        assert piece.numel() == num_bytes
        assert not num_bytes or piece.data_ptr() % mmap.PAGESIZE == 0
        storage = piece.untyped_storage()
        end = piece.data_ptr() + -(-num_bytes // mmap.PAGESIZE) * mmap.PAGESIZE
        assert end <= storage.data_ptr() + storage.nbytes()


def test_streamed_blocks_lie_on_pages_of_their_own() -> None:
    model = nn.ModuleList(nn.Linear(40, 40, bias=False) for _ in range(4)).requires_grad_(False)
    holder = nn.Module()
    holder.layers = model
    holder.scale = nn.Parameter(torch.ones(1))
    streamed = stream_frozen_weights(holder, blocks=list(model), min_bytes=1)
    for block in streamed.blocks:
        assert block.slots[0].home.data_ptr() % mmap.PAGESIZE == 0
    streamed.undo()
