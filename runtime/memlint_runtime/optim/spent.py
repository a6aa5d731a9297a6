"""What stands in `.grad` for a gradient that was used and freed in backward."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

__all__ = ["SECOND_BACKWARD", "SpentGradient"]

SECOND_BACKWARD = (
    "OptimizerInBackward: a second backward before step(). The gradients of the first are used and "
    "gone, so they cannot accumulate; use gradient_accumulation_steps=1 and call step() after each "
    "backward, or the optimizer without this wrapper"
)


class SpentGradient(Tensor):
    """What `.grad` holds after the step: shape, type and norm of a gradient that is gone.

    It has no memory, and answers here where autograd would add to it.
    """

    norm_before_step: Tensor
    renewed: Tensor | None
    _stepped: set[int]
    _parameter: int

    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    @staticmethod
    def __new__(cls, parameter: Tensor, stepped: set[int]) -> SpentGradient:
        make: Any = Tensor._make_wrapper_subclass
        spent: SpentGradient = make(
            cls,
            parameter.shape,
            strides=parameter.stride(),
            dtype=parameter.dtype,
            device=parameter.device,
            storage_size=0,
        )
        spent._stepped = stepped
        spent._parameter = id(parameter)
        spent.renewed = None
        return spent

    def __init__(self, parameter: Tensor, stepped: set[int]) -> None:
        super().__init__()

    def __repr__(self) -> str:  # type: ignore[override]
        return f"SpentGradient(shape={tuple(self.shape)}, dtype={self.dtype})"

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        name = function.__name__.partition(".")[0]
        spent = args[0]
        if name in ("detach", "detach_", "alias", "zero_"):
            return spent
        order = args[1] if len(args) > 1 else (kwargs or {}).get("ord", 2)
        if name == "linalg_vector_norm" and float(order) == 2.0:
            return spent.norm_before_step
        # Clipping multiplies by 1 where nothing is to be clipped, as when it is told to clip to
        # infinity in order to measure.
        if name == "mul_" and _is_one(args[1]):
            return spent
        if name == "add_" and torch._C._current_graph_task_id() != -1:
            # Autograd accumulates; after a step without zero_grad() it begins anew.
            if spent._parameter in spent._stepped:
                raise RuntimeError(SECOND_BACKWARD)
            spent.renewed = args[1].clone()
            return spent
        raise ValueError(
            f"{name} on a gradient that OptimizerInBackward used and freed during backward. "
            f"Clipping by the global norm comes too late: set max_grad_norm=0 (or drop "
            f"clip_grad_norm_) and pass OptimizerInBackward(..., max_norm_per_parameter=...) "
            f"instead"
        )


def _is_one(factor: Any) -> bool:
    """Clipping multiplies every gradient by one and the same tensor: read it once."""
    if not isinstance(factor, Tensor):
        return bool(factor == 1)
    known = getattr(factor, "_memlint_is_one", None)
    if known is None:
        known = bool(factor == 1)
        factor._memlint_is_one = known  # type: ignore[attr-defined]
    return bool(known)
