"""What was measured, as values, a table and a timeline picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from itertools import groupby
from pathlib import Path

from memlint_runtime.fake_memory import Kind, MemoryEvent, MemorySnapshot

__all__ = ["MemoryReport", "PhaseMemory", "thinned"]

_KINDS = tuple(field.name for field in fields(MemorySnapshot) if field.name != "total")
# Colours that colour-blind readers tell apart (Okabe and Ito), lasting kinds at the bottom.
_COLOURS: dict[Kind, str] = {
    "parameters": "#0072b2",
    "optimizer_states": "#009e73",
    "gradients": "#e69f00",
    "activations": "#56b4e9",
    "temporaries": "#d55e00",
}
MOST_POINTS = 4000
_UNITS = ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))


@dataclass(frozen=True, slots=True)
class PhaseMemory:
    """One phase's peak: what was counted, and what the allocator says (None without a GPU)."""

    name: str
    counted: MemorySnapshot
    allocated_bytes: int | None = None
    reserved_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class MemoryReport:
    """Peaks of each phase, in order of appearance, and how memory went up and down."""

    phases: tuple[PhaseMemory, ...]
    timeline: tuple[MemoryEvent, ...]

    @property
    def peak(self) -> PhaseMemory:
        """The phase with the largest peak, as the allocator sees it where there is one."""
        return max(self.phases, key=lambda phase: (phase.allocated_bytes or 0, phase.counted.total))

    def table(self) -> str:
        """A row for each phase: its peak, in total and by kind, in one unit for all."""
        largest = max((p.allocated_bytes or p.counted.total for p in self.phases), default=0)
        scale, unit = next(((s, u) for s, u in _UNITS if largest >= s), (1, "B"))
        on_gpu = any(phase.allocated_bytes is not None for phase in self.phases)
        header = [f"peak [{unit}]", "total", *(kind.replace("_", " ") for kind in _KINDS)]
        header += ["allocated", "reserved"] if on_gpu else []
        rows = [header]
        for phase in self.phases:
            mark = " *" if phase is self.peak else ""
            numbers = _numbers(phase, on_gpu=on_gpu)
            rows.append([phase.name + mark, *(f"{number / scale:.2f}" for number in numbers)])
        return _aligned(rows)

    def __str__(self) -> str:
        return self.table()

    def save_timeline(self, path: str | Path) -> Path:
        """Draw what is alive when, by kind, as SVG; returns the path.

        Raises:
            ValueError: if `path` does not end in .svg, nothing was recorded, or matplotlib is not
                installed.
        """
        path = Path(path)
        if path.suffix != ".svg":
            raise ValueError(f"the timeline is drawn as SVG; give a path that ends in .svg: {path}")
        if not self.timeline:
            raise ValueError("no timeline was recorded; call measure_memory(..., timeline=True)")
        _draw(self.timeline, path)
        return path


def _draw(events: Sequence[MemoryEvent], path: Path) -> None:
    """Draw `events`, in order; at most `MOST_POINTS` of them, peaks kept. Needs matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        raise ValueError("a picture needs matplotlib: pip install matplotlib") from None
    shown = thinned(events)
    gib = [[getattr(e.memory, kind) / 2**30 for e in shown] for kind in _COLOURS]
    figure = Figure(figsize=(10, 4.5), layout="constrained")
    axes = figure.add_subplot()
    names = [kind.replace("_", " ") for kind in _COLOURS]
    axes.stackplot(range(len(shown)), gib, labels=names, colors=[*_COLOURS.values()], step="post")
    start = 0
    for phase, run in groupby(event.phase for event in shown):
        axes.axvline(start, color="black", linestyle=":", linewidth=0.8)
        axes.text(start, 1.01, phase, transform=axes.get_xaxis_transform(), rotation=30)
        start += len(list(run))
    axes.set(xlabel="operations", ylabel="GiB", xlim=(0, max(1, len(shown) - 1)))
    axes.legend(loc="upper left")
    figure.savefig(path)


def thinned(events: Sequence[MemoryEvent]) -> list[MemoryEvent]:
    """Return of each run of neighbours the one with the largest total."""
    width = -(-len(events) // MOST_POINTS)
    return [
        max(events[start : start + width], key=lambda event: event.memory.total)
        for start in range(0, len(events), width)
    ]


def _numbers(phase: PhaseMemory, *, on_gpu: bool) -> list[int]:
    """Bytes in the order of the table's columns."""
    numbers = [phase.counted.total, *(getattr(phase.counted, kind) for kind in _KINDS)]
    if on_gpu:
        numbers += [phase.allocated_bytes or 0, phase.reserved_bytes or 0]
    return numbers


def _aligned(rows: list[list[str]]) -> str:
    """Lines of cells: the first column to the left, numbers to the right."""
    first, *others = (max(map(len, column)) for column in zip(*rows, strict=True))
    lines = []
    for name, *numbers in rows:
        cells = (cell.rjust(width) for cell, width in zip(numbers, others, strict=True))
        lines.append("  ".join([name.ljust(first), *cells]))
    return "\n".join(lines)
