"""The optimizer's step inside backward: each gradient is used and freed as soon as it is complete.

Without it all gradients are alive when the step begins: 2 bytes a parameter in bf16, 15 GiB for an
8B model. With it one is: the largest parameter's. Costs: no accumulation, because a gradient is
gone before the next micro-batch adds to it; no clipping by the global norm, because the norm is
known only when the gradients are gone; and one call of the optimizer for each parameter.

    optimizer = OptimizerInBackward(torch.optim.AdamW(model.parameters(), lr=1e-5))
    scheduler = get_scheduler("cosine", optimizer, ...)
    for batch in loader:
        model(**batch).loss.backward()   # steps each parameter
        optimizer.step()                 # steps nothing; marks the end of the update
        scheduler.step()
        optimizer.zero_grad()

What would go wrong silently raises instead. Where a gradient was, `.grad` holds a `SpentGradient`,
one element large, which answers for its norm (so that logging works) and refuses to be scaled,
clipped or added to.

Sharded by FSDP2 (`fully_shard` before the wrapper is made), PyTorch calls the hooks on the reduced
gradients of the shards. Parameters that are frozen when wrapped and unfrozen later are stepped, the
first time at `step()`.

Source: PyTorch's tutorial on fusing the optimizer step into the backward pass, which makes one
optimizer for each parameter; here one optimizer steps, so state_dict, resume and schedulers work.
"""

from __future__ import annotations

import gc
import inspect
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NoReturn

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from torch.optim import Optimizer

__all__ = ["OptimizerInBackward", "SpentGradient", "require_optimizer"]

_NO_SCALER = (
    "OptimizerInBackward cannot be used with a gradient scaler: parameters are stepped in "
    "backward, with gradients that are still scaled. Train in bf16, which needs no scaler "
    "(bf16=True instead of fp16=True)"
)


def require_optimizer(owner: Any) -> None:
    """Raise TypeError unless it steps parameter groups, as optimizers of any library do."""
    if isinstance(owner, type):
        got = f"the class {owner.__name__} itself: make an object of it first"
    elif hasattr(owner, "param_groups") and hasattr(owner, "step"):
        return
    else:
        got = f"{type(owner).__name__}: pass the object itself"
    raise TypeError(f"wants an optimizer (as torch.optim.AdamW(model.parameters())), got {got}")


def _of_wrapped(name: str) -> Any:
    """An attribute that is the wrapped optimizer's."""
    return property(
        lambda self: getattr(self.optimizer, name),
        lambda self, value: setattr(self.optimizer, name, value),
    )


class OptimizerInBackward(Optimizer):
    """Wraps an optimizer of any library; steps each of its parameters during backward.

    Args:
        optimizer: made as usual, over the parameters to train.
        max_norm_per_parameter: clip each parameter's gradient to this L2 norm before its step.
            The alternative to clipping by the global norm, and not the same: it bounds each
            tensor's gradient by itself.

    Raises:
        ValueError: if the optimizer needs a closure or counts steps in its parameter groups, if
            parameters of a distributed run are not sharded by FSDP2 (their gradients are reduced
            over ranks after backward's hooks), or from `backward()`, before any parameter is
            stepped, if a gradient scaler has scaled a loss.
        TypeError: if it is no `torch.optim.Optimizer`.
        RuntimeError: from `backward()`, if a parameter gets a second gradient before `step()`.
    """

    # Optimizer.__init__ is not called: groups, state and defaults are the wrapped optimizer's.
    def __init__(
        self, optimizer: Optimizer, *, max_norm_per_parameter: float | None = None
    ) -> None:
        require_optimizer(optimizer)
        closure = inspect.signature(type(optimizer).step).parameters.get("closure")
        if closure is not None and closure.default is inspect.Parameter.empty:
            raise ValueError(
                f"{type(optimizer).__name__} evaluates the loss several times in each step, which "
                f"cannot happen during backward; use it without OptimizerInBackward"
            )
        if max_norm_per_parameter is not None and max_norm_per_parameter <= 0:
            raise ValueError(
                f"max_norm_per_parameter must be above 0, got {max_norm_per_parameter}"
            )
        self.optimizer = optimizer
        self.max_norm_per_parameter = max_norm_per_parameter
        self._stepped: set[int] = set()
        self._scaling_is_checked = False
        # A run before this one, as in a notebook, may have left its scaler behind.
        self._scalers_before = weakref.WeakSet(_scalers_in_use())
        self._places: dict[int, tuple[int, int]] = {}
        self._handles: list[Any] = []
        self._nothing = nn.Parameter(torch.empty(0))
        self._hooked: set[int] = set()
        self._idle: dict[str, Any] = {**optimizer.param_groups[0], "params": []}
        self._goes_by_place = hasattr(optimizer, "check_overrides")
        self._refuse_unreduced(self._parameters())
        self._prepare_bitsandbytes()
        self._hook_parameters()

    # -- during backward ---------------------------------------------------------------------

    def _before_accumulation(self, parameter: Tensor) -> None:
        if id(parameter) in self._stepped:
            raise RuntimeError(
                "OptimizerInBackward: a second backward before step(). The gradients of the first "
                "are used and gone, so they cannot accumulate; use gradient_accumulation_steps=1 "
                "and call step() after each backward, or the optimizer without this wrapper"
            )
        if isinstance(parameter.grad, SpentGradient):
            parameter.grad = None

    @torch.no_grad()
    def _step_parameter(self, parameter: Tensor) -> None:
        if id(parameter) not in self._stepped:
            self._refuse_unreduced([parameter])
        self._before_accumulation(parameter)
        gradient = parameter.grad
        if gradient is None or id(parameter) not in self._places:
            return
        if not self._scaling_is_checked:
            if any(scaler not in self._scalers_before for scaler in _scalers_in_use()):
                raise ValueError(_NO_SCALER)
            self._scaling_is_checked = True
        norm = None
        if self.max_norm_per_parameter is not None or type(gradient) is Tensor:
            dtype = torch.promote_types(gradient.dtype, torch.float32)
            norm = torch.linalg.vector_norm(gradient, dtype=dtype)
            norm = norm.full_tensor() if isinstance(norm, DTensor) else norm
        if self.max_norm_per_parameter is not None and norm is not None:
            gradient.mul_((self.max_norm_per_parameter / (norm + 1e-6)).clamp_(max=1.0))
        self._step_alone(parameter)
        self._stepped.add(id(parameter))
        # Fakes and other subclasses take no subclass of ours: there is nothing to guard either.
        parameter.grad = (
            SpentGradient.of(parameter, norm)
            if type(gradient) is Tensor and norm is not None
            else None
        )

    def _step_alone(self, parameter: Tensor) -> None:
        """One step of the wrapped optimizer in which only `parameter` has a gradient."""
        groups = self.optimizer.param_groups
        group_index, index = self._places[id(parameter)]
        group = groups[group_index]
        everyone = group["params"]
        options = {name: value for name, value in group.items() if name != "params"}
        # One group of one parameter, or the cost would be quadratic; bitsandbytes alone looks
        # options up by place, and has to find a parameter in its own.
        before = group_index if self._goes_by_place else 0
        try:
            self.optimizer.param_groups = [self._idle] * before + [group]
            group["params"] = [self._nothing] * (index if self._goes_by_place else 0) + [parameter]
            self.optimizer.step()
        finally:
            group["params"] = everyone
            self.optimizer.param_groups = groups
        counted = [name for name, value in options.items() if group.get(name) is not value]
        counted = [name for name in counted if group.get(name) != options[name]]
        if counted:
            raise ValueError(
                f"{type(self.optimizer).__name__} counts in its parameter groups "
                f"({', '.join(counted)}) and would count each parameter's step as one of all; "
                f"use it without OptimizerInBackward"
            )

    # -- what an optimizer does ----------------------------------------------------------------

    def step(self, closure: Callable[[], Any] | None = None) -> None:  # type: ignore[override]
        """End the update: the parameters were stepped during backward."""
        if closure is not None:
            raise ValueError(
                "OptimizerInBackward.step takes no closure: its steps happen in backward"
            )
        self._step_unfrozen()
        self._stepped.clear()

    def _step_unfrozen(self) -> None:
        """Step what was frozen when its hooks would have been made, and hook it from now on."""
        for parameter in self._parameters():
            if parameter.requires_grad and id(parameter) not in self._hooked:
                self._hook(parameter)
                if parameter.grad is not None:
                    self._step_parameter(parameter)

    def zero_grad(self, set_to_none: bool = True) -> None:
        for parameter in self._parameters():
            parameter.grad = None

    def state_dict(self) -> dict[str, Any]:
        """As the wrapped optimizer's: either can load the other's."""
        return self.optimizer.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.optimizer.load_state_dict(state_dict)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        self.optimizer.add_param_group(param_group)
        self._hook_parameters()

    def remove(self) -> None:
        """Take the hooks off; the wrapped optimizer is as any other again."""
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        self._places.clear()
        self._hooked.clear()
        self.zero_grad()

    param_groups = _of_wrapped("param_groups")
    state = _of_wrapped("state")
    defaults = _of_wrapped("defaults")

    @property
    def _step_supports_amp_scaling(self) -> bool:
        # GradScaler asks for this before it steps: the last moment, for a scaler that was made
        # after the first backward.
        raise ValueError(_NO_SCALER)

    def __getattr__(self, name: str) -> Any:
        # What libraries look for on their own optimizers, as bitsandbytes' is_paged.
        if name in ("optimizer", "__setstate__"):
            raise AttributeError(name)
        return getattr(self.optimizer, name)

    def __getstate__(self) -> NoReturn:
        raise TypeError("OptimizerInBackward cannot be pickled or copied; save its state_dict()")

    def __repr__(self) -> str:
        return f"OptimizerInBackward({self.optimizer!r})"

    # -- setting up ----------------------------------------------------------------------------

    def _parameters(self) -> Iterator[Tensor]:
        for group in self.optimizer.param_groups:
            yield from group["params"]

    def _hook_parameters(self) -> None:
        for group_index, group in enumerate(self.optimizer.param_groups):
            for index, parameter in enumerate(group["params"]):
                if id(parameter) in self._places:
                    continue
                if any(isinstance(hook, _Hook) for hook in _hooks_of(parameter)):
                    raise ValueError(
                        "another OptimizerInBackward steps these parameters already; call its "
                        "remove() first"
                    )
                self._places[id(parameter)] = (group_index, index)
                if parameter.requires_grad:
                    self._hook(parameter)

    def _hook(self, parameter: Tensor) -> None:
        hook = _Hook(self, weakref.ref(parameter))
        self._hooked.add(id(parameter))
        self._handles.append(parameter.register_hook(hook.before))  # type: ignore[no-untyped-call]
        self._handles.append(
            parameter.register_post_accumulate_grad_hook(hook)  # type: ignore[no-untyped-call]
        )

    def _prepare_bitsandbytes(self) -> None:
        """Let it find its per-module options while it still sees all parameters."""
        optimizer: Any = self.optimizer
        if hasattr(optimizer, "check_overrides") and not getattr(optimizer, "initialized", True):
            optimizer.check_overrides()
            optimizer.to_gpu()
            optimizer.initialized = True

    def _refuse_unreduced(self, parameters: Iterable[Tensor]) -> None:
        ready = torch.distributed.is_available() and torch.distributed.is_initialized()
        world = torch.distributed.get_world_size() if ready else 1
        if world == 1:
            return
        # FSDP2 hands its hooks the reduced gradients of its shards; nothing else does.
        if not all(isinstance(p, DTensor) for p in parameters if p.requires_grad):
            raise ValueError(
                f"OptimizerInBackward works on one process or on parameters sharded by FSDP2, got "
                f"{world} processes and parameters that are whole: during backward their gradients "
                f"are not yet reduced. Call fully_shard on the whole model before, or shard the "
                f"optimizer's state instead (FSDP, or ZeRO)"
            )


class _Hook:
    """Ties a parameter to the optimizer, which lives as long: it must not vanish unnoticed."""

    def __init__(self, owner: OptimizerInBackward, parameter: weakref.ref[Tensor]) -> None:
        self.owner = owner
        self.parameter = parameter

    def before(self, gradient: Tensor) -> None:
        parameter = self.parameter()
        if parameter is not None:
            self.owner._before_accumulation(parameter)

    def __call__(self, parameter: Tensor) -> None:
        self.owner._step_parameter(parameter)


def _scalers_in_use() -> list[torch.amp.GradScaler]:
    """The gradient scalers of this process that have scaled a loss.

    A gradient does not show that its loss was scaled, and a scaler meets the optimizer only after
    backward. So they are looked for among all objects, which takes some tenths of a second.
    """
    scalers = [each for each in gc.get_objects() if issubclass(type(each), torch.amp.GradScaler)]
    return [scaler for scaler in scalers if getattr(scaler, "_scale", None) is not None]


def _hooks_of(parameter: Tensor) -> list[Any]:
    return list((getattr(parameter, "_post_accumulate_grad_hooks", None) or {}).values())


class SpentGradient(Tensor):
    """What `.grad` holds after the step: shape, type and norm of a gradient that is gone."""

    norm_before_step: Tensor

    @staticmethod
    def of(parameter: Tensor, norm: Tensor) -> SpentGradient:
        nothing = torch.zeros((), dtype=parameter.dtype, device=parameter.device)
        spent = nothing.expand(parameter.shape).as_subclass(SpentGradient)
        spent.norm_before_step = norm
        return spent

    @classmethod
    def __torch_function__(
        cls, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        name = getattr(function, "__name__", str(function))
        if name in _HARMLESS:
            with torch._C.DisableTorchFunctionSubclass():
                return function(*args, **(kwargs or {}))
        if name in ("detach_", "requires_grad_", "zero_"):
            return args[0]
        order = args[1] if len(args) > 1 else (kwargs or {}).get("ord", 2)
        if name in ("linalg_vector_norm", "vector_norm") and float(order) == 2.0:
            return args[0].norm_before_step
        # Clipping multiplies by 1 where nothing is to be clipped, as when it is told to clip to
        # infinity in order to measure.
        if name in ("mul_", "__imul__") and _is_one(args[1]):
            return args[0]
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


# Questions about the tensor, not about its values.
_HARMLESS = {
    "__get__", "__repr__", "__hash__", "size", "dim", "numel", "stride", "is_floating_point",
}  # fmt: skip
_HARMLESS |= {"element_size", "is_complex", "untyped_storage", "data_ptr", "ndimension", "__len__"}
