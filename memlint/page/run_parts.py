"""A run in a page: its chart of phases by kind, its fixes in order, its sliders, what was read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from memlint.page.escaped import KINDS, gib, path_text, text
from memlint.page.shown_runs import ShownRun, Variant
from memlint.page.slider_grid import Bars, peak_of
from memlint.reports.memory import words_of_settings
from memlint.reports.readable import saving_words
from memlint.rule.savings import ends, verdict

_KINDS = 7  # with a colour of their own
_ROW, _BAR = 40, 16  # pixels
_STOPS = 41  # of a slider
_DIGITS = 20_000  # units in the smallest peak of a grid


class RunPart:
    """One run. number: counts the runs of a page."""

    def __init__(self, run: ShownRun, number: int) -> None:
        self._run = run
        self._id = f"run{number}"
        bars = [each.bars for each in run.variants]
        points = run.grid.points if run.grid is not None else ()
        every: Sequence[Bars] = [*bars, *(bar for variant in points for bar in variant)]
        self._phases = list(dict.fromkeys(phase for each in bars for phase in each))
        most: dict[str, int] = {}
        for each in every:
            for kinds in each.values():
                for kind, size in kinds.items():
                    most[kind] = max(most.get(kind, 0), size)
        ranked = sorted(most, key=lambda kind: (-most[kind], kind))
        self._kinds = ranked[:_KINDS] + (["others"] if len(ranked) > _KINDS else [])
        self._named = set(ranked[:_KINDS])

    def html(self) -> Iterator[str]:
        """Yield the part of the page."""
        run = self._run
        said = f" <code>{text(run.said)}</code>" if run.said else ""
        yield f'<section class="run" id="{self._id}" aria-labelledby="{self._id}-h">'
        yield f'<h4 id="{self._id}-h">Memory of the run <code>{path_text(run.place)}</code></h4>'
        yield f"<p>{self._headline()}{said}</p>"
        yield from self._charts()
        yield from self._sliders()
        yield from self._table()
        yield from self._steps()
        yield from self._assumptions()
        yield "</section>"

    def data(self) -> dict[str, Any] | None:
        """Return what the page's script needs for the sliders; None where there are none."""
        grid = self._run.grid
        if grid is None:
            return None
        least = min(peak_of(bars) for points in grid.points for bars in points)
        unit = max(least // _DIGITS, 1)
        return {
            "id": self._id,
            "unit": unit,
            "rows": grid.rows,
            "lengths": grid.lengths,
            "own": grid.own,
            "stops": [grid.rows, _stops(grid.lengths, grid.own[1])],
            "phases": self._phases,
            "kinds": self._kinds,
            "points": [
                [[round(size / unit) for row in self._sizes(bars) for size in row] for bars in each]
                for each in grid.points
            ],
        }

    def _sizes(self, bars: Bars) -> list[list[int]]:
        """Return bytes by phase and kind, in the page's order."""
        table = []
        for phase in self._phases:
            kinds = bars.get(phase, {})
            row = [kinds.get(kind, 0) for kind in self._kinds if kind in self._named]
            if len(self._kinds) > len(row):
                row.append(sum(kinds.values()) - sum(row))
            table.append(row)
        return table

    def _headline(self) -> str:
        result = self._run.estimate
        peak = result.allocated
        said = (
            f"Peak <strong>{gib(peak.estimate)}</strong> ({gib(peak.low)} to {gib(peak.high)}) "
            f"in {text(result.peak.name)}"
        )
        if result.gpu is not None:
            said += f"; it {text(result.verdict)} {text(result.gpu.name)}"
        return f"{said}."

    # -- charts ------------------------------------------------------------------------------------

    def _charts(self) -> Iterator[str]:
        run = self._run
        scale = max(peak_of(each.bars) for each in run.variants) or 1
        gpu = run.estimate.gpu
        room = gpu.room if gpu is not None and gpu.room < 1.5 * scale else 0
        scale = max(scale, room)
        yield '<ul class="legend">'
        for index, kind in enumerate(self._kinds):
            yield f'<li><span class="swatch b{index}"></span>{text(kind)}</li>'
        name = f"what torch gets of {text(gpu.name)}" if gpu is not None else ""
        yield f'<li data-room{"" if room else " hidden"}><span class="swatch at"></span>'
        yield f'<span>{name}</span></li></ul><div class="charts">'
        for number, variant in enumerate(run.variants):
            yield from self._chart(number, variant, scale, room)
        yield "</div>"

    def _chart(self, number: int, variant: Variant, scale: int, room: int) -> Iterator[str]:
        name = f"{self._id}-c{number}"
        sizes = self._sizes(variant.bars)
        totals = [sum(row) for row in sizes]
        peak = max(totals)
        told = "; ".join(
            f"{phase} {gib(total)}" for phase, total in zip(self._phases, totals, strict=True)
        )
        yield f'<figure><figcaption>{text(variant.label)}: <b data-peak="{number}">{gib(peak)}</b>'
        yield "</figcaption>"
        yield (
            f'<svg role="img" aria-labelledby="{name}-t {name}-d" width="100%" '
            f'height="{_ROW * len(totals)}" data-variant="{number}">'
            f'<title id="{name}-t">Bytes by phase, {text(variant.label)}</title>'
            f'<desc id="{name}-d">{text(told)}</desc>'
        )
        for index, (phase, row, total) in enumerate(zip(self._phases, sizes, totals, strict=True)):
            top = index * _ROW
            yield f'<text x="0" y="{top + 13}">{text(phase)}</text>'
            bold = ' class="peak"' if total == peak else ""
            yield (
                f'<text x="100%" y="{top + 13}" text-anchor="end" data-total="{index}"{bold}>'
                f"{gib(total)}</text>"
            )
            left = 0.0
            for kind, size in enumerate(row):
                width = 100 * size / scale
                yield (
                    f'<rect class="b{kind}" x="{left:.3f}%" y="{top + 18}" width="{width:.3f}%" '
                    f'height="{_BAR}" data-bar="{index},{kind}"></rect>'
                )
                left += width
        if room:
            at = f"{100 * room / scale:.3f}%"
            yield f'<line class="room" x1="{at}" x2="{at}" y1="0" y2="100%"></line>'
        yield "</svg></figure>"

    # -- sliders -----------------------------------------------------------------------------------

    def _sliders(self) -> Iterator[str]:
        grid = self._run.grid
        if grid is None:
            return
        gpu = self._run.estimate.gpu
        chosen = text(gpu.name) if gpu is not None else ""
        what = "Completion length" if grid.name == "completion_len" else "Sequence length"
        yield f'<form class="sliders" data-run="{self._id}" hidden>'
        yield "<fieldset><legend>With another batch or GPU</legend>"
        for index, label in enumerate(("Rows of a micro-batch", what)):
            name = f"{self._id}-s{index}"
            yield (
                f'<p><label for="{name}">{label}: <output for="{name}" data-out="{index}"></output>'
                f'</label><input type="range" id="{name}" data-axis="{index}"></p>'
            )
        yield (
            f'<p><label for="{self._id}-g">GPU</label> <select id="{self._id}-g" '
            f'data-gpu="{chosen}"></select> <button type="reset">As the run is</button></p>'
        )
        yield f'<p class="verdicts" role="status" data-verdicts="{self._id}"></p>'
        yield (
            f"<p class=note>Computed at {len(grid.lengths)} lengths and interpolated between them: "
            f"in the middles that misses the model's own number by at most {grid.error:.1%}. "
            "The model's interval is as wide as above.</p></fieldset></form>"
        )

    # -- tables ------------------------------------------------------------------------------------

    def _table(self) -> Iterator[str]:
        yield "<details><summary>Phases in numbers</summary>"
        for variant in self._run.variants:
            yield '<div class="wide" tabindex="0" role="group" aria-label="Phases in numbers">'
            yield f"<table><caption>GiB by phase and kind, {text(variant.label)}</caption><thead>"
            heads = "".join(f'<th scope="col">{text(kind)}</th>' for kind in self._kinds)
            yield f'<tr><th scope="col">phase</th>{heads}<th scope="col">total</th></tr></thead>'
            yield "<tbody>"
            for phase, row in zip(self._phases, self._sizes(variant.bars), strict=True):
                cells = "".join(f"<td>{size / 2**30:.2f}</td>" for size in (*row, sum(row)))
                yield f'<tr><th scope="row">{text(phase)}</th>{cells}</tr>'
            yield "</tbody></table></div>"
        yield "</details>"

    def _steps(self) -> Iterator[str]:
        run = self._run
        if not run.steps:
            return
        gpu = run.estimate.gpu
        yield "<h5>What each fix saves, one after the other</h5><ol class=steps>"
        for step, peak in zip(run.steps, run.peaks, strict=True):
            finding = step.finding
            said = saving_words(finding.saving) if finding.saving is not None else ""
            after = f"peak then {gib(peak)}"
            if gpu is not None:
                after += f", {verdict(*ends(peak), gpu.room)} {gpu.name}"
            kind = f" ({KINDS[finding.fix.applicability]})" if finding.fix is not None else ""
            message = finding.fix.message if finding.fix is not None else finding.message
            yield f"<li><b>{text(finding.code)}</b> {text(message)}{kind}: {text(said)}; "
            yield f"{text(after)}.</li>"
        yield "</ol>"

    def _assumptions(self) -> Iterator[str]:
        result = self._run.estimate
        open_ = len(result.assumptions)
        yield "<details><summary>What was read, and what was assumed "
        yield f"({open_} assumption{'' if open_ == 1 else 's'})</summary>"
        model = result.settings.model
        name = model if isinstance(model, str) else result.architecture.family
        words = [f"model {name}", *words_of_settings(result)]
        yield f"<p>Read, with a question mark where it is assumed: {text('; '.join(words))}.</p>"
        if result.assumptions:
            yield "<p>Assumed, what matters most first; each is settled by its flag:</p><ul>"
            for each in result.assumptions:
                swing = f" ({each.name}={each.other}: {gib(each.peak)})" if each.peak else ""
                yield f"<li><code>{text(each.flag)}</code> {text(each.reason + swing)}</li>"
            yield "</ul>"
        yield "</details>"


def _stops(axis: Sequence[int], own: int) -> list[int]:
    """Return the values that a slider takes: at equal ratios, whole, with the run's own."""
    low, high = axis[0], axis[-1]
    spaced = (low * (high / low) ** (step / (_STOPS - 1)) for step in range(_STOPS))
    steps = ((value, 64 if value > 640 else 8 if value > 80 else 1) for value in spaced)
    return sorted({own, low, high, *(round(value / step) * step for value, step in steps)})
