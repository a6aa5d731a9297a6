"""Workflow commands that GitHub shows as annotations on a pull request."""

import re
from collections.abc import Iterator

from memlint.reports import Report
from memlint.reports.readable import assumed_line, finding_place
from memlint.reports.style import visible

_COMMANDS = {"error": "error", "waste": "warning", "notice": "notice", "hint": "notice"}


def render(report: Report) -> Iterator[str]:
    for finding in report.told:
        where = {"file": finding.path}
        if finding.start.cell is None:  # a notebook's rows are a cell's, not the file's
            where |= {
                "line": str(finding.start.row),
                "col": str(finding.start.column),
                "endLine": str(finding.end.row),
                "endColumn": str(finding.end.column),
            }
        title = f"memlint ({finding.code})" if finding.code else "memlint"
        text = f"{finding_place(finding)}: {f'{finding.code} {finding.message}'.lstrip()}"
        yield _command(_COMMANDS[finding.level], title, where, text)
    if line := assumed_line(report):
        yield _command("notice", "memlint", {}, line)


def _command(name: str, title: str, where: dict[str, str], text: str) -> str:
    values = {"title": title, **where}
    shown = {key: _data(one).replace(":", "%3A").replace(",", "%2C") for key, one in values.items()}
    listed = ",".join(f"{key}={one}" for key, one in shown.items())
    return f"::{name} {listed}::{_data(text)}\n"


def _data(text: str) -> str:
    """Encode ``text`` for the runner: keep newlines, make other control characters visible."""
    lines = re.split(r"(\r|\n)", text.replace("%", "%25"))
    return "".join({"\r": "%0D", "\n": "%0A"}.get(part) or visible(part) for part in lines)
