"""Results as text, one module per output format, each imported only when asked for.

A format is a function from a ``Report`` to pieces of text; the command line writes them. Formats
for people colour their output if ``Report.colour``; formats for programs never do.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from memlint.run.results import FileResult, Rendered
from memlint.source.record import NamedTuple

if TYPE_CHECKING:
    from memlint.source.diagnostics import FileError

FORMATS = ("full", "concise", "json", "sarif", "github", "gitlab")
# For programs: nothing may be added to what they print.
MACHINE_FORMATS = frozenset(FORMATS[2:])
# Those that show what a fix would change.
FORMATS_WITH_FIXES = frozenset({"full", "json", "sarif"})


class RuleWords(NamedTuple):
    """What a report that lists its rules says of each."""

    code: str
    name: str
    level: str
    summary: str
    why: str


class Report(NamedTuple):
    """What there is to show. ``words`` describes the rules that found something, for SARIF."""

    results: Sequence[FileResult]
    words: Mapping[str, RuleWords] = MappingProxyType({})
    colour: bool = False

    @property
    def findings(self) -> Iterator[Rendered]:
        for result in self.results:
            yield from result.findings

    @property
    def diagnostics(self) -> Iterator[FileError]:
        for result in self.results:
            yield from result.diagnostics


def render(output_format: str, report: Report) -> Iterator[str]:
    """The report in ``output_format``, one of ``FORMATS``, piece by piece."""
    module = importlib.import_module(f"memlint.reports.{output_format}")
    renderer: Callable[[Report], Iterator[str]] = module.render
    return renderer(report)


def words_of(codes: Sequence[str]) -> dict[str, RuleWords]:
    """The words of the rules of ``codes``, which are imported for it."""
    from memlint.rule import registry as rules
    from memlint.rule.file_rules import FILE_RULES

    found = {
        rule.code: RuleWords(
            rule.code,
            rule.name,
            rule.level.value,
            rule.summary,
            rule.why,
        )
        for rule in rules.load(codes)
    }
    found |= {rule.code: RuleWords(*rule[:5]) for rule in FILE_RULES if rule.code in codes}
    return found
