"""The transformers model inside what libraries put around it."""

from __future__ import annotations

from typing import Any

from torch import nn

__all__ = ["require_model", "unwrap"]


def unwrap(model: nn.Module) -> Any:
    """The model inside DDP, torch.compile and PEFT wrappers. Raises TypeError for what is none."""
    require_model(model)
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


def require_model(owner: Any, wanted: str = "a model (a torch.nn.Module)") -> None:
    """Raise TypeError unless it is a module, an object of it and not its class.

    wanted: what the caller takes, for the message.
    """
    if isinstance(owner, nn.Module):
        return
    raise TypeError(f"wants {wanted}, got {_kind(owner)}")


def _kind(owner: Any) -> str:
    if isinstance(owner, type):
        return f"the class {owner.__name__} itself: make an object of it first"
    return f"{type(owner).__name__}: pass the object itself"
