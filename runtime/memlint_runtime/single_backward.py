"""A backward pass that has no backward of its own, and says so.

torch's `once_differentiable` raises only where the gradient that arrives requires one itself, so
that `create_graph=True` on a plain loss would give second derivatives without this part.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch.autograd.function import once_differentiable

__all__ = ["refuse_create_graph"]

_T = TypeVar("_T")


def refuse_create_graph(backward: Callable[..., _T]) -> Callable[..., _T]:
    """For an autograd function's `backward`: RuntimeError under `create_graph=True`."""
    once: Any = once_differentiable(backward)

    @functools.wraps(backward)
    def checked(ctx: Any, *gradients: Any) -> _T:
        # Autograd runs backward passes with gradients on only to differentiate them again.
        if torch.is_grad_enabled():
            raise RuntimeError(
                f"{type(ctx).__name__.removesuffix('Backward').lstrip('_')} has no second "
                "derivative: call backward without create_graph=True, or use the plain "
                "computation where gradients are differentiated (gradient penalties)"
            )
        result: _T = once(ctx, *gradients)
        return result

    return checked
