"""Optimizers that hold less on the device: their step inside backward."""

from __future__ import annotations

from memlint_runtime.optim.in_backward import OptimizerInBackward, require_optimizer
from memlint_runtime.optim.spent import SpentGradient

__all__ = ["OptimizerInBackward", "SpentGradient", "require_optimizer"]
