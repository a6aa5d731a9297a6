"""Host memory that stays where it is, so that copies from it run beside the computation.

Memory is locked in place (`cudaHostRegister`): no second copy, and no rounding up to a power of
two, which torch's allocator of pinned memory does. How much may be locked is limited (by the
operating system, by WSL); where the limit is met, the rest stays unlocked: right, but slower.
"""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import Tensor

__all__ = ["PageLock"]


class PageLock:
    """Locks tensors' memory until `unlock` or `release`."""

    def __init__(self) -> None:
        self.locked: dict[int, Tensor] = {}
        self._failed = False

    @property
    def locked_bytes(self) -> int:
        return sum(tensor.numel() * tensor.element_size() for tensor in self.locked.values())

    def lock(self, tensor: Tensor, device: torch.device) -> None:
        """Lock the memory of `tensor` for copies to `device`. Twice is harmless."""
        if device.type != "cuda" or self._failed or tensor.data_ptr() in self.locked:
            return
        if self._register(tensor):
            self.locked[tensor.data_ptr()] = tensor
        else:
            self._failed = True
            warnings.warn(
                f"no more than {self.locked_bytes / 2**30:.2f} GiB of host memory can be "
                "page-locked here (ulimit -l, or WSL's limit): the other streamed weights copy "
                "more slowly",
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

    def _register(self, tensor: Tensor) -> bool:
        runtime = _cuda_runtime()
        num_bytes = tensor.numel() * tensor.element_size()
        return int(runtime.cudaHostRegister(tensor.data_ptr(), num_bytes, 0)) == 0

    def _unregister(self, tensor: Tensor) -> None:
        torch.cuda.synchronize()
        _cuda_runtime().cudaHostUnregister(tensor.data_ptr())


def _cuda_runtime() -> Any:
    runtime: Any = torch.cuda.cudart  # untyped in torch
    return runtime()
