"""Fixes of words that several commands read: made where they are right for all of them.

A shell array may hold flags of two programs. What one of them should get in its place is written
there only where the other, checked by itself, asks for the same.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from memlint.recipes.launch import Command
from memlint.rule.findings import Applicability, Finding
from memlint.source import Source, Span
from memlint.source.record import NamedTuple

if TYPE_CHECKING:
    from memlint.fix.draft import Splice


class OfCommand(NamedTuple):
    """A finding, and the place of the command that it was found for."""

    command: Span
    finding: Finding


def agreed(
    source: Source, commands: Sequence[Command], found: Sequence[OfCommand]
) -> list[Finding]:
    """The findings; a fix that another reader of its words does not ask for becomes advice, and
    one that is unsafe for any of them is unsafe."""
    shared = list(_shared(commands))
    if not shared:
        return [each.finding for each in found]
    splices = [_splices(source, commands, each.finding) for each in found]
    wanted: dict[Splice, dict[Span, Applicability]] = defaultdict(dict)
    for each, own in zip(found, splices, strict=True):
        for splice in own:
            if each.finding.fix is not None:
                wanted[splice][each.command] = each.finding.fix.applicability
    return [
        _agreed(each, [(one, _readers(shared, one)) for one in own], wanted)
        for each, own in zip(found, splices, strict=True)
    ]


def _agreed(
    each: OfCommand,
    splices: Sequence[tuple[Splice, set[Span]]],
    wanted: dict[Splice, dict[Span, Applicability]],
) -> Finding:
    fix = each.finding.fix
    if fix is None:
        return each.finding
    for splice, readers in splices:
        wanting = wanted[splice]
        if not readers - {each.command} <= wanting.keys():
            fix = fix.as_advice()
        elif any(wanting[one] is Applicability.UNSAFE for one in readers & wanting.keys()):
            fix = fix.as_unsafe()
    return each.finding._replace(fix=fix)


def _splices(source: Source, commands: Sequence[Command], finding: Finding) -> list[Splice]:
    # Of the package that takes libcst: few files share words.
    from memlint.fix.command_edits import splices_of
    from memlint.fix.outcome import FixError

    edits = finding.fix.edits if finding.fix is not None else ()
    try:
        return splices_of(source, commands, edits)
    except FixError:
        return []


def _shared(commands: Sequence[Command]) -> Iterator[tuple[Span, set[Span]]]:
    """The words that several commands read, with those that do."""
    for command in commands:
        for flag in (*command.settings, *command.launcher):
            if flag.readers:
                yield flag.span, {command.span, *flag.readers}
            if flag.option_readers:
                yield flag.option_span, {command.span, *flag.option_readers}


def _readers(shared: Sequence[tuple[Span, set[Span]]], splice: Splice) -> set[Span]:
    found: set[Span] = set()
    for place, readers in shared:
        if splice.span.overlaps(place):
            found |= readers
    return found
