"""What the formats for people share: places, the line of a finding, the closing summary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from memlint.reports import Report
from memlint.reports.style import LEVEL_COLOURS, Style, visible
from memlint.run.results import Shown
from memlint.source.diagnostics import FileError


def place(path: str, row: int | None, column: int | None, cell: int | None) -> str:
    """``path:row:column``, or ``path:cell:row:column`` in a notebook."""
    parts = [path, *(str(each) for each in (cell, row, column) if each is not None)]
    return visible(":".join(parts))


def finding_place(finding: Shown) -> str:
    return place(finding.path, finding.start.row, finding.start.column, finding.start.cell)


def headline(finding: Shown, style: Style) -> str:
    """Code, whether it is safely fixable, a notice's or hint's word, message."""
    parts = [style(finding.code, "bold", LEVEL_COLOURS[finding.level])]
    if finding.fix is not None and finding.fix.applicability == "safe":
        parts.append(f"[{style('*', 'cyan')}]")
    if not finding.counts:
        parts.append(style(f"({finding.level})", "dim"))
    return " ".join([*parts, visible(finding.message)])


def diagnostic_line(diagnostic: FileError, style: Style) -> str:
    where = place(diagnostic.path, diagnostic.row, diagnostic.column, diagnostic.cell)
    return f"{style('error', 'bold', 'red')}: {where}: {visible(diagnostic.message)}"


def summary(report: Report) -> Iterator[str]:
    """The closing lines: how much was found, and how much of it which command fixes."""
    findings = list(report.findings)
    files = plural(len(report.results), "file")
    unread = sum(1 for _ in report.diagnostics)
    if findings:
        affected = sum(1 for result in report.results if result.findings)
        yield f"Found {_counted(findings)} in {affected} of {files}.\n"
        yield from _fixable(findings)
    elif not unread:
        yield f"Nothing found in {files}.\n"
    if unread:
        yield f"{plural(unread, 'problem')} kept files, or parts of them, from being checked.\n"


def _counted(findings: Sequence[Shown]) -> str:
    """``3 findings, 1 notice and 2 hints``."""
    levels = Counter(finding.level for finding in findings)
    words = [plural(sum(finding.counts for finding in findings), "finding")]
    words += [plural(levels[level], level) for level in ("notice", "hint") if levels[level]]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def _fixable(findings: Sequence[Shown]) -> Iterator[str]:
    kinds = [finding.fix.applicability for finding in findings if finding.fix]
    safe, unsafe = kinds.count("safe"), kinds.count("unsafe")
    if safe:
        more = f", {unsafe} more with `--unsafe-fixes`" if unsafe else ""
        yield f"{safe} fixable with `memlint fix`{more}.\n"
    elif unsafe:
        yield f"{unsafe} fixable with `memlint fix --unsafe-fixes`.\n"


def plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
