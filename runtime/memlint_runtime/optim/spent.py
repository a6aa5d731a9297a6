"""What stands in `.grad` for a gradient that is not there: used and freed, or in host memory."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

__all__ = ["SECOND_BACKWARD", "SpentGradient", "StandIn"]

SECOND_BACKWARD = (
    "OptimizerInBackward: a second backward before step(). The gradients of the first are used and "
    "gone, so they cannot accumulate; use gradient_accumulation_steps=1 and call step() after each "
    "backward, or the optimizer without this wrapper"
)


class StandIn(Tensor):
    """Shape, type and norm of a gradient that is elsewhere; it has no memory.

    norm_before_step: its L2 norm. renewed: what autograd added to it. What else is asked of it is
    refused with `refusal`.
    """

    norm_before_step: Tensor
    renewed: Tensor | None
    refusal: str

    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    @staticmethod
    def __new__(cls, parameter: Tensor, *others: Any) -> StandIn:
        make: Any = Tensor._make_wrapper_subclass
        found: StandIn = make(
            cls,
            parameter.shape,
            strides=parameter.stride(),
            dtype=parameter.dtype,
            device=parameter.device,
            storage_size=0,
        )
        found.renewed = None
        return found

    def add_in_backward(self, gradient: Tensor) -> None:
        """Take what autograd accumulates, before the parameter's hooks run."""
        raise NotImplementedError

    def scale(self, factor: Any) -> bool:
        """Multiply; returns whether it can be done."""
        raise NotImplementedError

    def clear(self) -> None:
        """Set to zero."""

    def __repr__(self) -> str:  # type: ignore[override]
        return f"{type(self).__name__}(shape={tuple(self.shape)}, dtype={self.dtype})"

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        name = function.__name__.partition(".")[0]
        found = next(leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, StandIn))
        if found is args[0]:
            if name in ("detach", "detach_", "alias"):
                return found
            if name == "zero_":
                found.clear()
                return found
            order = args[1] if len(args) > 1 else (kwargs or {}).get("ord", 2)
            if name == "linalg_vector_norm" and float(order) == 2.0:
                return found.norm_before_step
            if name == "mul_" and found.scale(args[1]):
                return found
            if name == "add_" and torch._C._current_graph_task_id() != -1:
                found.add_in_backward(args[1])
                return found
        raise ValueError(f"{name} on {found.refusal}")


class SpentGradient(StandIn):
    """What `.grad` holds after the step in backward."""

    refusal = (
        "a gradient that OptimizerInBackward used and freed during backward. Clipping by the "
        "global norm comes too late: set max_grad_norm=0 (or drop clip_grad_norm_) and pass "
        "OptimizerInBackward(..., max_norm_per_parameter=...) instead"
    )

    def __init__(self, parameter: Tensor, stepped: set[int]) -> None:
        super().__init__()
        self._stepped = stepped
        self._parameter = id(parameter)

    def add_in_backward(self, gradient: Tensor) -> None:
        # After a step without zero_grad() it begins anew.
        if self._parameter in self._stepped:
            raise RuntimeError(SECOND_BACKWARD)
        self.renewed = gradient.clone()

    def scale(self, factor: Any) -> bool:
        # Clipping multiplies by 1 where nothing is to be clipped, as when it is told to clip to
        # infinity in order to measure. It multiplies all by one tensor: read it once.
        if not isinstance(factor, Tensor):
            return bool(factor == 1)
        known = getattr(factor, "_memlint_is_one", None)
        if known is None:
            known = bool(factor == 1)
            factor._memlint_is_one = known  # type: ignore[attr-defined]
        return bool(known)
