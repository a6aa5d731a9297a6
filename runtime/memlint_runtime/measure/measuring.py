"""The context manager: counts by kind, and asks the allocator where there is one."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from memlint_runtime.fake_memory import MemoryTracker
from memlint_runtime.fake_numbers import FakesWithNumbers
from memlint_runtime.integrations import require_model
from memlint_runtime.measure.report import MemoryReport, PhaseMemory
from memlint_runtime.optim import require_optimizer

__all__ = ["MeasureMemoryCallback", "MeasuredMemory", "measure_memory"]


def measure_memory(
    model: nn.Module | Iterable[nn.Module] | None = None,
    optimizer: Optimizer | Iterable[Optimizer] | None = None,
    *,
    device: torch.device | str | None = None,
    fake: bool = False,
    timeline: bool = True,
) -> MeasuredMemory:
    """A context manager that measures what runs inside; ask its `report` then, or during.

    Args:
        model: what is alive already, one model or several. Others are found when first used.
        optimizer: likewise, for optimizers that have stepped before.
        device: measure tensors there; the accelerator if there is one, else the CPU.
        fake: allocate nothing. Models and inputs must be made inside, and only whole numbers can
            be read. Models may change their type inside, as by `half()`.
        timeline: record every change, for `report.save_timeline`.

    Raises:
        TypeError: for a model or an optimizer that is none.
    """
    models, optimizers = _several(model, nn.Module), _several(optimizer, Optimizer)
    for each in models:
        require_model(each)
    for each in optimizers:
        require_optimizer(each)
    if device is None:
        # A build for CUDA names its accelerator on machines without one, too.
        present = torch.accelerator.is_available() and not fake
        accelerator = torch.accelerator.current_accelerator() if present else None
        device = accelerator if accelerator is not None else torch.device("cpu")
    device = torch.device(device)
    allocator = _Allocator(device) if device.type != "cpu" and not fake else None
    tracker = _PhaseTracker(models, optimizers, device, timeline, allocator)
    return MeasuredMemory(tracker, FakesWithNumbers() if fake else None)


def _several(given: Any, kind: type) -> tuple[Any, ...]:
    """One of a kind, or several, or None, as a tuple."""
    if given is None:
        return ()
    one = isinstance(given, (kind, str)) or not isinstance(given, Iterable)
    return (given,) if one else tuple(given)


class MeasuredMemory:
    """A measurement: a context manager with the `report` of what ran inside so far."""

    def __init__(self, tracker: _PhaseTracker, fake_mode: FakesWithNumbers | None) -> None:
        self.tracker = tracker
        self._fake_mode = fake_mode
        self._entered = contextlib.ExitStack()

    def __enter__(self) -> MeasuredMemory:
        if self._fake_mode is not None:
            self._entered.enter_context(self._fake_mode)
        self._entered.enter_context(self.tracker)
        return self

    def __exit__(self, *exc_info: Any) -> None:
        self.tracker.end_phase()
        self._entered.close()

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Name what runs inside; elsewhere forward, backward and optimizer are told apart."""
        with self.tracker.phase(name):
            yield

    @property
    def report(self) -> MemoryReport:
        self.tracker.end_phase()
        peaks = self.tracker.allocator_peaks
        phases = tuple(
            PhaseMemory(name, counted, *peaks.get(name, (None, None)))
            for name, counted in self.tracker.phases.items()
        )
        return MemoryReport(phases, tuple(self.tracker.timeline))


class _PhaseTracker(MemoryTracker):  # type: ignore[no-untyped-call]
    """Also books the allocator's peak under the phase in which it was reached."""

    def __init__(
        self,
        models: tuple[nn.Module, ...],
        optimizers: tuple[Optimizer, ...],
        device: torch.device,
        timeline: bool,
        allocator: _Allocator | None,
    ) -> None:
        super().__init__(models, optimizers, device=device, record_timeline=timeline)
        self.allocator = allocator
        self.allocator_peaks: dict[str, tuple[int, int]] = {}
        self._running: str | None = None

    def _sample(self, operation: Any) -> None:
        super()._sample(operation)
        phase = self._phase_now()
        if phase != self._running:
            self.end_phase()
            self._running = phase

    def end_phase(self) -> None:
        if self.allocator is None or self._running is None:
            return
        now = self.allocator.peak_since_reset()
        before = self.allocator_peaks.get(self._running, (0, 0))
        self.allocator_peaks[self._running] = (max(now[0], before[0]), max(now[1], before[1]))


class _Allocator:
    """The caching allocator's peaks, in bytes: (allocated, reserved)."""

    def __init__(self, device: torch.device) -> None:
        self._module: Any = torch.get_device_module(device)
        self._module.reset_peak_memory_stats()

    def peak_since_reset(self) -> tuple[int, int]:
        peak = self._module.max_memory_allocated(), self._module.max_memory_reserved()
        self._module.reset_peak_memory_stats()
        return peak


class MeasureMemoryCallback(TrainerCallback):
    """Measures the first `steps` steps; `report` then holds the peaks.

    Args:
        steps: how many. Two show the optimizer's states, which the first step makes.
        table_path: write the table there.
        timeline_path: draw the timeline there (.svg).
    """

    def __init__(
        self,
        steps: int = 2,
        *,
        table_path: str | Path | None = None,
        timeline_path: str | Path | None = None,
    ) -> None:
        if steps < 1:
            raise ValueError(f"steps must be 1 or more, got {steps}")
        if timeline_path is not None and Path(timeline_path).suffix != ".svg":
            raise ValueError(f"timeline_path must end in .svg, got {timeline_path}")
        self.steps = steps
        self.table_path = table_path
        self.timeline_path = timeline_path
        self.report: MemoryReport | None = None
        self._measured: MeasuredMemory | None = None
        self._left = steps

    def on_step_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        if self._measured is not None or self.report is not None:
            return
        optimizer = kwargs.get("optimizer")
        self._measured = measure_memory(
            kwargs.get("model"),
            getattr(optimizer, "optimizer", optimizer),  # accelerate's wrapper has it inside
            device=args.device,
        )
        self._measured.__enter__()

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        self._left -= 1
        if self._left <= 0:
            self._finish()

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        self._finish()

    def _finish(self) -> None:
        if self._measured is None:
            return
        self._measured.__exit__(None, None, None)
        self.report = self._measured.report
        self._measured = None
        if self.table_path is not None:
            Path(self.table_path).write_text(self.report.table() + "\n", encoding="utf-8")
        if self.timeline_path is not None:
            self.report.save_timeline(self.timeline_path)
