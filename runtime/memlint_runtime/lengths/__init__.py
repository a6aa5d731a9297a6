"""Lengths of a dataset's sequences and what padding, cutting and packing them costs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memlint_runtime import names_of

if TYPE_CHECKING:
    from memlint_runtime.lengths.picture import save_png, terminal_picture
    from memlint_runtime.lengths.profile import LengthProfile

__all__ = ["LengthProfile", "save_png", "terminal_picture"]

# Imported when first used: `python -m memlint_runtime.lengths` imports this before it can say in
# one line that a package is missing.
_HOMES = {"LengthProfile": "profile", "save_png": "picture", "terminal_picture": "picture"}
__getattr__ = names_of(__name__, _HOMES)
