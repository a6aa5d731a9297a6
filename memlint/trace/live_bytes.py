"""Counts the bytes of live storages of fakes: what, since when, until when, and of which line.

Each storage is rounded as CUDA's allocator rounds. What it is for is known late (a gradient is one
once an optimizer takes it), so that makings and ends are kept, and played again once the run is
over.
"""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Iterable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from memlint.proof.watching import Enough
from memlint.trace.fake_gpu import FakeGpu, line_in

_BLOCK = 512
_LEAST_VOCABULARY = 1000
_STEPS = 2
_MOST_SHOWN = 12
PHASES = ("load", "forward and loss", "backward", "optimizer step")


class _Storage:
    """A storage: kind is empty as long as nobody says what it is for."""

    __slots__ = ("graph", "kind", "line", "live", "phase", "shape", "size", "watch")

    def __init__(self, size: int, shape: tuple[int, ...], phase: str, line: int) -> None:
        self.size, self.shape, self.phase, self.line = size, shape, phase, line
        self.kind = ""
        self.live = True
        self.graph = torch.is_grad_enabled()
        self.watch: Any = None


class LiveBytes(TorchDispatchMode):
    """Watches every operation until the second step of the optimizers is over."""

    def __init__(self, gpu: FakeGpu) -> None:
        super().__init__()
        self.steps = 0
        self._gpu = gpu
        self._events: list[tuple[_Storage, bool, str]] = []
        self._live: dict[int, _Storage] = {}
        self._now = "load"
        self._trained: dict[int, Any] = {}
        self._vocabularies: set[int] = set()
        self._seen: weakref.WeakSet[nn.Module] = weakref.WeakSet()
        self._taken: Counter[int] = Counter()
        self._in_step = 0
        self._stepped_by_hand = False
        self._after_backward = False

    def begin(self) -> None:
        """Watch torch from now on."""
        real = torch.autograd.backward

        def backward(*arguments: Any, **keywords: Any) -> Any:
            self._end_step_by_hand()
            for storage in self._live.values():
                if not storage.kind and storage.phase == PHASES[1]:
                    storage.kind = "activations"
            result = real(*arguments, **keywords)
            self._after_backward = True
            self._mark((each.grad for each in self._parameters()), "gradients")
            return result

        torch.autograd.backward = backward
        register_optimizer_step_pre_hook(self._before_step)
        register_optimizer_step_post_hook(self._after_step)
        nn.modules.module.register_module_forward_pre_hook(self._before_forward)

    def _parameters(self) -> list[Any]:
        return [found for each in self._trained.values() if (found := each()) is not None]

    def _before_forward(self, module: nn.Module, arguments: Any) -> None:
        if self._now == "load":
            self._now = PHASES[1]
        if module in self._seen:
            return
        self._seen.add(module)
        if isinstance(module, nn.Embedding) and module.num_embeddings >= _LEAST_VOCABULARY:
            self._vocabularies.add(module.num_embeddings)
        self._mark(module.parameters(recurse=False), "weights")
        self._mark(module.buffers(recurse=False), "weights")

    def _before_step(self, optimizer: Any, *_: Any) -> None:
        held = [each for group in optimizer.param_groups for each in group["params"]]
        self._mark((each.grad for each in held), "gradients")
        self._in_step += 1
        if self._taken[id(optimizer)] >= _STEPS:
            raise Enough

    def _after_step(self, optimizer: Any, *_: Any) -> None:
        self._mark(tree_leaves(list(optimizer.state.values())), "optimizer states")
        self._in_step -= 1
        self._after_backward = False
        self._taken[id(optimizer)] += 1
        self.steps = min(self._taken.values())
        if self.steps >= _STEPS:
            raise Enough

    def _end_step_by_hand(self) -> None:
        """Count a step of an optimizer that is none of torch's: weights changed in place."""
        if self._stepped_by_hand and not self._taken:
            self.steps += 1
            if self.steps >= _STEPS:
                raise Enough
        self._stepped_by_hand = self._after_backward = False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        for each in tree_leaves((args, kwargs)):
            if isinstance(each, FakeTensor):
                self._book(each)
                if isinstance(each, nn.Parameter):
                    self._adopt(each)
        if self._after_backward and func._schema.is_mutable and id(args[0]) in self._trained:
            self._stepped_by_hand = True
        result = func(*args, **kwargs)
        for each in tree_leaves(result):
            if isinstance(each, FakeTensor):
                self._book(each)
        return result

    def _adopt(self, parameter: Any) -> None:
        self._mark([parameter], "weights")
        if parameter.requires_grad and parameter.is_leaf and id(parameter) not in self._trained:
            self._trained[id(parameter)] = weakref.ref(parameter)

    def _phase(self) -> str:
        if self._in_step:
            return PHASES[3]
        if torch._C._current_graph_task_id() != -1:
            return PHASES[2]
        return self._now

    def _book(self, tensor: Tensor) -> None:
        if tensor in self._gpu.on_host or tensor.layout != torch.strided:
            return
        raw = tensor.untyped_storage()
        key = raw._cdata
        found = self._live.get(key)
        if found is not None and found.live:
            return
        size = -(-raw.nbytes() // _BLOCK) * _BLOCK
        if not size:
            return
        phase = self._phase()
        storage = _Storage(size, tuple(tensor.shape), phase, line_in(self._gpu.folder))
        storage.watch = weakref.ref(raw, partial(self._end, storage))
        self._live[key] = storage
        self._events.append((storage, True, phase))

    def _end(self, storage: _Storage, _: object) -> None:
        storage.live = False
        self._events.append((storage, False, ""))

    def _mark(self, tensors: Iterable[Any], kind: str) -> None:
        for each in tensors:
            if isinstance(each, FakeTensor):
                self._book(each)
                storage = self._live.get(each.untyped_storage()._cdata)
                if storage is not None and storage.live and storage.kind != "weights":
                    storage.kind = kind

    def _kind(self, storage: _Storage) -> str:
        if storage.kind in ("weights", "gradients", "optimizer states"):
            return storage.kind
        if storage.shape and storage.shape[-1] in self._vocabularies:
            return "logits"
        if storage.kind:
            return storage.kind
        return "activations" if storage.graph and storage.phase != PHASES[3] else "temporaries"

    def phases(self) -> list[dict[str, Any]]:
        """Return the fullest moment of each phase: bytes by kind, the largest by kind and line."""
        totals, ends = self._peaks()
        moments: dict[int, list[str]] = {}
        for phase, index in ends.items():
            moments.setdefault(index, []).append(phase)
        held: dict[int, _Storage] = {}
        found: dict[str, dict[str, Any]] = {}
        for index, (storage, begins, _) in enumerate(self._events):
            if begins:
                held[id(storage)] = storage
            else:
                held.pop(id(storage), None)
            for phase in moments.get(index, ()):
                found[phase] = {"name": phase, "total": totals[phase], **self._told(held.values())}
        return [found[phase] for phase in PHASES if phase in found]

    def _peaks(self) -> tuple[dict[str, int], dict[str, int]]:
        """Return the most bytes of each phase, and the event that they were reached at."""
        totals: dict[str, int] = {}
        ends: dict[str, int] = {}
        total = 0
        for index, (storage, begins, phase) in enumerate(self._events):
            total += storage.size if begins else -storage.size
            if begins and total > totals.get(phase, 0):
                totals[phase], ends[phase] = total, index
        return totals, ends

    def _told(self, storages: Iterable[_Storage]) -> dict[str, Any]:
        kinds: Counter[str] = Counter()
        lines: Counter[tuple[str, int]] = Counter()
        for storage in storages:
            kind = self._kind(storage)
            kinds[kind] += storage.size
            lines[kind, storage.line] += storage.size
        largest = [
            {"kind": kind, "line": line, "bytes": size}
            for (kind, line), size in lines.most_common(_MOST_SHOWN)
        ]
        return {"bytes_by_kind": dict(kinds), "largest": largest}
