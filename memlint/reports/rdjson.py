"""Reviewdog's JSON: a comment on a pull request for every finding, with the fix to accept."""

import json
from collections.abc import Iterator
from typing import Any

from memlint.reports import Report
from memlint.run.results import Rendered
from memlint.source import Location

_LEVELS = {"error": "ERROR", "waste": "WARNING", "notice": "INFO", "hint": "INFO"}
_SOURCE = {"name": "memlint", "url": "https://github.com/torch-memlint/memlint"}


def render(report: Report) -> Iterator[str]:
    items = [_finding(each) for each in report.told]
    yield json.dumps({"source": _SOURCE, "diagnostics": items}, indent=2) + "\n"


def _finding(finding: Rendered) -> dict[str, Any]:
    item: dict[str, Any] = {
        "message": finding.message,
        "location": _location(finding.path, finding.start, finding.end),
        "severity": _LEVELS[finding.level],
    }
    if finding.code:
        item["code"] = {"value": finding.code, **({"url": finding.url} if finding.url else {})}
    if finding.fix is not None and finding.fix.edits and finding.start.cell is None:
        item["suggestions"] = [
            {"range": _range(each.start, each.end), "text": each.content}
            for each in finding.fix.edits
        ]
    return item


def _location(path: str, start: Location, end: Location) -> dict[str, Any]:
    """Return a place; the rows of a notebook's cells are not those of its file."""
    return {"path": path} if start.cell is not None else {"path": path, "range": _range(start, end)}


def _range(start: Location, end: Location) -> dict[str, Any]:
    return {
        "start": {"line": start.row, "column": start.column},
        "end": {"line": end.row, "column": end.column},
    }
