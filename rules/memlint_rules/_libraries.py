"""Words of the libraries, for triggers."""

from __future__ import annotations

from memlint.rule import LIBRARIES, PACKAGES

__all__ = ["LIBRARIES", "PACKAGES"]
