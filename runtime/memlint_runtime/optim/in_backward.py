"""The optimizer's step inside backward: gradients are used and freed soon after they are complete.

Without it all gradients are alive when the step begins: 2 bytes a parameter in bf16, 15 GiB for an
8B model. With it a bucket of them is, a sixteenth of all, and the largest parameter's. Costs: no
accumulation, because a gradient is gone before the next micro-batch adds to it; no clipping by the
global norm, because the norm is known only when the gradients are gone; and one call of the
optimizer for each bucket, between the launches of backward.

    optimizer = OptimizerInBackward(torch.optim.AdamW(model.parameters(), lr=1e-5))
    scheduler = get_scheduler("cosine", optimizer, ...)
    for batch in loader:
        model(**batch).loss.backward()   # steps the parameters
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
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor
from torch.optim import Optimizer

from memlint_runtime.optim.spent import SECOND_BACKWARD, SpentGradient
from memlint_runtime.optim.wrapped import WrappedOptimizer

__all__ = ["OptimizerInBackward"]

_NO_SCALER = (
    "OptimizerInBackward cannot be used with a gradient scaler: parameters are stepped in "
    "backward, with gradients that are still scaled. Train in bf16, which needs no scaler "
    "(bf16=True instead of fp16=True)"
)
_LEAST_BUCKET = 64 * 2**20

_RETAINED = (
    "OptimizerInBackward: this backward keeps its graph (retain_graph=True), which is of no use: "
    "it steps the parameters, and a second backward over the same graph fails in torch"
)


class OptimizerInBackward(WrappedOptimizer):
    """Wraps an optimizer of any library; steps each of its parameters during backward.

    Args:
        optimizer: made as usual, over the parameters to train.
        max_norm_per_parameter: clip each parameter's gradient to this L2 norm before its step.
            The alternative to clipping by the global norm, and not the same: it bounds each
            tensor's gradient by itself.
        bucket_bytes: parameters are stepped together when their gradients take this much, and at
            the end of backward; 0 steps each by itself. By default a sixteenth of all
            gradients, and 64 MiB at least.

    Raises:
        ValueError: if the optimizer needs a closure or counts steps in its parameter groups, if
            parameters of a distributed run are not sharded by FSDP2 (their gradients are reduced
            over ranks after backward's hooks), or from `backward()`, before any parameter is
            stepped, if a gradient scaler has scaled a loss.
        TypeError: if it is no `torch.optim.Optimizer`.
        RuntimeError: from `backward()`, if a parameter gets a second gradient before `step()`.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        *,
        max_norm_per_parameter: float | None = None,
        bucket_bytes: int | None = None,
    ) -> None:
        super().__init__(optimizer)
        self._refuse_closures("cannot happen during backward")
        if max_norm_per_parameter is not None and max_norm_per_parameter <= 0:
            raise ValueError(
                f"max_norm_per_parameter must be above 0, got {max_norm_per_parameter}"
            )
        self.max_norm_per_parameter = max_norm_per_parameter
        if bucket_bytes is None:
            all_bytes = sum(p.numel() * p.element_size() for p in self._parameters())
            bucket_bytes = max(_LEAST_BUCKET, all_bytes // 16)
        self.bucket_bytes = bucket_bytes
        self._stepped: set[int] = set()
        self._waiting: list[Tensor] = []
        self._waiting_bytes = 0
        self._streams = _Streams()
        self._spent: dict[int, SpentGradient] = {}
        self._scaling_is_checked = False
        # A run before this one, as in a notebook, may have left its scaler behind.
        self._scalers_before = weakref.WeakSet(_scalers_in_use())
        self._refuse_unreduced(self._parameters())
        self._hook_all(self._find_places())

    # -- during backward ---------------------------------------------------------------------

    def _collect(self, num_bytes: int, parameter: Tensor) -> None:
        """Put a parameter whose gradient is complete into the bucket; step the bucket if full."""
        if not self._waiting and torch._C._current_graph_task_id() != -1:
            engine: Any = torch.autograd.Variable._execution_engine
            engine.queue_callback(self._step_waiting)
            if torch._C._autograd._get_current_graph_task_keep_graph():
                warnings.warn(_RETAINED, stacklevel=2)
        self._waiting.append(parameter)
        self._waiting_bytes += num_bytes
        if not parameter.is_cpu:
            self._streams.note(parameter.device)
        if self._waiting_bytes >= self.bucket_bytes:
            self._step_waiting()

    @torch.no_grad()
    def _step_waiting(self) -> None:
        """Step what is in the bucket, and free its gradients."""
        bucket: list[Tensor] = []
        gradients: list[Any] = []
        for parameter in self._waiting:
            gradient: Any = parameter.grad
            if type(gradient) is SpentGradient:
                gradient = parameter.grad = gradient.renewed
            if gradient is not None:
                bucket.append(parameter)
                gradients.append(gradient)
        self._waiting, self._waiting_bytes = [], 0
        if not bucket:
            return
        members = set(map(id, bucket))
        if len(members) < len(bucket) or not self._stepped.isdisjoint(members):
            raise RuntimeError(SECOND_BACKWARD)
        self._refuse_unreduced(bucket)
        self._refuse_scalers()
        self._stepped |= members
        most = self.max_norm_per_parameter
        with self._streams.together():
            norms = _norms(gradients, every=most is not None)
            if most is not None:
                for gradient, norm in zip(gradients, norms, strict=True):
                    gradient.mul_((most / (norm + 1e-6)).clamp_(max=1.0))
            self._step_some(bucket)
            for parameter, gradient, norm in zip(bucket, gradients, norms, strict=True):
                # Fakes and other subclasses take no subclass of ours: there is nothing to guard.
                if norm is None or type(gradient) is not Tensor:
                    parameter.grad = None
                else:
                    self._spend(parameter, norm)

    def _refuse_scalers(self) -> None:
        if not self._scaling_is_checked:
            if any(scaler not in self._scalers_before for scaler in _scalers_in_use()):
                raise ValueError(_NO_SCALER)
            self._scaling_is_checked = True

    def _spend(self, parameter: Tensor, norm: Tensor) -> None:
        """Put what stands for a gradient that is gone in its place."""
        try:
            spent = self._spent[id(parameter)]
            parameter.grad = spent
        except (KeyError, RuntimeError):  # the first time, or the parameter is of another kind now
            spent = self._spent[id(parameter)] = SpentGradient(parameter, self._stepped)
            parameter.grad = spent
        spent.norm_before_step = norm

    # -- what an optimizer does ----------------------------------------------------------------

    def step(self, closure: Callable[[], Any] | None = None) -> None:  # type: ignore[override]
        """End the update: the parameters were stepped during backward."""
        if closure is not None:
            raise ValueError(
                "OptimizerInBackward.step takes no closure: its steps happen in backward"
            )
        self._waiting += self._hook_all(self._parameters())  # frozen before
        self._step_waiting()
        self._stepped.clear()

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        self.optimizer.add_param_group(param_group)
        self._hook_all(self._find_places())

    def remove(self) -> None:
        """Take the hooks off; the wrapped optimizer is as any other again."""
        self._let_go()
        self._waiting.clear()
        self.zero_grad()

    @property
    def _step_supports_amp_scaling(self) -> bool:
        # GradScaler asks for this before it steps: the last moment, for a scaler that was made
        # after the first backward.
        raise ValueError(_NO_SCALER)

    # -- setting up ----------------------------------------------------------------------------

    def _hook_all(self, parameters: Iterable[Tensor]) -> list[Tensor]:
        """Hook what is trained; returns what was not hooked before. The hooks tie this to the
        parameters: it must not vanish unnoticed."""
        return self._hook(
            parameters, lambda p: partial(self._collect, p.numel() * p.element_size())
        )

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


def _scalers_in_use() -> list[torch.amp.GradScaler]:
    """The gradient scalers of this process that have scaled a loss.

    A gradient does not show that its loss was scaled, and a scaler meets the optimizer only after
    backward. So they are looked for among all objects, which takes some tenths of a second.
    """
    scalers = [each for each in gc.get_objects() if issubclass(type(each), torch.amp.GradScaler)]
    return [scaler for scaler in scalers if getattr(scaler, "_scale", None) is not None]


def _norms(gradients: list[Any], *, every: bool) -> Sequence[Any]:
    """The L2 norms of gradients, at once where they are alike; of fakes and the like if wanted."""
    dtype = gradients[0].dtype
    if all(type(g) is Tensor and g.dtype == dtype and not g.is_sparse for g in gradients):
        return torch._foreach_norm(gradients, 2, _norm_dtype(dtype))
    norms = [
        torch.linalg.vector_norm(each, dtype=_norm_dtype(each.dtype))
        if every or type(each) is Tensor
        else None
        for each in gradients
    ]
    return [norm.full_tensor() if isinstance(norm, DTensor) else norm for norm in norms]


def _norm_dtype(dtype: torch.dtype) -> torch.dtype:
    return torch.promote_types(dtype, torch.float32)


class _Streams:
    """The streams on which a bucket's gradients were made; the step comes after all of them, and
    what they do next comes after the step."""

    def __init__(self) -> None:
        self._seen: dict[torch.device, list[Any]] = {}

    def note(self, device: torch.device) -> None:
        """Note the present stream of `device`."""
        if device.type in ("cpu", "meta"):
            return
        present = torch.get_device_module(device.type).current_stream(device)
        seen = self._seen.setdefault(device, [])
        if present not in seen:
            seen.append(present)

    @contextmanager
    def together(self) -> Iterator[None]:
        pairs = []
        for device, seen in self._seen.items():
            present = torch.get_device_module(device.type).current_stream(device)
            pairs += [(present, other) for other in seen if other != present]
        self._seen.clear()
        for present, other in pairs:
            present.wait_stream(other)
        yield
        for present, other in pairs:
            other.wait_stream(present)
