"""The transformers model inside what libraries put around it."""

from __future__ import annotations

from typing import Any

from torch import nn

__all__ = ["unwrap"]


def unwrap(model: nn.Module) -> Any:
    """The model inside DDP, torch.compile and PEFT wrappers."""
    inner: Any = model
    while True:
        if hasattr(inner, "_orig_mod"):
            inner = inner._orig_mod
        elif isinstance(inner, nn.parallel.DistributedDataParallel):
            inner = inner.module
        elif hasattr(inner, "get_base_model"):
            inner = inner.get_base_model()
        else:
            return inner
