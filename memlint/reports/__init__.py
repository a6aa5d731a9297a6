"""Results as text, one module per output format, each imported only when asked for."""

import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType

from memlint.run.results import FileResult, Rendered
from memlint.source.diagnostics import FileError
from memlint.source.record import NamedTuple

FORMATS = (
    "full", "concise", "json", "sarif", "github", "gitlab", "junit", "azure", "rdjson",
)  # fmt: skip
# For programs: nothing may be added to their output.
MACHINE_FORMATS = frozenset({*FORMATS[2:], "html"})
# Formats that show a fix's changes.
FORMATS_WITH_FIXES = frozenset({"full", "json", "sarif", "rdjson", "html"})


class RuleWords(NamedTuple):
    """A rule's description, for reports that list rules."""

    code: str
    name: str
    level: str
    summary: str
    why: str


class Report(NamedTuple):
    """Results to show. ``words`` describes the rules with findings, for SARIF."""

    results: Sequence[FileResult]
    words: Mapping[str, RuleWords] = MappingProxyType({})
    colour: bool = False

    @property
    def findings(self) -> Iterator[Rendered]:
        for result in self.results:
            yield from result.findings

    @property
    def told(self) -> Iterator[Rendered]:
        """Yield the findings, and each file's reasons why it could not be read."""
        for result in self.results:
            yield from result.told

    @property
    def diagnostics(self) -> Iterator[FileError]:
        for result in self.results:
            yield from result.diagnostics


def render(output_format: str, report: Report) -> Iterator[str]:
    """Yield the report in ``output_format``, one of ``FORMATS``, piece by piece."""
    module = importlib.import_module(f"memlint.reports.{output_format}")
    renderer: Callable[[Report], Iterator[str]] = module.render
    return renderer(report)


def words_of(codes: Sequence[str]) -> dict[str, RuleWords]:
    """Import the rules of ``codes`` and return their descriptions."""
    from memlint.rule import registry as rules
    from memlint.rule.file_rules import FILE_RULES

    found = {
        rule.code: RuleWords(rule.code, rule.name, rule.level.value, rule.summary, rule.page.why)
        for rule in rules.load(codes)
    }
    found |= {rule.code: RuleWords(*rule[:5]) for rule in FILE_RULES if rule.code in codes}
    return found
