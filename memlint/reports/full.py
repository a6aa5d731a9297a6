"""The default: each place with what is wrong, why it matters, and its line or the fix as a diff."""

from collections.abc import Iterable, Iterator, Sequence

from memlint.reports import Report
from memlint.reports.readable import diagnostic_line, finding_place, headline
from memlint.reports.style import LEVEL_COLOURS, Style, printable, shown_path, visible, width
from memlint.run.results import Rendered, RenderedFix

_UNSAFE = " (changes training: applied with --unsafe-fixes)"
# A longer diff says less than its beginning: an import and an option are that many lines.
_DIFF_LINES = 4
_PLACES = 8  # of one fault in a file


def render(report: Report) -> Iterator[str]:
    style = Style(report.colour)
    explained: set[str] = set()  # a reason is given once a rule
    for result in report.results:
        previous = ""
        for finding, others in alike(result.findings):
            yield "\n" if previous not in ("", finding.code) else ""
            previous = finding.code
            why = "" if finding.code in explained else finding.why
            explained.add(finding.code)
            yield from _finding(finding, others, why, style)
        if previous:
            yield "\n"
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
    row, diff = finding.start.row, finding.fix.diff if finding.fix is not None else ()
    margin = len(str(max(row, *(line.row for line in diff), 0))) + 2
    yield f"{style(finding_place(finding), 'bold')}: {headline(finding, style)}\n"
    if why:
        yield f"  {style('why', 'bold')}: {visible(why)}\n"
    if finding.line and not any(line.sign == "-" and line.row == row for line in diff):
        yield f"{style(f'{row:>{margin}} |', 'blue')} {printable(finding.line)}\n"
        if finding.line[: finding.start.column - 1].strip():  # else it begins the line
            yield f"{style(' ' * margin + ' |', 'blue')} {_underline(finding, style)}\n"
    if others:
        here = f"{shown_path(finding.path)}:"
        places = [finding_place(each).removeprefix(here) for each in others[:_PLACES]]
        more = f" and {len(others) - _PLACES} more" if len(others) > _PLACES else ""
        yield f"{' ' * margin} = also at {', '.join(places)}{more}\n"
    if finding.fix is not None:
        yield from _fix(finding.fix, margin, style)


def _underline(finding: Rendered, style: Style) -> str:
    start = finding.start.column - 1
    single = finding.start.row == finding.end.row
    end = finding.end.column - 1 if single else len(finding.line.rstrip())
    before = width(finding.line[:start])
    marks = max(1, width(finding.line[start:end]))
    return " " * before + style("^" * marks, "bold", LEVEL_COLOURS[finding.level])


def _fix(fix: RenderedFix, margin: int, style: Style) -> Iterator[str]:
    label = "fix" if fix.applicability != "display" else "advice"
    if fix.applicability != "safe" or not fix.diff:  # else the diff says it
        note = _UNSAFE if fix.applicability == "unsafe" else ""
        yield f"  {style(label, 'bold', 'cyan')}: {visible(fix.message)}{note}\n"
    if fix.requires:
        yield f"  {style('needs', 'bold', 'cyan')}: {fix.requires}\n"
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
