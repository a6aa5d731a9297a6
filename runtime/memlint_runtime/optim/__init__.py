"""Optimizers that hold less on the device: their step inside backward, their states on the host."""

from __future__ import annotations

from memlint_runtime.optim.in_backward import OptimizerInBackward
from memlint_runtime.optim.offloaded import OffloadedOptimizer
from memlint_runtime.optim.spent import SpentGradient
from memlint_runtime.optim.wrapped import require_optimizer

__all__ = ["OffloadedOptimizer", "OptimizerInBackward", "SpentGradient", "require_optimizer"]
