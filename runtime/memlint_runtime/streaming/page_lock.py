"""Host memory that stays where it is, so that copies from it run beside the computation.

Memory is locked in place (`cudaHostRegister`): no second copy, and no rounding up to a power of
two, which torch's allocator of pinned memory does. How much may be locked is limited (by the
operating system, by WSL); where the limit is met, the rest stays unlocked: right, but slower.

Named hazards, each with a test that breaks without its guard:
- A refusal stays behind as CUDA's last error, which the next kernel would raise as its own: it is
  taken away.
- Two pieces on one page: each piece has its pages for itself (`page_aligned`).
- Copies to another device than the current one: all devices end theirs before memory is unlocked.
- Memory that is freed while it is locked: what has its addresses next would be copied from the
  former pages. Whoever drops a lock drops it unlocked.
"""

from __future__ import annotations

import mmap
import sys
import warnings
from typing import Any

import torch
from torch import Tensor

__all__ = ["PageLock", "page_aligned"]


class PageLock:
    """Locks tensors' memory until `unlock` or `release`."""

    def __init__(self) -> None:
        self.locked: dict[int, Tensor] = {}
        self._devices: set[torch.device] = set()
        self._failed = False

    @property
    def locked_bytes(self) -> int:
        return sum(tensor.numel() * tensor.element_size() for tensor in self.locked.values())

    def lock(self, tensor: Tensor, device: torch.device) -> None:
        """Lock the memory of `tensor` for copies to `device`. Twice is harmless."""
        if device.type != "cuda" or self._failed:
            return
        self._devices.add(device)
        if tensor.data_ptr() in self.locked:
            return
        num_bytes = tensor.numel() * tensor.element_size()
        code = int(_cuda_runtime().cudaHostRegister(tensor.data_ptr(), num_bytes, 0))
        if code == 0:
            self.locked[tensor.data_ptr()] = tensor
            return
        _take_error_away(device)
        self._failed = True
        warnings.warn(
            f"CUDA page-locks no more than {self.locked_bytes / 2**30:.2f} GiB of host memory here "
            f"(cudaHostRegister returned {code}; ulimit -l and WSL have limits): the rest is "
            "copied more slowly",
            stacklevel=2,
        )

    def unlock(self, tensor: Tensor) -> None:
        """Unlock the memory of `tensor`, if it is locked."""
        if self.locked.pop(tensor.data_ptr(), None) is not None:
            self._unregister(tensor)

    def release(self) -> None:
        """Unlock everything."""
        while self.locked:
            self._unregister(self.locked.popitem()[1])

    def __del__(self) -> None:
        if not sys.is_finalizing():
            self.release()

    def _unregister(self, tensor: Tensor) -> None:
        for device in self._devices:
            torch.cuda.synchronize(device)
        if int(_cuda_runtime().cudaHostUnregister(tensor.data_ptr())) != 0:
            _take_error_away(next(iter(self._devices)))


def page_aligned(num_bytes: int) -> Tensor:
    """Uninitialized host memory `[num_bytes]`, uint8, on pages that nothing else is on."""
    page = mmap.PAGESIZE
    pages = -(-num_bytes // page)
    whole = torch.empty((pages + 1) * page, dtype=torch.uint8, device="cpu")
    start = -whole.data_ptr() % page
    return whole[start : start + num_bytes]


def _take_error_away(device: torch.device) -> None:
    """torch's binding has no `cudaGetLastError`: a kernel's launch asks for it, and raises it."""
    try:
        torch.ones(1, device=device)
    except RuntimeError:
        return


def _cuda_runtime() -> Any:
    runtime: Any = torch.cuda.cudart  # untyped in torch
    return runtime()
