"""The memory of a run around its own micro-batch and length, for sliders that ask no model.

Rows are those of the points; between two lengths each kind of each phase is interpolated linearly,
and the peak is the fullest phase: bytes are affine in tokens but for attention that keeps its
scores, rounding and tiles. What that leaves out is measured in the middles; the axis of lengths
gets more points where it is much.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from memlint.memory.fit import length_of
from memlint.memory.prices import Changes, Run, merged
from memlint.memory.settings import SettingsError
from memlint.source.record import NamedTuple

Bars = Mapping[str, Mapping[str, int]]  # bytes by phase and kind

_ROWS = (0.125, 0.25, 0.5, 0.75, 1, 1.5, 2, 4, 8)  # of the run's own
_LENGTHS, _MOST = 6, 14  # points at first, and at most
_FINE = 0.01  # error from which there are more
_REACH = 8  # times the run's own length, each way
_SHORTEST, _LONGEST = 64, 1 << 20  # tokens


class Grid(NamedTuple):
    """rows, lengths: the axes. name: the setting that is the length. own: the run's rows and
    length. points: for each variant the bars at each pair, row by row. error: the largest share of
    a peak by which the middle between two lengths is missed."""

    rows: tuple[int, ...]
    lengths: tuple[int, ...]
    name: str
    own: tuple[int, int]
    points: tuple[tuple[Bars, ...], ...]
    error: float


def grid_of(run: Run, variants: Sequence[Changes]) -> Grid | None:
    """Return the grid of a run with each set of changes; None where it has no batch to vary."""
    name = length_of(run.known)
    own = run.known.micro_batch or 1, getattr(run.known, name) or 0
    if own[1] < 2:
        return None
    rows = tuple(sorted({max(round(own[0] * share), 1) for share in _ROWS}))
    points = _Points(run, name, [(each, row) for each in variants for row in rows])
    lengths = _first_lengths(own[1], run.longest)
    try:
        while True:
            error, middle = points.missed(lengths)
            if error <= _FINE or len(lengths) == _MOST or middle in lengths:
                break
            lengths = tuple(sorted({*lengths, middle}))
    except SettingsError:
        return None
    flat = [bars for line in points.at(lengths) for bars in line]
    count = len(rows) * len(lengths)
    parts = (tuple(flat[start : start + count]) for start in range(0, len(flat), count))
    return Grid(rows, lengths, name, own, tuple(parts), error)


class _Points:
    """Computed points of a run. lines: changes and rows. name: the setting that is the length."""

    def __init__(self, run: Run, name: str, lines: Sequence[tuple[Changes, int]]) -> None:
        self._run = run
        self._name = name
        self._lines = lines
        self._known: dict[tuple[int, int], Bars] = {}

    def at(self, lengths: Sequence[int]) -> list[list[Bars]]:
        """Return the bars of each line at each length."""
        return [
            [self._bars(line, length) for length in lengths] for line in range(len(self._lines))
        ]

    def missed(self, lengths: Sequence[int]) -> tuple[float, int]:
        """Return the largest share of a peak by which the middle between two lengths is missed,
        and that middle."""
        worst = 0.0, lengths[0]
        for number, line in enumerate(self.at(lengths)):
            # By ratio, of neighbours; an axis of one point is its own middle.
            middles = [round((low * high) ** 0.5) for low, high in pairwise(lengths)]
            for middle in middles or lengths:
                peak = peak_of(self._bars(number, middle))
                miss = abs(interpolated(lengths, line, middle) / max(peak, 1) - 1)
                worst = max(worst, (miss, middle))
        return worst

    def _bars(self, line: int, length: int) -> Bars:
        if (line, length) not in self._known:
            changes, rows = self._lines[line]
            point = (("micro_batch", rows), (self._name, length))
            self._known[line, length] = bars_of(self._run, merged((point, changes)))
        return self._known[line, length]


def bars_of(run: Run, changes: Changes) -> Bars:
    """Return the bytes of each kind in each phase of the run with the changes."""
    found = {phase.name: phase.bytes_by_kind for phase in run.phases(changes)}
    known = run.with_changes(changes)
    if known.longest_first:
        # What comes after the longest batch may be the peak, as in an estimate.
        half = (("longest_first", False), ("seq_len", max((known.seq_len or 1) // 2, 1)))
        later = {phase.name: phase.bytes_by_kind for phase in run.phases(merged((changes, half)))}
        return max(found, later, key=peak_of)
    return found


def peak_of(bars: Bars) -> int:
    """Return the bytes of the fullest phase."""
    return max((sum(kinds.values()) for kinds in bars.values()), default=0)


def _first_lengths(own: int, limit: int) -> tuple[int, ...]:
    """Return whole numbers at equal ratios around ``own``, and ``own``."""
    low = max(own // _REACH, min(_SHORTEST, own))
    ratio = min(own * _REACH, max(limit, own) if limit else _LONGEST) / low
    spaced = (round(low * ratio ** (step / (_LENGTHS - 1))) for step in range(_LENGTHS))
    return tuple(sorted({*spaced, own}))


def interpolated(lengths: Sequence[int], points: Sequence[Bars], length: float) -> float:
    """Return the peak between the points of a row."""
    if len(lengths) == 1:
        return peak_of(points[0])
    below = sum(point <= length for point in lengths[1:-1])
    share = (length - lengths[below]) / (lengths[below + 1] - lengths[below])
    less, more = points[below], points[below + 1]

    def of(bars: Bars, phase: str) -> int:
        return sum(bars.get(phase, {}).values())

    phases = {*less, *more}
    return max((1 - share) * of(less, phase) + share * of(more, phase) for phase in phases)
