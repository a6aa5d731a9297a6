"""What the author has decided."""

from __future__ import annotations

from memlint.rule import is_switched_off, unless_switched_off

__all__ = ["is_switched_off", "unless_switched_off"]
