"""The runs that a page shows: read as ``estimate`` reads them, with their fixes in order."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from memlint.memory import Estimate, estimate
from memlint.memory.prices import Changes, Run, Step, steps
from memlint.memory.settings import with_pricing
from memlint.page.slider_grid import Bars, Grid, bars_of, grid_of
from memlint.project.targets import Targets
from memlint.recipes.document import DocumentError
from memlint.rule.savings import Pricing
from memlint.run.described import runs_in
from memlint.run.description import Described
from memlint.run.results import FileResult, Rendered
from memlint.run.runs import Runs
from memlint.source.diagnostics import ReadError
from memlint.source.record import NamedTuple

if TYPE_CHECKING:
    from memlint.api.lookup import Api
    from memlint.rule.findings import Finding
    from memlint.run.jobs import Job
    from memlint.source import Source

MOST = 20  # runs of a page
_OF_FILE = 4  # runs of a file
_TRIED = 60  # files without a finding that has a price


class Variant(NamedTuple):
    """The run as it is, or with fixes. bars: bytes by phase and kind."""

    label: str
    changes: Changes
    bars: Bars


class ShownRun(NamedTuple):
    """A run. place: where it stands. said: the words of its command. steps: its fixes in order,
    each with what it saves once those before it are done."""

    path: str
    place: str
    said: str
    estimate: Estimate
    variants: tuple[Variant, ...]
    steps: tuple[Step, ...]
    peaks: tuple[int, ...]  # after each step
    grid: Grid | None


def shown(described: Described, pricing: Pricing, findings: Iterable[Finding]) -> ShownRun | None:
    """Return a run as a page shows it; None where its model or a setting is not known."""
    try:
        settings = with_pricing(described.settings, pricing)
        result = estimate(settings)
        run = Run(settings, result.architecture)
        order = tuple(steps(run, tuple(findings)))
        safe = [step.done for step in order if step.is_safe]
        changes = {"as it is": (), "with safe fixes": safe[-1] if safe else ()}
        changes["with every fix and advice"] = order[-1].done if order else ()
        kept: list[Variant] = []
        for label, change in changes.items():
            if all(change != other.changes for other in kept):
                kept.append(Variant(label, change, bars_of(run, change)))
        return ShownRun(
            described.path,
            described.place,
            described.said,
            result,
            tuple(kept),
            order,
            tuple(run.peak(step.done) for step in order),
            grid_of(run, [each.changes for each in kept]),
        )
    except (KeyError, ValueError):
        return None


def runs_of_results(
    results: Sequence[FileResult], jobs: Sequence[Job], target: str | None
) -> tuple[dict[str, list[ShownRun]], int]:
    """Return the runs of the files that were checked, by path, and how many files with prices are
    left out: of many, those that need or waste most are shown."""
    of_path = {job.path: job for job in jobs}
    ranked = sorted(
        (result for result in results if result.path in of_path and not result.diagnostics),
        key=lambda result: (-wasted(result), -needed(result), result.path),
    )
    reader = _Reader(target)
    found: dict[str, list[ShownRun]] = {}
    left = MOST
    omitted = tried = 0
    for result in ranked:
        has_price = result.footprint is not None or wasted(result) > 0
        if left <= 0 or (not has_price and tried >= _TRIED):
            omitted += result.footprint is not None
            continue
        tried += not has_price
        runs = reader.shown(of_path[result.path], result.findings, min(left, _OF_FILE))
        if runs:
            found[result.path] = runs
            left -= len(runs)
    return found, omitted


def wasted(result: FileResult) -> int:
    """Return the bytes that the fixes of a file take from its peak; 0 where that is not known."""
    footprint = result.footprint
    if footprint is None:
        return 0
    least = min(each for each in (footprint.peak, footprint.safe, footprint.every) if each)
    return footprint.peak - least


def needed(result: FileResult) -> int:
    """Return the bytes of a file's peak; 0 where it is not known."""
    return result.footprint.peak if result.footprint is not None else 0


class _Reader:
    """Reads files' runs; what was loaded for one file serves the next."""

    def __init__(self, target: str | None) -> None:
        self._targets = Targets()
        self._target = target
        self._runs = Runs(release=self._targets.release)

    def shown(self, job: Job, findings: Sequence[Rendered], most: int) -> list[ShownRun]:
        """Return the runs that a file describes, at most so many."""
        codes = {each.code for each in findings}
        told = {(each.code, each.message, each.start.row) for each in findings}
        return [
            found
            for run in self._described(job)[:most]
            if (found := shown(run, job.pricing or Pricing(), _told(run, job, codes, told)))
        ]

    def _described(self, job: Job) -> list[Described]:
        def tables(file: str, source: Source | None) -> Api:
            return self._targets.api(os.path.abspath(file), self._target or job.target, source)

        try:
            return runs_in(job.path, tables, self._runs)
        except (ReadError, DocumentError, SyntaxError, ValueError, OSError):
            return []


def _told(
    run: Described, job: Job, codes: set[str], told: set[tuple[str, str, int]]
) -> Iterator[Finding]:
    """Yield the findings of a run that the report has, with what they change."""
    if run.find is None or not codes:
        return
    for each in run.find(codes, job.runtime):
        row = run.source.location(each.span.start).row
        if (each.code, each.message, row) in told:
            yield each
