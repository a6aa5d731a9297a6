"""Faults and fixes that several rules share, which ``memlint.rule`` offers to them."""

from __future__ import annotations

from memlint.rule.loops import (
    frozen_models_with_autograd,
    larger_evaluation_loops,
    references_of_loops,
)

__all__ = [
    "frozen_models_with_autograd",
    "larger_evaluation_loops",
    "references_of_loops",
]
