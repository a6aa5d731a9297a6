"""Where a ring's buffers lie on a GPU: in a private pool of torch's allocator.

Blocks come and go many times in a step, and activations are made in between. From the common pool
an activation would take a piece of the memory that a block has just left, and the next block would
need new memory, at the limit after a flush of the cache. In a pool of their own buffers take each
other's place alone.
Cost: what the pool has taken stays with it from step to step until the streaming is undone.
"""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

__all__ = ["RingMemory"]


class RingMemory:
    """A pool for each GPU, made when it is first asked for."""

    def __init__(self) -> None:
        self._pools: dict[torch.device, Any] = {}

    def on(self, device: torch.device) -> AbstractContextManager[Any]:
        """Within it, what is allocated on `device` lies in the pool."""
        if device.type != "cuda" or not _has_pools():
            return nullcontext()
        if device not in self._pools:
            self._pools[device] = torch.cuda.MemPool()
        pools: AbstractContextManager[Any] = torch.cuda.use_mem_pool(self._pools[device], device)
        return pools

    def release(self) -> None:
        """Give the pools back: nothing of them is in use."""
        self._pools.clear()


def _has_pools() -> bool:
    """True if torch's own allocator is at work, with segments of fixed size: segments that grow
    leave no gaps, and take no pools in every release."""
    settings = ",".join(os.environ.get(f"PYTORCH_{name}ALLOC_CONF", "") for name in ("", "CUDA_"))
    if "expandable_segments:true" in settings.replace(" ", "").lower():
        return False
    return bool(torch.cuda.get_allocator_backend() == "native")
