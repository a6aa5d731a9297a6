"""Lengths of a dataset's sequences and what padding, cutting and packing them costs."""

from __future__ import annotations

from memlint_runtime.lengths.picture import save_png, terminal_picture
from memlint_runtime.lengths.profile import LengthProfile

__all__ = ["LengthProfile", "save_png", "terminal_picture"]
