"""How many examples a property is tried with."""

from __future__ import annotations

from hypothesis import settings

FEW = 10


def examples(count: int) -> settings:
    """Try ``count`` examples where both tiers run, and a few in the first (`tests/conftest.py`)."""
    return settings(max_examples=count if settings.default.max_examples > FEW else FEW)
