"""The default: the place with its source line underlined, why it matters, the fix as a diff."""

from __future__ import annotations

from collections.abc import Iterator

from memlint.reports import Report
from memlint.reports.readable import diagnostic_line, finding_place, headline
from memlint.reports.style import LEVEL_COLOURS, Style, printable, visible, width
from memlint.run.results import Rendered, RenderedFix

_NOTES = {
    "safe": "",
    "unsafe": " (changes training: applied with --unsafe-fixes)",
    "display": "",
}
# A longer diff says less than its beginning.
_DIFF_LINES = 40


def render(report: Report) -> Iterator[str]:
    style = Style(report.colour)
    for result in report.results:
        explained: set[str] = set()  # a reason is given once a rule and file
        for finding in result.findings:
            why = "" if finding.code in explained else finding.why
            explained.add(finding.code)
            yield from _finding(finding, why, style)
        for diagnostic in result.diagnostics:
            yield f"{diagnostic_line(diagnostic, style)}\n\n"


def _finding(finding: Rendered, why: str, style: Style) -> Iterator[str]:
    rows = [finding.start.row]
    if finding.fix is not None:
        rows += [line.row for line in finding.fix.diff]
    margin = len(str(max(rows)))
    bar = style(f"{' ' * margin} |", "blue")
    yield f"{headline(finding, style)}\n"
    yield f"{style(' ' * margin + '-->', 'blue')} {finding_place(finding)}\n"
    if finding.line:
        yield f"{bar}\n"
        number = style(f"{finding.start.row:>{margin}} |", "blue")
        yield f"{number} {printable(finding.line)}\n"
        yield f"{bar} {_underline(finding, style)}\n"
    if why:
        yield f"{style('why', 'bold')}: {visible(why)}\n"
    if finding.fix is not None:
        yield from _fix(finding.fix, margin, style)
    yield "\n"


def _underline(finding: Rendered, style: Style) -> str:
    start = finding.start.column - 1
    single = finding.start.row == finding.end.row
    end = finding.end.column - 1 if single else len(finding.line.rstrip())
    before = width(finding.line[:start])
    marks = max(1, width(finding.line[start:end]))
    return " " * before + style("^" * marks, "bold", LEVEL_COLOURS[finding.level])


def _fix(fix: RenderedFix, margin: int, style: Style) -> Iterator[str]:
    label = "fix" if fix.applicability != "display" else "advice"
    yield f"{style(label, 'bold', 'cyan')}: {visible(fix.message)}{_NOTES[fix.applicability]}\n"
    if fix.requires:
        yield f"{style('needs', 'bold', 'cyan')}: {fix.requires}\n"
    previous: int | None = None
    for line in fix.diff[:_DIFF_LINES]:
        if previous is not None and line.row > previous + 1 and line.sign == "-":
            yield style(f"{'...':>{margin}}", "blue") + "\n"
        previous = line.row
        colour = "red" if line.sign == "-" else "green"
        number = style(f"{line.row:>{margin}}", "blue")
        yield f"{number} {style(f'{line.sign} {printable(line.text)}'.rstrip(), colour)}\n"
    if len(fix.diff) > _DIFF_LINES:
        yield f"{' ' * margin} ({len(fix.diff) - _DIFF_LINES} more lines: `memlint fix --diff`)\n"
