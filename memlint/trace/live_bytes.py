"""Counts what a script keeps alive, by kind and by its own lines, until its second step is over.

The runtime's measurement (``memlint_runtime.measure``) with two things more: the line that made
each tensor, and the steps of optimizers, of torch's or by hand, which end the run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import islice
from typing import Any

import torch
from memlint_runtime.fake_memory import Kind
from memlint_runtime.measure.measuring import _PhaseTracker
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.utils._pytree import tree_leaves

from memlint.proof.watching import line_in
from memlint.trace.tracing import NO_LINE

_LEAST_VOCABULARY = 1000
_STEPS = 2
_BLOCK = 512  # bytes: CUDA's allocator gives out no part of it
_NAMES = {"parameters": "weights", "optimizer_states": "optimizer states"}
LOAD, FORWARD, BACKWARD, STEP = PHASES = ("load", "forward and loss", "backward", "optimizer step")


class LiveBytes(_PhaseTracker):
    """folder: the script's, whose lines are named. device: whose memory is counted. is_elsewhere:
    True of tensors that take none of it although they say so."""

    def __init__(
        self,
        folder: str,
        device: torch.device,
        allocator: Any = None,
        is_elsewhere: Callable[[Tensor], bool] = lambda tensor: False,
    ) -> None:
        super().__init__((), (), torch.device(device), False, allocator)
        self.steps = 0
        self._folder = folder
        self._is_elsewhere = is_elsewhere
        self._places: dict[int, tuple[int, bool]] = {}
        # Of each phase that is at its fullest: how many storages are alive, in their order.
        self._due: dict[str, int] = {}
        self._fullest: dict[str, Counter[tuple[str, str]]] = {}
        self._has_begun = self._after_backward = self._by_hand = False
        self._taken: Counter[int] = Counter()
        self._vocabularies: set[int] = set()

    def begin(self) -> None:
        """Watch torch from now on."""
        real_backward, real_new = torch.autograd.backward, nn.Parameter.__new__

        def backward(*arguments: Any, **keywords: Any) -> Any:
            self._end_step_by_hand()
            result = real_backward(*arguments, **keywords)
            self._after_backward = True
            return result

        def new(*arguments: Any, **keywords: Any) -> Any:
            parameter = real_new(*arguments, **keywords)
            self._adopt_parameter(parameter)
            return parameter

        torch.autograd.backward = backward
        nn.Parameter.__new__ = new
        nn.modules.module.register_module_forward_pre_hook(self._before_forward)

    def _before_forward(self, module: nn.Module, arguments: Any) -> None:
        self._has_begun = True
        if isinstance(module, nn.Embedding) and module.num_embeddings >= _LEAST_VOCABULARY:
            self._vocabularies.add(module.num_embeddings)
        for buffer in module.buffers(recurse=False):
            self._book(buffer, "parameters", force=True)

    def _before_step(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        super()._before_step(optimizer, args, kwargs)
        if self._taken[id(optimizer)] >= _STEPS:
            raise SystemExit

    def _after_step(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        super()._after_step(optimizer, args, kwargs)
        self._after_backward = False
        self._taken[id(optimizer)] += 1
        self._end_of_step(min(self._taken.values()))

    def _end_step_by_hand(self) -> None:
        """Count a step of an optimizer that is none of torch's: weights changed in place."""
        if self._by_hand and not self._taken:
            self._end_of_step(self.steps + 1)
        self._by_hand = self._after_backward = False

    def _end_of_step(self, steps: int) -> None:
        self.steps = steps
        if steps >= _STEPS:
            raise SystemExit

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if self._after_backward and func._schema.is_mutable:
            changed = [each for each in tree_leaves(args[0]) if isinstance(each, Tensor)]
            self._by_hand |= any(each in self._hooked for each in changed)
        if func is torch.ops.aten.add.Tensor and self._adds_gradients_of_a_table(*args):
            func = torch.ops.aten.add_.Tensor
        return super().__torch_dispatch__(func, types, args, kwargs)

    def _adds_gradients_of_a_table(self, left: Tensor, right: Any) -> bool:
        """True of a sum that autograd makes in place, but not where a mode looks on."""
        is_table = left.dim() == 2 and left.shape[0] in self._vocabularies
        alike = is_table and left.shape == getattr(right, "shape", None)
        return alike and self._phase_now() == BACKWARD and not torch.is_grad_enabled()

    # -- the books ---------------------------------------------------------------------------

    def _book(self, tensor: Tensor, kind: Kind, *, force: bool = False) -> None:
        if tensor.layout != torch.strided or self._is_elsewhere(tensor):
            return
        address = tensor.untyped_storage()._cdata
        before = self._live.get(address)
        super()._book(tensor, kind, force=force)
        if self._live.get(address) is not before:
            is_logits = tensor.dim() > 0 and tensor.shape[-1] in self._vocabularies
            self._places[address] = line_in(self._folder), is_logits

    def _book_freed(self) -> None:
        if self._freed:
            self._look()
        super()._book_freed()

    def _phase_now(self) -> str:
        if self._stepping:
            return STEP
        if torch._C._current_graph_task_id() != -1:
            return BACKWARD
        return FORWARD if self._has_begun else LOAD

    def _sample(self, operation: Any) -> None:
        phase = self._phase_now()
        before = self.phases.get(phase)
        super()._sample(operation)
        if self.phases[phase] is not before:
            self._due[phase] = len(self._live)

    def _look(self) -> None:
        """Keep what is alive in phases that were at their fullest; nothing ended since then."""
        for phase, count in self._due.items():
            found: Counter[tuple[str, str]] = Counter()
            for storage in islice(self._live.values(), count):
                line, is_logits = self._places[storage.address]
                kind = _NAMES.get(storage.kind, storage.kind)
                if is_logits and kind in ("activations", "temporaries"):
                    kind = "logits"
                place = f"line {line}" if line else NO_LINE
                found[kind, place] += -(-storage.num_bytes // _BLOCK) * _BLOCK
            self._fullest[phase] = found
        self._due.clear()

    def of_allocator(self) -> dict[str, int]:
        """Return the most bytes that the GPU's allocator gave out, and had; nothing on a host."""
        self.end_phase()
        peaks = self.allocator_peaks.values()
        names = ("allocated", "reserved")
        return dict(zip(names, map(max, zip(*peaks, strict=True)), strict=True)) if peaks else {}

    def told(self) -> list[tuple[str, list[tuple[str, int, str]]]]:
        """Return phases, each with what was alive at its fullest: line, bytes, kind."""
        self._look()
        return [
            (phase, [(place, size, kind) for (kind, place), size in found.most_common()])
            for phase in PHASES
            if (found := self._fullest.get(phase)) is not None
        ]
