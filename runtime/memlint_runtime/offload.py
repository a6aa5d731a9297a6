"""Activations that wait for backward in host memory instead of on the GPU.

What autograd saves goes to pinned memory on a side stream and comes back, in reverse order, ahead
of need. Gradients are bit-equal: bytes travel, nothing is computed anew. The gain is all of the
saved activations; the cost is PCIe traffic, hidden as long as a layer computes longer than its
activations take to copy (with checkpointing: always, from a few thousand tokens on).

    offload = offload_activations(model)
    for batch in loader:
        with offload:
            loss = model(**batch).loss
        loss.backward()

How it works. Autograd saves views; the unit here is the storage behind them (`_Storage`), which
moves once however often it is saved, and only when at least half of it has been saved: a slice of
a long-lived buffer does not drag the buffer along. Autograd owns the handles, the handles own the
storages, and this object knows them weakly, so whatever ends the graph, also an exception, frees
the device memory and returns the host memory.

Named hazards, each with a test that breaks without its guard:
- Address reuse: a storage is found again by its address only while a weak reference says that it
  still lives; else a new tensor at an old address would come back with the old one's data.
- Overwritten after saving: hooks switch autograd's own check off, so each handle watches the
  version counter of what was saved, through an empty tensor that shares the counter.
- Memory reused too early: the device memory of a copy under way is dropped only after the
  computing stream waits for the copy.
- Storages end where the garbage collector runs, in any thread: they make no stream wait, and leave
  what they counted on a queue.
- Handles that own their graph: a saved output holds the node that holds the handle, a cycle that
  no garbage collector sees; handles keep detached tensors.
- Losses that overwrite their logits behind the version counter (Liger's): what loss functions
  save stays on the device; a storage that was sent and is then saved by one of them is refused.

Sources: PyTorch's notes on saved tensor hooks; torchtune's and TRL's OffloadActivations, whose
measured traffic the benchmarks compare with.
"""

from __future__ import annotations

import heapq
import itertools
import re
import sys
import weakref
from collections import deque
from dataclasses import dataclass
from types import FrameType
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.utils._python_dispatch import is_traceable_wrapper_subclass
from torch.utils._pytree import tree_leaves

from memlint_runtime.device_copies import Copies, copies_for
from memlint_runtime.host_pool import HostPool
from memlint_runtime.integrations import require_model

__all__ = ["ActivationOffload", "keep_on_device", "offload_activations"]

# What these autograd functions save is used at once, or overwritten by them: it stays.
# By a word of their own name, in either spelling, or by the packages that hold nothing else.
_LOSS_FUNCTION = re.compile(
    r"(?:Loss|LogProbs?|CrossEntropy)(?![a-z])|(?<![a-z])(?:loss|log_?probs?|cross_?entropy)(?![a-z])"
)
_LOSS_PACKAGES = ("memlint_runtime.losses", "liger_kernel.chunked_loss")
_LIGER_OVERWRITES = (
    "{} overwrites its input, which another operation saved before and which has left the device: "
    "its gradients would be wrong. Use memlint_runtime.fuse_causal_lm_loss instead, or run the "
    "loss outside of offload_activations."
)
_VIEWS = {"TBackward0", "TransposeBackward0", "PermuteBackward0", "ViewBackward0"}
_FUNCTION_APPLY = torch.autograd.Function.apply.__func__.__code__  # type: ignore[attr-defined]


def offload_activations(
    model: nn.Module | None = None,
    *,
    min_bytes: int = 65536,
    budget_bytes: int | None = None,
    prefetch: int = 2,
    prefetch_bytes: int = 32 * 2**20,
    in_flight: int = 3,
    device: torch.device | str | None = None,
    host: torch.device | str = "cpu",
    copies: Copies | None = None,
) -> ActivationOffload:
    """A reusable context manager for forward passes; run backward inside or outside of it.

    Args:
        model: its buffers stay on the device, and so do its outputs. Without it parameters are
            still recognized, buffers and outputs are not.
        min_bytes: storages smaller than this stay.
        budget_bytes: bytes of activations that may stay on the device. Only what exceeds them
            goes, the largest first and of equal ones the oldest. None: everything goes.
        prefetch: how many storages come back before they are asked for, at least.
        prefetch_bytes: how many bytes come back before they are asked for, at least. Without
            checkpointing many small storages make up a layer, and a few of them are no head start.
        in_flight: how many storages may be under way to the host, their memory still taken.
        device: what to offload from; the accelerator of this machine unless given. Tensors
            elsewhere pass through.
        host: where activations wait. "meta" under fakes, to count bytes.
        copies: how bytes travel; by default side streams where the device has them.

    Raises:
        ValueError: for a negative limit.
        TypeError: for a model that is none.
        RuntimeError: in backward, if a saved tensor was overwritten in place after it was saved.
    """
    if model is not None:
        require_model(model)
    for name, value in [
        ("min_bytes", min_bytes),
        ("budget_bytes", budget_bytes or 0),
        ("prefetch", prefetch),
        ("prefetch_bytes", prefetch_bytes),
        ("in_flight", in_flight),
    ]:
        if value < 0:
            raise ValueError(f"{name} must be 0 or more, got {value}")
    if device is None:
        accelerator = torch.accelerator.current_accelerator()
        device = accelerator if accelerator is not None else torch.device("cuda")
    device = torch.device(device)
    pool = HostPool(host, pin=device.type not in ("cpu", "meta"))
    if copies is None and (device.type == "cpu" or torch.accelerator.is_available()):
        copies = copies_for(device.type)
    limits = _Limits(min_bytes, budget_bytes, prefetch, prefetch_bytes, in_flight)
    return ActivationOffload(model, device.type, pool, copies, limits)


@dataclass(frozen=True)
class _Limits:
    """What `offload_activations` was given of these names."""

    min_bytes: int
    budget_bytes: int | None
    prefetch: int
    prefetch_bytes: int
    in_flight: int


class keep_on_device(saved_tensors_hooks):  # noqa: N801 - used like a function
    """A context manager for a part of a forward pass whose activations shall stay."""

    def __init__(self) -> None:
        super().__init__(_Kept, _Kept.unpack)


class ActivationOffload:
    """Packs and unpacks what autograd saves; made by `offload_activations`.

    For one thread at a time: each thread that trains takes one of its own.
    """

    def __init__(
        self,
        model: nn.Module | None,
        device_type: str,
        pool: HostPool,
        copies: Copies | None,
        limits: _Limits,
    ) -> None:
        self.model = model
        self.device_type = device_type
        self.pool = pool
        self.copies = copies
        self.limits = limits
        self._resident_bytes = 0
        self._discounts: deque[int] = deque()
        self.sent_bytes = 0  # since the beginning
        self._known: weakref.WeakValueDictionary[int, _Storage] = weakref.WeakValueDictionary()
        self._order: list[weakref.ref[_Storage]] = []  # as saved; dead ones are cut off the end
        self._leaving: deque[weakref.ref[_Storage]] = deque()
        self._candidates: list[tuple[int, int, weakref.ref[_Storage]]] = []  # a heap
        self._age = itertools.count()
        self._stays: dict[int, weakref.ref[Any] | None] = {}  # addresses of weights and outputs
        self._entered: list[tuple[saved_tensors_hooks, Any]] = []

    @property
    def resident_bytes(self) -> int:
        """Bytes of those that would go if the budget asked for it."""
        while self._discounts:
            self._resident_bytes -= self._discounts.popleft()
        return self._resident_bytes

    def __enter__(self) -> ActivationOffload:
        self._stays.clear()
        hook = None
        if self.model is not None:
            for tensor in [*self.model.parameters(), *self.model.buffers()]:
                self._stays[_address(tensor)] = None
            hook = self.model.register_forward_hook(self._keep_outputs)
        hooks = saved_tensors_hooks(self._pack, self._unpack)
        hooks.__enter__()
        self._entered.append((hooks, hook))
        return self

    def __exit__(self, *exc_info: Any) -> None:
        hooks, hook = self._entered.pop()
        hooks.__exit__(*exc_info)
        if hook is not None:
            hook.remove()

    def __deepcopy__(self, memo: dict[int, Any]) -> ActivationOffload:
        """The same settings with nothing saved: models that hold one are copied for reference."""
        model = None if self.model is None else memo.get(id(self.model))
        pool = HostPool(self.pool.host, pin=self.pool.pin)
        return ActivationOffload(model, self.device_type, pool, self.copies, self.limits)

    # -- forward -----------------------------------------------------------------------------

    def _pack(self, tensor: Tensor) -> _Kept | _View:
        function = _saving_function(sys._getframe(1))
        with torch.no_grad():
            if not self._may_leave(tensor):
                return _Kept(tensor)
            storage = self._find(tensor)
            if function is not None and _is_loss(function):
                if storage is not None and storage.blocks and "liger" in function.__module__:
                    raise RuntimeError(_LIGER_OVERWRITES.format(function.__name__))
                return _Kept(tensor)
            if storage is None:
                storage = self._add(tensor)
            storage.saved_bytes += tensor.numel() * tensor.element_size()
            if not storage.leaves and 2 * storage.saved_bytes >= storage.num_bytes:
                self._let_go(storage)
            return _View(storage, tensor)

    def _may_leave(self, tensor: Tensor) -> bool:
        if tensor.device.type != self.device_type or self.copies is None:
            return False
        # What is saved while backward runs was computed again and is used at once.
        if torch._C._current_graph_task_id() != -1:
            return False
        if not _is_plain_memory(tensor):
            return False
        # FSDP gathers weights into parameters of its own, which no list of the model names.
        if isinstance(tensor, nn.Parameter) or isinstance(tensor._base, nn.Parameter):
            return False
        raw = tensor.untyped_storage()
        if raw.nbytes() < self.limits.min_bytes or _is_cast_weight(tensor):
            return False
        if raw._cdata not in self._stays:
            return True
        output = self._stays[raw._cdata]
        return output is not None and output() is None

    def _find(self, tensor: Tensor) -> _Storage | None:
        storage = self._known.get(_address(tensor))
        if storage is None or storage.watch() is None or storage.version != tensor._version:
            return None
        return storage

    def _add(self, tensor: Tensor) -> _Storage:
        while self._order and self._order[-1]() is None:
            self._order.pop()
        if not self._order:
            self._candidates.clear()
        storage = _Storage(self, len(self._order), tensor)
        self._order.append(weakref.ref(storage))
        self._known[_address(tensor)] = storage
        return storage

    def _let_go(self, storage: _Storage) -> None:
        storage.leaves = True
        if self.limits.budget_bytes is None:
            self._send(storage)
            return
        self._resident_bytes += storage.num_bytes
        storage.counted = True
        rank = (-storage.num_bytes, next(self._age), weakref.ref(storage))
        heapq.heappush(self._candidates, rank)
        while self.resident_bytes > self.limits.budget_bytes and self._candidates:
            victim = heapq.heappop(self._candidates)[2]()
            if victim is not None and victim.counted:
                self._send(victim)

    def _send(self, storage: _Storage) -> None:
        assert self.copies is not None
        assert storage.on_device is not None
        storage.discount()
        storage.blocks = self.pool.take(storage.num_bytes, storage.device)
        storage.ticket = self.copies.send(storage.on_device, storage.blocks)
        storage.under_way = True
        self.sent_bytes += storage.num_bytes
        self._leaving.append(weakref.ref(storage))
        self._settle()

    def _settle(self) -> None:
        """Drop the device memory of what has arrived, and of the oldest beyond `in_flight`."""
        assert self.copies is not None
        while self._leaving:
            storage = self._leaving[0]()
            if storage is not None and storage.under_way and not storage.stays:
                if len(self._leaving) <= self.limits.in_flight and not self.copies.is_done(
                    storage.ticket
                ):
                    return
                storage.settle()
                storage.on_device = None
            self._leaving.popleft()

    def _keep_outputs(self, module: nn.Module, args: Any, outputs: Any) -> None:
        """The model's outputs live on anyway: sending them would only cost time."""
        for tensor in tree_leaves(outputs):
            if not isinstance(tensor, Tensor) or tensor.device.type != self.device_type:
                continue
            if is_traceable_wrapper_subclass(tensor) or tensor.layout != torch.strided:
                continue
            self._stays[_address(tensor)] = weakref.ref(tensor.untyped_storage())
            storage = self._find(tensor)
            if storage is not None:
                storage.discount()
                storage.stays = True
                if storage.on_device is None:
                    storage.on_device = _whole(tensor.detach())

    # -- backward ----------------------------------------------------------------------------

    @torch.no_grad()
    def _unpack(self, handle: _Kept | _View) -> Tensor:
        if isinstance(handle, _Kept):
            return handle.unpack()
        handle.check_unchanged()
        storage = handle.storage
        self._fetch(storage)
        if storage.ticket is not None and not storage.under_way:
            storage.settle()
        self._fetch_ahead_of(storage)
        tensor = handle.of(storage)
        if not handle.taken:
            handle.taken = True
            storage.awaited -= 1
        if storage.awaited == 0 and storage.blocks and not storage.under_way and not storage.stays:
            storage.on_device = None  # the operation that asked holds it now
        return tensor

    def _fetch(self, storage: _Storage) -> None:
        if storage.on_device is not None:
            return
        assert self.copies is not None
        storage.on_device = torch.empty(storage.num_bytes, dtype=torch.uint8, device=storage.device)
        storage.ticket = self.copies.fetch(storage.on_device, storage.blocks)

    def _fetch_ahead_of(self, storage: _Storage) -> None:
        ahead = bytes_ahead = 0
        for index in range(storage.index - 1, -1, -1):
            if ahead >= self.limits.prefetch and bytes_ahead >= self.limits.prefetch_bytes:
                return
            earlier = self._order[index]()
            if earlier is not None and earlier.awaited:
                self._fetch(earlier)
                ahead += 1
                bytes_ahead += earlier.num_bytes


class _Storage:
    """One storage that backward needs: on the device, on the host, or under way between them."""

    def __init__(self, owner: ActivationOffload, index: int, tensor: Tensor) -> None:
        self.owner = owner
        self.index = index
        self.device = tensor.device
        self.version = tensor._version
        self.watch = weakref.ref(tensor.untyped_storage())
        self.on_device: Tensor | None = _whole(tensor.detach())
        self.num_bytes = self.on_device.numel()
        self.blocks: tuple[Tensor, ...] = ()
        self.ticket: Any = None
        self.saved_bytes = 0
        self.awaited = 0  # handles that backward has not asked for yet
        self.leaves = False  # enough of it was saved
        self.under_way = False  # to the host
        self.stays = False  # on the device whatever happens: a model output
        self.counted = False  # in the owner's resident bytes

    def settle(self) -> None:
        """Let the computation go on only after the copy under way."""
        if self.ticket is not None or self.under_way:
            assert self.owner.copies is not None
            self.owner.copies.wait(self.ticket)
        self.ticket = None
        self.under_way = False

    def discount(self) -> None:
        if self.counted:
            self.owner._discounts.append(self.num_bytes)
            self.counted = False

    def __del__(self) -> None:
        self.discount()
        if self.on_device is not None and (self.ticket is not None or self.under_way):
            assert self.owner.copies is not None
            self.owner.copies.leave(self.on_device, self.ticket)
        self.owner.pool.give(self.blocks, self.device)


class _Watch:
    """Tells whether a tensor was changed in place, without keeping its memory."""

    def __init__(self, tensor: Tensor) -> None:
        self.version = tensor._version
        # Assigning `data` leaves the version counter, which all views share, as it is.
        self._counter = tensor.detach()
        self._counter.data = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
        self.shape = tuple(tensor.shape)
        self.dtype = tensor.dtype

    def check_unchanged(self) -> None:
        if self._counter._version == self.version:
            return
        node: Any = torch._C._current_autograd_node()
        name = "an operation" if node is None else node.name()
        raise RuntimeError(
            f"{name} needs a tensor of shape {self.shape} and type {self.dtype} that was "
            f"overwritten in place after the forward pass saved it (version "
            f"{self._counter._version}, saved at version {self.version}). Write the in-place "
            f"operation that follows in forward out of place, or clone the tensor before it."
        )


class _Kept(_Watch):
    """Autograd's handle on a tensor that stays on its device."""

    def __init__(self, tensor: Tensor) -> None:
        # An output's node owns this handle: with the output in it neither would ever be freed.
        self.tensor = tensor if tensor.grad_fn is None else tensor.detach()
        self._counter = self.tensor
        self.version = tensor._version
        self.shape = tuple(tensor.shape)
        self.dtype = tensor.dtype

    def unpack(self) -> Tensor:
        self.check_unchanged()
        return self.tensor


class _View(_Watch):
    """Autograd's handle on a view of a storage that may leave."""

    def __init__(self, storage: _Storage, tensor: Tensor) -> None:
        super().__init__(tensor)
        self.storage = storage
        self.stride = tensor.stride()
        self.offset = tensor.storage_offset()
        self.taken = False
        storage.awaited += 1

    def of(self, storage: _Storage) -> Tensor:
        assert storage.on_device is not None
        size = self.dtype.itemsize
        elements = storage.on_device[: storage.num_bytes // size * size].view(self.dtype)
        return elements.as_strided(self.shape, self.stride, self.offset)


def _is_plain_memory(tensor: Tensor) -> bool:
    """True if the bytes of the storage, copied and viewed again, are the tensor."""
    if tensor.layout != torch.strided or tensor.is_quantized or tensor.numel() == 0:
        return False
    return not (is_traceable_wrapper_subclass(tensor) or tensor.is_conj() or tensor.is_neg())


def _address(tensor: Tensor) -> int:
    while is_traceable_wrapper_subclass(tensor):
        tensor = getattr(tensor, tensor.__tensor_flatten__()[0][0])
    return int(tensor.untyped_storage()._cdata)


def _whole(tensor: Tensor) -> Tensor:
    """All bytes of the storage behind `tensor`, as a flat uint8 view."""
    elements = tensor.untyped_storage().nbytes() // tensor.element_size()
    return tensor.as_strided((elements,), (1,), 0).view(torch.uint8)


def _saving_function(frame: FrameType) -> type | None:
    """The `autograd.Function` that saves while `frame` is the innermost one, if one does."""
    if frame.f_code is not _FUNCTION_APPLY:
        return None
    function = frame.f_locals.get("cls")
    return function if isinstance(function, type) else None


def _is_loss(function: type) -> bool:
    name = function.__qualname__.rpartition(".")[2]
    return function.__module__.startswith(_LOSS_PACKAGES) or bool(_LOSS_FUNCTION.search(name))


def _is_cast_weight(tensor: Tensor) -> bool:
    """True if this is a parameter cast to another type, as autocast makes one each step."""
    node: Any = tensor.grad_fn
    while node is not None and type(node).__name__ in _VIEWS:
        node = node.next_functions[0][0]
    if node is None or type(node).__name__ != "ToCopyBackward0":
        return False
    return isinstance(getattr(node.next_functions[0][0], "variable", None), nn.Parameter)
