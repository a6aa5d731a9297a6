"""Autograd functions that are differentiated once, by backward, and say so elsewhere.

torch's `once_differentiable` raises only where the gradient that arrives requires one itself, so
that `create_graph=True` on a plain loss would give second derivatives without this part.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch.autograd.function import once_differentiable

__all__ = ["SingleBackward", "no_second_derivative", "within_transform"]


class SingleBackward(torch.autograd.Function):
    """A function whose `backward` raises RuntimeError under `create_graph=True`, and whose `apply`
    does within a transform of `torch.func`."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        setattr(cls, "backward", staticmethod(_once(cls.backward)))  # noqa: B010

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Run the function."""
        if within_transform():
            raise RuntimeError(
                f"{_name(cls)} does not run within torch.func's grad, vmap or jvp: call backward "
                "on its result instead, or use the plain computation there"
            )
        apply: Any = super().apply
        return apply(*args, **kwargs)


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def within_transform() -> bool:
    """True if a transform of `torch.func` is at work, as grad or vmap. Compiled code is asked as it
    is traced."""
    return torch._C._functorch.peek_interpreter_stack() is not None


def no_second_derivative(name: str) -> RuntimeError:
    """The error of what is differentiated twice."""
    return RuntimeError(
        f"{name} has no second derivative: call backward without create_graph=True, or use the "
        "plain computation where gradients are differentiated (gradient penalties)"
    )


def _once(backward: Callable[..., Any]) -> Callable[..., Any]:
    once: Any = once_differentiable(backward)

    @functools.wraps(backward)
    def checked(ctx: Any, *gradients: Any) -> Any:
        # Autograd runs backward passes with gradients on only to differentiate them again.
        if torch.is_grad_enabled():
            raise no_second_derivative(_name(type(ctx)))
        return once(ctx, *gradients)

    return checked


def _name(kind: type) -> str:
    return kind.__name__.removesuffix("Backward").lstrip("_")
