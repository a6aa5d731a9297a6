"""Measures a few steps of a `transformers.Trainer`, TRL's included."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from memlint_runtime.measure.measuring import MeasuredMemory, measure_memory
from memlint_runtime.measure.report import MemoryReport

__all__ = ["MeasureMemoryCallback"]


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
