"""Faults and fixes that several rules share, which ``memlint.rule`` offers to them."""

from __future__ import annotations

from memlint.rule.loops import (
    float32_loads,
    frozen_models_with_autograd,
    full_precision_loops,
    larger_evaluation_loops,
    references_of_loops,
    unchecked_loops,
    upcast_models,
)

__all__ = [
    "float32_loads",
    "frozen_models_with_autograd",
    "full_precision_loops",
    "larger_evaluation_loops",
    "references_of_loops",
    "unchecked_loops",
    "upcast_models",
]
