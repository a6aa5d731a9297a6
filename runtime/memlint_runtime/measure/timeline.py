"""The timeline as an SVG: one coloured band for each kind of memory, stacked, over operations.

Written by hand, because a drawing library would be a dependency of training scripts.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from itertools import groupby

from memlint_runtime.fake_memory import Kind, MemoryEvent

__all__ = ["timeline_svg"]

WIDTH, HEIGHT, LEFT, TOP, BOTTOM, RIGHT = 960, 420, 70, 30, 60, 20
# Colours that colour-blind readers tell apart (Okabe and Ito), lasting kinds at the bottom.
_COLOURS: dict[Kind, str] = {
    "parameters": "#0072b2",
    "optimizer_states": "#009e73",
    "gradients": "#e69f00",
    "activations": "#56b4e9",
    "temporaries": "#d55e00",
}
MOST_POINTS = 4000


def timeline_svg(events: Sequence[MemoryEvent]) -> str:
    """An SVG picture of `events`, in order; at most `MOST_POINTS` of them, peaks kept."""
    shown = _thinned(events)
    top_bytes = max(event.memory.total for event in shown) or 1
    step = (WIDTH - LEFT - RIGHT) / max(1, len(shown))
    base = [0] * len(shown)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
    ]
    for kind, colour in _COLOURS.items():
        upper = [b + getattr(e.memory, kind) for b, e in zip(base, shown, strict=True)]
        if any(high > low for high, low in zip(upper, base, strict=True)):
            points = _steps(upper, step, top_bytes) + _steps(base, step, top_bytes)[::-1]
            outline = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
            label = f"<title>{kind}</title>"
            parts.append(f'<polygon points="{outline}" fill="{colour}">{label}</polygon>')
        base = upper
    parts += [*_axes(top_bytes), *_phases(shown, step), *_legend(), "</svg>"]
    return "\n".join(parts)


def _thinned(events: Sequence[MemoryEvent]) -> list[MemoryEvent]:
    """Of each run of neighbours the one with the largest total."""
    width = -(-len(events) // MOST_POINTS)
    return [
        max(events[start : start + width], key=lambda event: event.memory.total)
        for start in range(0, len(events), width)
    ]


def _y(num_bytes: float, top_bytes: int) -> float:
    return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * num_bytes / top_bytes


def _steps(heights: list[int], step: float, top_bytes: int) -> list[tuple[float, float]]:
    points = []
    for index, height in enumerate(heights):
        y = _y(height, top_bytes)
        points += [(LEFT + index * step, y), (LEFT + (index + 1) * step, y)]
    return points


def _axes(top_bytes: int) -> list[str]:
    scale, unit = next(
        ((s, u) for s, u in ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")) if top_bytes >= s),
        (1, "B"),
    )
    lines = []
    for fraction in (0, 0.25, 0.5, 0.75, 1):
        y = _y(fraction * top_bytes, top_bytes)
        lines.append(
            f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" '
            f'stroke="black" stroke-opacity="0.2"/>'
        )
        lines.append(
            f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">'
            f"{fraction * top_bytes / scale:.1f} {unit}</text>"
        )
    return lines


def _phases(shown: list[MemoryEvent], step: float) -> list[str]:
    lines = []
    start = 0
    for phase, run in groupby(shown, key=lambda event: event.phase):
        count = len(list(run))
        x, width = LEFT + start * step, count * step
        lines.append(
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}" '
            f'stroke="black" stroke-dasharray="3 3"/>'
        )
        if width > 7 * len(phase):
            lines.append(
                f'<text x="{x + width / 2:.1f}" y="{TOP - 10}" text-anchor="middle">'
                f"{escape(phase)}</text>"
            )
        start += count
    return lines


def _legend() -> list[str]:
    lines = []
    for place, (kind, colour) in enumerate(_COLOURS.items()):
        x, y = LEFT + place * 160, HEIGHT - 25
        lines.append(f'<rect x="{x}" y="{y - 10}" width="12" height="12" fill="{colour}"/>')
        lines.append(f'<text x="{x + 18}" y="{y}">{kind.replace("_", " ")}</text>')
    return lines
