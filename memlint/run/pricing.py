"""What the findings of one script cost in GiB, and in which order they are shown."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from memlint.rule.findings import Finding, Level
from memlint.rule.savings import Footprint, Pricing
from memlint.source.record import NamedTuple

if TYPE_CHECKING:
    from memlint.rule import Rule
    from memlint.script.model import Script
    from memlint.source import Span

T = TypeVar("T")
_MOST_RUNS = 5  # of a script, the last ones


class OtherRun(NamedTuple):
    """A run of a script before its last one. spans: of its trainer, its configuration and the load
    of its model. settings: None where its model is not known. said: where it stands."""

    spans: tuple[Span, ...]
    settings: Mapping[str, Any] | None
    said: str


class ScriptRuns(NamedTuple):
    """The settings of a script's training, by its last trainer, and the runs before that."""

    settings: Mapping[str, Any] | None
    others: tuple[OtherRun, ...] = ()


def runs_of_script(script: Script) -> ScriptRuns:
    """The settings of the script's runs."""
    from memlint.runs.run_settings import settings_of

    settings = settings_or_none(lambda: settings_of(script))
    return ScriptRuns(settings, tuple(_or_else([], lambda: list(_other_runs(script)))))


def _other_runs(script: Script) -> Iterator[OtherRun]:
    """Yield a loop beside trainers, and the trainers before the last one."""
    from memlint.engine.project import is_elsewhere
    from memlint.runs.run_settings import settings_of_loop, settings_of_trainer

    def on_line(span: Span) -> str:
        place = script.source.location(span.start)
        return f"on line {place.row}{f' of cell {place.cell}' if place.cell else ''}"

    loops = [script.span(loop.node) for loop in script.loops]
    if loops and script.training:
        settings = settings_or_none(partial(settings_of_loop, script))
        yield OtherRun(tuple(loops), settings, f"in the loop {on_line(loops[0])}")
    taken: set[Span] = set()
    for number, trainer in enumerate(reversed(script.training[-_MOST_RUNS:])):
        calls = (trainer, trainer.config, trainer.model.load)
        nodes = [one.node for one in calls if one is not None and not is_elsewhere(one.node)]
        # What several runs share is the last one's.
        spans = tuple(span for span in map(script.span, nodes) if span not in taken)
        taken.update(spans)
        if number:
            settings = settings_or_none(partial(settings_of_trainer, script, trainer))
            yield OtherRun(spans, settings, f"in the run {on_line(script.span(trainer.node))}")


def priced_by_run(
    runs: ScriptRuns, findings: list[Finding], pricing: Pricing, waiting: Sequence[Rule]
) -> tuple[list[Finding], Footprint | None]:
    """The findings, each with its saving in its own run; what the script's last run needs."""
    left = findings
    apart: list[Finding] = []
    for other in runs.others:
        own = [each for each in left if any(span.contains(each.span) for span in other.spans)]
        left = [each for each in left if each not in own]
        found, _ = _with_prices(other.settings, own, pricing) if other.settings else (own, None)
        apart += [
            each
            if each.saving is None
            else each._replace(saving=each.saving._replace(at=each.saving.at or other.said))
            for each in found
        ]
    if runs.settings is None:
        from memlint.memory.usual_prices import with_unit_prices

        left = _or_else(left, lambda: with_unit_prices(left))
        return sorted([*left, *apart], key=lambda each: (each.span, each.code)), None
    found, footprint = priced(runs.settings, left, pricing, waiting)
    if not apart:
        return found, footprint
    fits = footprint is None or footprint.fits is not False
    return sorted([*found, *apart], key=lambda each: _rank(each, fits)), footprint


def settings_or_none(read: Callable[[], Mapping[str, Any] | None]) -> Mapping[str, Any] | None:
    """The settings of a run; None where nothing is read of it."""
    return _or_else(None, read) or None


def _or_else(default: T, question: Callable[[], T]) -> T:
    """The answer; the default where the memory model cannot read something."""
    try:
        return question()
    except (RecursionError, MemoryError):
        raise
    except Exception:
        return default


def priced(
    run: Mapping[str, Any], findings: list[Finding], pricing: Pricing, waiting: Sequence[Rule]
) -> tuple[list[Finding], Footprint | None]:
    """The findings with their savings, those that break first, then by what they save.

    waiting: rules on request that nobody selected: shown where they lower the peak, some only where
    that is enough.
    """
    found, footprint = _with_prices(run, findings, pricing)
    doubtful = {rule.code for rule in waiting if rule.only_to_fit}
    if footprint is not None and not footprint.fits_fixed:
        rest = [each for each in findings if each.code not in doubtful]
        if len(rest) < len(findings):
            return priced(run, rest, pricing, waiting)
    uncalled = {rule.code for rule in waiting}
    found = [
        each
        for each in found
        if each.code not in uncalled or (each.saving is not None and each.saving.of_peak)
    ]
    if footprint is None:
        return found, None
    fits = footprint.fits is not False
    return sorted(found, key=lambda each: _rank(each, fits)), footprint


def _with_prices(
    run: Mapping[str, Any], findings: list[Finding], pricing: Pricing
) -> tuple[list[Finding], Footprint | None]:
    from memlint.memory.prices import price

    def ask() -> tuple[list[Finding], Footprint | None]:
        known = price(run, findings, pricing)
        if known is None:
            from memlint.memory.usual_prices import price_as_usual

            return price_as_usual(run, findings, pricing)
        return known

    nothing: tuple[list[Finding], Footprint | None] = (findings, None)
    return _or_else(nothing, ask)


def _rank(finding: Finding, fits: bool) -> tuple[int, int, Span, str]:
    """What stops the run first, by place; then errors that only cost memory, then by the peak's
    fall. Hints come last, unless the run does not fit."""
    saving = finding.saving
    counts = saving is not None and (not saving.at or saving.at.endswith("(assumed)"))
    saved = saving.high if saving is not None and saving.of_peak and counts else 0
    if finding.level is Level.ERROR:
        group = 0 if saving is None else 1
    elif saved and (finding.level is Level.WASTE or not fits):
        group = 2
    else:
        group = 3 if finding.level is Level.WASTE else 4
    return group, -saved, finding.span, finding.code


def is_too_large(run: Mapping[str, Any], pricing: Pricing) -> bool:
    """True if a run does not fit the GPU that the user names."""
    from memlint.memory.prices import read_run

    def too_large() -> bool:
        read = read_run(run, pricing)
        return read is not None and not read.is_guess and read.peak() > read.room

    return bool(pricing.gpu) and _or_else(False, too_large)
