"""The default: the place with its source line underlined, why it matters, the fix as a diff."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from memlint.reports import Report
from memlint.reports.readable import diagnostic_line, finding_place, headline
from memlint.reports.style import LEVEL_COLOURS, Style, printable, visible, width
from memlint.run.results import Rendered, RenderedFix

_NOTES = {
    "safe": "",
    "unsafe": " (changes training: applied with --unsafe-fixes)",
    "display": "",
}
# A longer diff says less than its beginning: an import and an option are that many lines.
_DIFF_LINES = 4
_PLACES = 8  # of one fault in a file


def render(report: Report) -> Iterator[str]:
    style = Style(report.colour)
    explained: set[str] = set()  # a reason is given once a rule
    for result in report.results:
        for finding, others in alike(result.findings):
            why = "" if finding.code in explained else finding.why
            explained.add(finding.code)
            yield from _finding(finding, others, why, style)
        for diagnostic in result.diagnostics:
            yield f"{diagnostic_line(diagnostic, style)}\n\n"


def alike(findings: Iterable[Rendered]) -> list[tuple[Rendered, list[Rendered]]]:
    """Each finding of a file with those that say the same of other places."""
    groups: dict[object, tuple[Rendered, list[Rendered]]] = {}
    for each in findings:
        fix = each.fix and (each.fix.message, each.fix.applicability)
        key = (each.code, each.message, each.saving, fix)
        groups.setdefault(key, (each, []))[1].append(each)
    return [(first, alike[1:]) for first, alike in groups.values()]


def _finding(
    finding: Rendered, others: Sequence[Rendered], why: str, style: Style
) -> Iterator[str]:
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
    if others:
        places = [_row(each) for each in others[:_PLACES]]
        more = f" and {len(others) - _PLACES} more" if len(others) > _PLACES else ""
        yield f"{' ' * margin} = also at {', '.join(places)}{more}\n"
    if why:
        yield f"{style('why', 'bold')}: {visible(why)}\n"
    if finding.fix is not None:
        yield from _fix(finding.fix, margin, style)
    yield "\n"


def _row(finding: Rendered) -> str:
    """A place within its file: ``12:5``, in a notebook after the number of its cell."""
    start = finding.start
    numbers = (start.cell, start.row, start.column)
    return ":".join(str(each) for each in numbers if each is not None)


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
    shown = len(fix.diff) if len(fix.diff) <= _DIFF_LINES + 1 else _DIFF_LINES
    for line in fix.diff[:shown]:
        if previous is not None and line.row > previous + 1 and line.sign == "-":
            yield style(f"{'...':>{margin}}", "blue") + "\n"
        previous = line.row
        colour = "red" if line.sign == "-" else "green"
        number = style(f"{line.row:>{margin}}", "blue")
        yield f"{number} {style(f'{line.sign} {printable(line.text)}'.rstrip(), colour)}\n"
    if len(fix.diff) > shown:
        yield f"{' ' * margin} ({len(fix.diff) - shown} more lines: `memlint fix --diff`)\n"
