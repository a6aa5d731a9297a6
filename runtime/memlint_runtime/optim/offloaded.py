"""Optimizer states and gradients that wait in host memory, and visit the device when they step.

    optimizer = OffloadedOptimizer(torch.optim.AdamW(model.parameters(), lr=1e-5))

What: after a step the states of each parameter go to host memory, and gradients as soon as backward
has computed them. `step()` brings both back, a bucket of parameters at a time, and the wrapped
optimizer steps the bucket on the device while the next one travels.
Why: AdamW's states take two or four times the weights' bytes, 30 GiB for an 8B model in bf16, which
a step needs once. On the device is a bucket, the next one, and what is on its way out.
Exact: the optimizer computes what it would, where it would. Micro-batches accumulate on the device:
the sum so far comes back and is added to, in the gradient's own type.
Cost: states travel both ways once a step, gradients once a micro-batch. At 25 GB/s (PCIe 4) AdamW's
states of 8B take 1.3 s each way. Host memory holds both, page-locked from the first step on.

Named hazards, each with a test that breaks without its guard:
- Memory on the device is dropped only when the copy out of it, or into it, was waited for; also
  where a step raises.
- What is read on the host (`state`, `state_dict()`) waits for all copies to it, also for those
  whose device memory was dropped.
- Loading a checkpoint would put all states on the device: they are loaded into host memory.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from functools import cache, partial
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor
from torch.optim import Optimizer

from memlint_runtime.device_copies import Copies, copies_for
from memlint_runtime.optim.spent import StandIn
from memlint_runtime.optim.wrapped import WrappedOptimizer
from memlint_runtime.streaming.page_lock import PageLock, page_aligned
from memlint_runtime.streaming.slots import as_bytes, from_bytes

__all__ = ["HostGradient", "OffloadedOptimizer"]

_GRADIENT = ".grad"  # beside the names of states

_Key = tuple[int, str]  # the identity of a parameter, the name of its state


class HostGradient(StandIn):
    """What `.grad` holds of a gradient in host memory. changes: what was done to it meanwhile, as
    by clipping; it is done when the gradient is back."""

    refusal = (
        "a gradient that OffloadedOptimizer keeps in host memory. Clipping by the global norm "
        "(clip_grad_norm_) works; for a gradient scaler, or to read gradients, pass "
        "OffloadedOptimizer(..., gradients=False), which offloads the states alone"
    )

    def __init__(self, gradient: Tensor) -> None:
        super().__init__()
        self.changes: list[Callable[[Tensor], Any]] = []

    def add_in_backward(self, gradient: Tensor) -> None:
        self.renewed = gradient

    def scale(self, factor: Any) -> bool:
        if isinstance(factor, Tensor):
            if factor.numel() != 1:  # the norm would be another
                return False
            factor = factor.clone()
        self.changes.append(lambda gradient: gradient.mul_(factor))
        self.norm_before_step = (self.norm_before_step * factor).abs()
        return True

    def clear(self) -> None:
        self.changes = [Tensor.zero_]
        self.norm_before_step = torch.zeros_like(self.norm_before_step)

    def changed(self, gradient: Tensor) -> Tensor:
        """The gradient, back from the host, changed in place."""
        for change in self.changes:
            change(gradient)
        return gradient

    def visit(self, parameter: Tensor, gradient: Tensor) -> None:
        """Let the gradient, back from the host, be the parameter's for a step."""
        parameter.grad = self.renewed = self.changed(gradient)


class OffloadedOptimizer(WrappedOptimizer):
    """Wraps an optimizer of any library; its states, and gradients, wait in host memory.

    Args:
        optimizer: made as usual, over the parameters to train.
        gradients: offload gradients, too. On one process alone: others reduce them after backward's
            hooks.
        bucket_bytes: of states and gradients that visit at once; three times that is on the device.
        min_bytes: smaller tensors stay.
        copies: how bytes travel; by default side streams where the device has them.

    Schedulers, `clip_grad_norm_`, `state_dict()` and resuming work as ever; a gradient scaler does
    with `gradients=False`.

    Raises:
        ValueError: for parameters that are sharded (FSDP2 has a CPU offload of its own), gradients
            on several processes, an optimizer that needs a closure, or, from `step()`, one that
            counts steps in its parameter groups.
        TypeError: if it is no optimizer.
    """

    # A scaler would set its scale here, for a fused optimizer to read: the wrapped one does not.
    _step_supports_amp_scaling = False

    def __init__(
        self,
        optimizer: Optimizer,
        *,
        gradients: bool = True,
        bucket_bytes: int = 256 * 2**20,
        min_bytes: int = 4096,
        copies: Copies | None = None,
    ) -> None:
        super().__init__(optimizer)
        self._refuse_closures("would bring all states several times")
        self.gradients = gradients
        self.bucket_bytes = bucket_bytes
        self.min_bytes = min_bytes
        self.pages = PageLock()
        # By type of device and way: both ways at once, each on a stream of its own.
        self._copies_for: Callable[[str, str], Copies] = cache(
            lambda device_type, way: copies or copies_for(device_type)
        )
        self._hosts: dict[_Key, Tensor] = {}
        self._sent: dict[_Key, tuple[Copies, Any]] = {}
        self._leaving: deque[tuple[Tensor, Copies, Any]] = deque()
        self._leaving_bytes = 0
        self._coming: dict[_Key, tuple[Tensor, Tensor, Copies, Any]] = {}
        self._stand_ins: dict[int, HostGradient] = {}
        self._lock = threading.RLock()  # backward has a thread for each device
        self._adopt()

    def _adopt(self) -> None:
        ready = torch.distributed.is_available() and torch.distributed.is_initialized()
        for parameter in self._find_places():
            if isinstance(parameter, DTensor):
                raise ValueError(
                    "OffloadedOptimizer takes parameters that are whole, got sharded ones: use "
                    "FSDP2's own offload, fully_shard(..., offload_policy=CPUOffloadPolicy())"
                )
            if self.gradients and ready and torch.distributed.get_world_size() > 1:
                raise ValueError(
                    "OffloadedOptimizer offloads gradients on one process, got "
                    f"{torch.distributed.get_world_size()}, which reduce them when backward's "
                    "hooks have run: pass gradients=False"
                )
        if self.gradients:
            self._hook(self._parameters(), lambda parameter: self._take_gradient)

    # -- copies ------------------------------------------------------------------------------

    def _host(self, key: _Key, like: Tensor) -> Tensor:
        """Host memory for a tensor, the same from step to step."""
        host = self._hosts.get(key)
        layout = like.dtype, like.shape, like.stride()
        if host is None or (host.dtype, host.shape, host.stride()) != layout:
            piece = page_aligned(like.numel() * like.element_size())
            host = self._hosts[key] = from_bytes(piece, 0, like)
        return host

    def _send(self, key: _Key, tensor: Tensor) -> Tensor:
        """Start to copy a tensor to the host; returns where it will be."""
        host, source = self._host(key, tensor), as_bytes(tensor)
        self.pages.lock(host, tensor.device)
        copies = self._copies_for(tensor.device.type, "out")
        ticket = copies.send(source, (as_bytes(host),))
        self._sent[key] = copies, ticket
        self._leaving.append((source, copies, ticket))
        self._leaving_bytes += source.numel()
        self._drop_until(self.bucket_bytes)
        return host

    def _drop_until(self, limit: int) -> None:
        """Drop what was sent, the oldest first, until no more than `limit` bytes are left."""
        while self._leaving_bytes > limit:
            source, copies, ticket = self._leaving.popleft()
            copies.wait(ticket)
            self._leaving_bytes -= source.numel()

    def _finish(self) -> None:
        """Let the calling thread go on when the host has all that was sent to it."""
        self._drop_until(0)
        for copies, ticket in self._sent.values():
            copies.finish(ticket)
        self._sent.clear()

    def _fetch(self, key: _Key, device: torch.device) -> None:
        """Start to copy a tensor to the device."""
        if key in self._coming:  # a step raised before it had arrived
            self._arrived(key)
        host = self._hosts[key]
        if key in self._sent:
            out, ticket = self._sent[key]
            out.wait(ticket)
        self.pages.lock(host, device)
        tensor = torch.empty_strided(host.shape, host.stride(), dtype=host.dtype, device=device)
        target, copies = as_bytes(tensor), self._copies_for(device.type, "in")
        self._coming[key] = tensor, target, copies, copies.fetch(target, (as_bytes(host),))

    def _arrived(self, key: _Key) -> Tensor:
        """Let the computation go on when a tensor is on the device; returns it."""
        tensor, _, copies, ticket = self._coming.pop(key)
        copies.wait(ticket)
        return tensor

    def _may_leave(self, tensor: Any, device: torch.device | None = None) -> bool:
        return (
            type(tensor) is Tensor
            and tensor.layout is torch.strided
            and device in (None, tensor.device)
            and tensor.numel() * tensor.element_size() >= max(self.min_bytes, 1)
            and bool(torch.ops.aten.is_non_overlapping_and_dense.default(tensor))
        )

    # -- gradients ---------------------------------------------------------------------------

    @torch.no_grad()
    def _take_gradient(self, parameter: Tensor) -> None:
        """Send a gradient that is complete to the host, added to what is there."""
        gradient = parameter.grad
        key = id(parameter), _GRADIENT
        with self._lock:
            if type(gradient) is HostGradient:
                addend, gradient.renewed = gradient.renewed, None
                assert addend is not None
                self._fetch(key, parameter.device)
                total = gradient.changed(self._arrived(key)).add_(addend)
            elif gradient is not None and self._may_leave(gradient, parameter.device):
                total = gradient
            else:
                return
            stand_in = self._stand_ins.get(id(parameter))
            if stand_in is None or stand_in.dtype != total.dtype or stand_in.device != total.device:
                stand_in = self._stand_ins[id(parameter)] = HostGradient(total)
            stand_in.changes = []
            # In the gradient's own type, as clipping would take it.
            stand_in.norm_before_step = torch.linalg.vector_norm(total)
            self._send(key, total)
            parameter.grad = stand_in

    # -- the step ----------------------------------------------------------------------------

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Step bucket by bucket; the next one travels meanwhile."""
        result = None
        if closure is not None:
            with torch.enable_grad():
                result = closure()
        self._adopt()
        with torch.no_grad():
            buckets = [*self._buckets(), []]
            coming = self._bring(buckets[0])
            for bucket, following in pairwise(buckets):
                try:
                    arriving, coming = coming, self._bring(following)
                    self._put(arriving)
                    self._step_some(bucket)
                finally:
                    self._send_back(bucket)
        return result

    def _buckets(self) -> Iterator[list[Tensor]]:
        bucket: list[Tensor] = []
        held = 0
        for parameter in self._parameters():
            if parameter.grad is not None:
                bucket.append(parameter)
                state = self.optimizer.state.get(parameter, {})
                tensors = [each for each in state.values() if isinstance(each, Tensor)]
                held += sum(each.numel() * each.element_size() for each in [parameter, *tensors])
                if held >= self.bucket_bytes:
                    yield bucket
                    bucket, held = [], 0
        if bucket:
            yield bucket

    def _bring(self, bucket: list[Tensor]) -> list[tuple[_Key, Callable[[Tensor], None]]]:
        """Start to copy what a bucket's step needs; returns what puts each in its place."""
        places: list[tuple[_Key, Callable[[Tensor], None]]] = []
        for parameter in bucket:
            identity, device = id(parameter), parameter.device
            state = self.optimizer.state.get(parameter, {})
            for name, value in state.items():
                if value is self._hosts.get((identity, name)):
                    self._fetch((identity, name), device)
                    places.append(((identity, name), partial(state.__setitem__, name)))
            if type(parameter.grad) is HostGradient:
                self._fetch((identity, _GRADIENT), device)
                places.append(((identity, _GRADIENT), partial(parameter.grad.visit, parameter)))
        return places

    def _put(self, places: list[tuple[_Key, Callable[[Tensor], None]]]) -> None:
        for key, put in places:
            put(self._arrived(key))

    def _send_back(self, bucket: list[Tensor]) -> None:
        for parameter in bucket:
            self._send_states(parameter)
            stand_in = self._stand_ins.get(id(parameter))
            if stand_in is not None:
                # The host has it still: it is dropped by zero_grad(), or added to.
                if parameter.grad is not None and parameter.grad is stand_in.renewed:
                    parameter.grad = stand_in
                stand_in.renewed = None

    def _send_states(self, parameter: Tensor) -> None:
        state = self.optimizer.state.get(parameter, {})
        for name, value in state.items():
            host = self._hosts.get((id(parameter), name))
            if value is not host and self._may_leave(value, parameter.device):
                state[name] = self._send((id(parameter), name), value)

    # -- what an optimizer does ----------------------------------------------------------------

    def _states(self) -> Any:
        self._finish()
        return self.optimizer.state

    state: Any = property(_states)

    def state_dict(self) -> dict[str, Any]:
        self._finish()
        return self.optimizer.state_dict()

    @torch.no_grad()
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load into host memory what either optimizer saved."""
        self._finish()
        if type(self.optimizer).load_state_dict is not Optimizer.load_state_dict:
            self.optimizer.load_state_dict(state_dict)
            for parameter in self._parameters():
                self._send_states(parameter)
            return
        groups, saved = state_dict["param_groups"], state_dict["state"]
        numbers = [number for group in groups for number in group["params"]]
        rest = {
            number: {
                name: value for name, value in saved[number].items() if not self._may_leave(value)
            }
            for number in numbers
            if number in saved
        }
        self.optimizer.load_state_dict({**state_dict, "state": {**saved, **rest}})
        fit = Optimizer._process_value_according_to_param_policy
        for number, parameter in zip(numbers, list(self._parameters()), strict=True):
            on_host = torch.empty(0, dtype=parameter.dtype)
            for name, value in saved.get(number, {}).items():
                if self._may_leave(value):
                    value = fit(on_host, value, number, groups, name)
                    host = self._host((id(parameter), name), value).copy_(value)
                    self.optimizer.state[parameter][name] = host

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        self.optimizer.add_param_group(param_group)
        self._adopt()

    @torch.no_grad()
    def remove(self) -> None:
        """Bring all back to the device; the wrapped optimizer is as any other again."""
        self._put(self._bring(list(self._parameters())))
        for key in list(self._coming):  # a step raised before it had arrived
            self._arrived(key)
        self._finish()
        self._let_go()
        self._hosts.clear()
        self._stand_ins.clear()
        self.pages.release()
