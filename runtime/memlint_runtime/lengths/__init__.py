"""Lengths of a dataset's sequences and what padding, cutting and packing them costs."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from memlint_runtime.lengths.picture import save_png, terminal_picture
    from memlint_runtime.lengths.profile import LengthProfile

__all__ = ["LengthProfile", "save_png", "terminal_picture"]

# Imported when first used: `python -m memlint_runtime.lengths` imports this before it can say in
# one line that a package is missing.
_HOMES = {"LengthProfile": "profile", "save_png": "picture", "terminal_picture": "picture"}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{home}"), name)
