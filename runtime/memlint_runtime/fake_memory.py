"""What is alive, by kind, at every operation: exact peak memory of a training step, without a GPU.

`track_memory` watches each operation that tensors go through and keeps one record for each storage
that is alive, found again through weak references, so views count once and a freed tensor counts
no more. Under `FakeTensorMode` nothing is allocated: a 7B model's step runs on a laptop in half a
minute and the numbers repeat to the byte.

    with FakeTensorMode(), track_memory() as tracker:
        model = AutoModelForCausalLM.from_config(config)
        model(ids, labels=ids).loss.backward()
    tracker.peak.activations        # bytes

What it cannot see: what one kernel allocates and frees inside itself (workspaces), the allocator's
rounding and fragmentation, and the CUDA context. Those need a GPU (`measure_memory`).

Cost: some 20 microseconds an operation; a hook on each trained parameter while the context is open.
Kinds follow `torch.distributed._tools.mem_tracker`, which the tests compare it with; that one hooks
every parameter's gradient and so fails on frozen parameters, as in LoRA.
"""

from __future__ import annotations

import contextlib
import weakref
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn
from torch._guards import active_fake_mode
from torch._subclasses.fake_tensor import FakeTensor
from torch.distributed.tensor import DTensor
from torch.optim import Optimizer
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)
from torch.utils._python_dispatch import TorchDispatchMode, is_traceable_wrapper_subclass
from torch.utils._pytree import tree_leaves
from torch.utils.weak import WeakIdKeyDictionary

__all__ = ["Kind", "MemoryEvent", "MemorySnapshot", "MemoryTracker", "track_memory"]

Kind = Literal["parameters", "gradients", "activations", "optimizer_states", "temporaries"]


@dataclass(frozen=True, slots=True)
class MemorySnapshot:
    """Bytes alive at one moment. `total` is the sum of the five kinds.

    parameters: weights and buffers of the model. gradients: what `.grad` of a parameter holds.
    activations: what a forward pass (or a recomputed one) made and keeps, and its inputs.
    optimizer_states: what optimizers keep from step to step. temporaries: all else, such as the
    gradients of activations during backward.
    """

    total: int = 0
    parameters: int = 0
    gradients: int = 0
    activations: int = 0
    optimizer_states: int = 0
    temporaries: int = 0


@dataclass(frozen=True, slots=True)
class MemoryEvent:
    """One point of the timeline: the operation after which `memory` was alive, in its phase."""

    operation: str
    phase: str
    memory: MemorySnapshot


@dataclass(slots=True, eq=False)
class _Storage:
    """A live storage: its address, its bytes as last seen, what it is for, the watch on its end."""

    address: int
    num_bytes: int
    kind: Kind
    watch: weakref.ref[Any] | None = None


class MemoryTracker(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts live storages on `device` while active; `track_memory` makes and enters one.

    Storages on other devices count nothing: a test that offloads under fakes sends to "meta".
    """

    def __init__(
        self,
        models: Iterable[nn.Module] = (),
        optimizers: Iterable[Optimizer] = (),
        *,
        device: torch.device | str = "cpu",
        record_timeline: bool = False,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.device_type = torch.device(device).type
        self.phases: dict[str, MemorySnapshot] = {}
        self.timeline: list[MemoryEvent] = []
        self._record_timeline = record_timeline
        self._peak = MemorySnapshot()
        self._bytes: dict[Kind, int] = dict.fromkeys(get_args(Kind), 0)
        self._live: dict[int, _Storage] = {}
        # Ends of storages arrive from any thread and in the middle of any statement; they wait
        # here until the next operation books them.
        self._freed: deque[_Storage] = deque()
        self._made_without_grad: set[int] = set()
        # By identity: a set of tensors would compare them element by element.
        self._hooked: Any = WeakIdKeyDictionary()
        self._entered = contextlib.ExitStack()
        self._named_phases: list[str] = []
        self._entry_fake_mode: Any = None
        self._stepping: list[Optimizer] = []
        self._models = tuple(models)
        self._optimizers = tuple(optimizers)

    # -- what it says ------------------------------------------------------------------------

    @property
    def current(self) -> MemorySnapshot:
        """What is alive now, in bytes."""
        self._book_freed()
        return MemorySnapshot(total=sum(self._bytes.values()), **self._bytes)

    @property
    def peak(self) -> MemorySnapshot:
        """What was alive when the total was largest, in bytes."""
        return self._peak

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Book the peak of what runs inside under `phases[name]`.

        Outside any named phase the tracker tells them apart itself: forward, backward, optimizer.
        """
        self._named_phases.append(name)
        self._sample("phase")
        try:
            yield
        finally:
            self._named_phases.remove(name)

    # -- entering and leaving ----------------------------------------------------------------

    def __enter__(self) -> MemoryTracker:
        self._entry_fake_mode = active_fake_mode()
        super().__enter__()  # type: ignore[no-untyped-call]
        if self._entry_fake_mode is not None:
            self._entered.enter_context(_convertible_fakes())
        self._entered.callback(register_optimizer_step_pre_hook(self._before_step).remove)
        self._entered.callback(register_optimizer_step_post_hook(self._after_step).remove)
        for model in self._models:
            for parameter in model.parameters():
                self._adopt_parameter(parameter)
            for buffer in model.buffers():
                self._book(buffer, "parameters", force=True)
        for optimizer in self._optimizers:
            self._book_states(optimizer)
        self._sample("start")
        return self

    def __exit__(self, *exc_info: Any) -> None:
        super().__exit__(*exc_info)  # type: ignore[no-untyped-call]
        self._entered.close()
        for handle in self._hooked.values():
            handle.remove()
        self._hooked.clear()
        self._stepping.clear()

    # -- every operation ---------------------------------------------------------------------

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if any(issubclass(kind, DTensor) for kind in types):
            return NotImplemented  # let it become operations on its local shards first
        # DTensor works out shapes with fakes of its own: they are nobody's memory.
        if active_fake_mode() is not self._entry_fake_mode:
            return func(*args, **kwargs)
        if torch.is_grad_enabled():
            self._keep_what_outlived_its_function()
        for given in _tensors((args, kwargs)):
            # nn.Parameter's isinstance check also holds for fake parameters.
            if isinstance(given, nn.Parameter):
                self._adopt_parameter(given)
            else:
                self._book(given, "activations")
        result = func(*args, **kwargs)
        kind = self._kind_of_new()
        made = list(_tensors(result))
        for tensor in made:
            self._book(tensor, kind)
        if made:
            self._sample(func)
        return result

    def _kind_of_new(self) -> Kind:
        if self._stepping:
            return "temporaries"
        # With gradients enabled during backward, a checkpoint is being recomputed.
        if torch.is_grad_enabled():
            return "activations"
        return "temporaries"

    def _keep_what_outlived_its_function(self) -> None:
        """Call activations what a forward pass without gradients left alive.

        A custom autograd function computes with gradients disabled: what it drops again is
        temporary, what is still there at the next operation is its output or saved by it.
        """
        if not self._made_without_grad or self._stepping:
            return
        for address in self._made_without_grad:
            storage = self._live.get(address)
            if storage is not None and storage.kind == "temporaries":
                self._move(storage, "activations")
        self._made_without_grad.clear()

    # -- the books ---------------------------------------------------------------------------

    def _book(self, tensor: Tensor, kind: Kind, *, force: bool = False) -> None:
        """Enter the storage of `tensor`, or find it again; `force` says that `kind` is certain."""
        if tensor.device.type != self.device_type:
            return
        try:
            raw = tensor.untyped_storage()
        except NotImplementedError:  # sparse and opaque tensors have none
            return
        self._book_freed()
        address, num_bytes = raw._cdata, raw.nbytes()
        storage = self._live.get(address)
        if storage is None:
            if num_bytes == 0:
                return
            storage = _Storage(address, num_bytes, kind)
            storage.watch = weakref.ref(raw, partial(_append, self._freed, storage))
            self._live[address] = storage
            self._bytes[kind] += num_bytes
            if kind == "temporaries" and torch._C._current_graph_task_id() == -1:
                self._made_without_grad.add(address)
            return
        if storage.num_bytes != num_bytes:  # resized in place, as FSDP does
            self._bytes[storage.kind] += num_bytes - storage.num_bytes
            storage.num_bytes = num_bytes
        if force:
            self._move(storage, kind)

    def _move(self, storage: _Storage, kind: Kind) -> None:
        self._bytes[storage.kind] -= storage.num_bytes
        self._bytes[kind] += storage.num_bytes
        storage.kind = kind

    def _book_freed(self) -> None:
        while self._freed:
            storage = self._freed.popleft()
            self._bytes[storage.kind] -= storage.num_bytes
            self._made_without_grad.discard(storage.address)
            if self._live.get(storage.address) is storage:
                del self._live[storage.address]

    def _adopt_parameter(self, parameter: Tensor) -> None:
        for part in _tensors(parameter):
            self._book(part, "parameters", force=True)
        if not (parameter.requires_grad and parameter.is_leaf) or parameter in self._hooked:
            return
        self._book_gradient(parameter)
        hook: Any = parameter.register_post_accumulate_grad_hook  # untyped in torch
        self._hooked[parameter] = hook(self._book_gradient)

    def _book_gradient(self, parameter: Tensor) -> None:
        if parameter.grad is not None:
            for part in _tensors(parameter.grad):
                self._book(part, "gradients", force=True)

    def _book_states(self, optimizer: Optimizer) -> None:
        parameters = {
            part.untyped_storage()._cdata
            for group in optimizer.param_groups
            for parameter in group["params"]
            for part in _tensors(parameter)
        }
        for states in optimizer.state.values():
            for part in _tensors(states):
                if part.untyped_storage()._cdata not in parameters:
                    self._book(part, "optimizer_states", force=True)

    def _before_step(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        self._book_states(optimizer)
        self._stepping.append(optimizer)

    def _after_step(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        self._book_states(optimizer)
        self._sample("step")
        if optimizer in self._stepping:
            self._stepping.remove(optimizer)

    # -- samples -----------------------------------------------------------------------------

    def _phase_now(self) -> str:
        if self._named_phases:
            return self._named_phases[-1]
        if self._stepping:
            return "optimizer"
        return "forward" if torch._C._current_graph_task_id() == -1 else "backward"

    def _sample(self, operation: Any) -> None:
        self._book_freed()
        total = sum(self._bytes.values())
        phase = self._phase_now()
        known = self.phases.get(phase)
        if known is None or total > known.total:
            if self._stepping:  # states made in this very step are called so before they are seen
                self._book_states(self._stepping[-1])
            self.phases[phase] = known = self.current
            if total > self._peak.total:
                self._peak = known
        if self._record_timeline and (
            not self.timeline
            or self.timeline[-1].memory.total != total
            or self.timeline[-1].phase != phase
        ):
            self.timeline.append(MemoryEvent(str(operation), phase, self.current))


def track_memory(
    model: nn.Module | Iterable[nn.Module] | None = None,
    optimizer: Optimizer | Iterable[Optimizer] | None = None,
    *,
    device: torch.device | str = "cpu",
    record_timeline: bool = False,
) -> MemoryTracker:
    """A context manager that counts the memory of all tensors on `device`, by kind.

    Args:
        model: what is alive already when the context is entered, one model or several. Models made
            or first used inside are found by themselves.
        optimizer: likewise, for states that exist already.
        device: tensors on other types of device count nothing.
        record_timeline: keep `tracker.timeline`, an event for each change of the total.

    Returns:
        The tracker: `peak`, `current`, `phases` (the peak of each) and `phase(name)`, in bytes.
    """
    models = (model,) if isinstance(model, nn.Module) else tuple(model or ())
    optimizers = (optimizer,) if isinstance(optimizer, Optimizer) else tuple(optimizer or ())
    return MemoryTracker(models, optimizers, device=device, record_timeline=record_timeline)


@contextlib.contextmanager
def _convertible_fakes() -> Iterator[None]:
    """Within it modules of fakes convert (`model.half()`), and the hooks on their gradients stay.

    `nn.Module` converts fake parameters by swapping tensors, and torch swaps no tensor that is
    weakly referenced. The fake mode itself references every fake so, by identity, which a swap
    keeps. Cost: while the context is open `torch.utils.swap_tensors` is another function, on all
    threads; other tensors than fakes still go through torch's.
    """
    theirs: Any = torch.utils.swap_tensors

    def swap(kept: Any, given: Any) -> None:
        if not (isinstance(kept, FakeTensor) and isinstance(given, FakeTensor)):
            theirs(kept, given)
            return
        hooks = kept._post_accumulate_grad_hooks
        kept.__class__, given.__class__ = given.__class__, kept.__class__
        kept.__dict__, given.__dict__ = given.__dict__, kept.__dict__
        torch._C._swap_tensor_impl(kept, given)
        # They hang on the content that went; setting them anew hangs them on the one that came.
        kept._post_accumulate_grad_hooks = hooks

    torch.utils.swap_tensors = swap
    try:
        yield
    finally:
        torch.utils.swap_tensors = theirs


def _append(queue: deque[_Storage], storage: _Storage, _: object) -> None:
    queue.append(storage)


def _tensors(tree: Any) -> Iterator[Tensor]:
    """The plain tensors in nested containers; wrappers such as DTensor give their inner ones."""
    for leaf in tree_leaves(tree):
        if not isinstance(leaf, Tensor):
            continue
        if is_traceable_wrapper_subclass(leaf):
            names, _ = leaf.__tensor_flatten__()
            yield from _tensors([getattr(leaf, name) for name in names])
        else:
            yield leaf
