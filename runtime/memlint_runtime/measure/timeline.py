"""The timeline as a picture: a coloured band for each kind of memory, stacked, over operations."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

from memlint_runtime.fake_memory import Kind, MemoryEvent

__all__ = ["draw_timeline"]

# Colours that colour-blind readers tell apart (Okabe and Ito), lasting kinds at the bottom.
_COLOURS: dict[Kind, str] = {
    "parameters": "#0072b2",
    "optimizer_states": "#009e73",
    "gradients": "#e69f00",
    "activations": "#56b4e9",
    "temporaries": "#d55e00",
}
MOST_POINTS = 4000


def draw_timeline(events: Sequence[MemoryEvent], path: Path) -> None:
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
