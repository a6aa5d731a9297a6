"""One line per finding: ``path:row:column: CODE message``."""

from collections.abc import Iterator

from memlint.reports import Report
from memlint.reports.readable import diagnostic_line, finding_place, headline
from memlint.reports.style import Style


def render(report: Report) -> Iterator[str]:
    style = Style(report.colour)
    for result in report.results:
        for finding in result.findings:
            yield f"{style(finding_place(finding), 'bold')}: {headline(finding, style)}\n"
        for diagnostic in result.diagnostics:
            yield f"{diagnostic_line(diagnostic, style)}\n"
