"""Findings counted by rule, most frequent first."""

from collections import Counter
from collections.abc import Iterator

from memlint.reports import Report
from memlint.reports.readable import diagnostic_line
from memlint.reports.style import LEVEL_COLOURS, Style


def render_statistics(report: Report, *, as_json: bool) -> Iterator[str]:
    """Yield a table: count, code, whether it is safely fixable, name."""
    findings = list(report.findings)
    counts = Counter(finding.code for finding in findings)
    sample = {finding.code: finding for finding in findings}
    fixable = {f.code for f in findings if f.fix is not None and f.fix.applicability == "safe"}
    ordered = sorted(counts, key=lambda code: (-counts[code], code))
    if as_json:
        import json

        items = [
            {
                "code": code,
                "name": sample[code].name,
                "count": counts[code],
                "fixable": code in fixable,
            }
            for code in ordered
        ]
        yield json.dumps(items, indent=2) + "\n"
        return
    style = Style(report.colour)
    columns = len(str(max(counts.values(), default=0)))
    for code in ordered:
        shown = style(code, "bold", LEVEL_COLOURS[sample[code].level])
        mark = f"[{style('*', 'cyan')}]" if code in fixable else "[ ]"
        yield f"{counts[code]:>{columns}}  {shown}  {mark}  {sample[code].name}\n"
    for diagnostic in report.diagnostics:
        yield f"{diagnostic_line(diagnostic, style)}\n"
