"""What the findings of one script cost in GiB, and in which order they are shown.

A price is something more: whatever the memory model cannot read leaves findings as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from memlint.rule.findings import Finding, Level
from memlint.rule.savings import Footprint, Pricing

if TYPE_CHECKING:
    from memlint.rule import Rule
    from memlint.script import Script
    from memlint.source import Span

T = TypeVar("T")


def run_of(script: Script) -> Mapping[str, Any] | None:
    """The settings of the script's training where its model is known by name."""
    from memlint.runs.run_settings import settings_of

    return settings_or_none(lambda: settings_of(script))


def settings_or_none(read: Callable[[], Mapping[str, Any] | None]) -> Mapping[str, Any] | None:
    """The settings of a run whose model is known by name; None for all others."""
    values = _or_else(None, read)
    return values if values and values.get("model") else None


def _or_else(default: T, question: Callable[[], T]) -> T:
    """The answer; the default where the memory model cannot read something."""
    try:
        return question()
    except (RecursionError, MemoryError):
        raise
    except Exception:
        return default


def priced(
    run: Mapping[str, Any],
    findings: list[Finding],
    pricing: Pricing,
    waiting: Sequence[Rule],
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

    nothing: tuple[list[Finding], Footprint | None] = (findings, None)
    return _or_else(nothing, lambda: price(run, findings, pricing))


def _rank(finding: Finding, fits: bool) -> tuple[int, int, Span, str]:
    """What stops the run first, by place; then errors that only cost memory, then by the peak's
    fall. Hints come last, unless the run does not fit."""
    saving = finding.saving
    saved = saving.high if saving is not None and saving.of_peak else 0
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
