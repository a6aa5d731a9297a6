"""GitLab's code quality report: a JSON list with a fingerprint for every finding."""

import json
from collections.abc import Iterator
from typing import Any

from memlint.reports import Report
from memlint.reports.paths import Fingerprints, relative
from memlint.source import Location

_SEVERITIES = {"error": "major", "waste": "minor", "notice": "info", "hint": "info"}


def render(report: Report) -> Iterator[str]:
    fingerprints = Fingerprints()
    items: list[dict[str, Any]] = []
    for finding in report.told:
        start, end = finding.start, finding.end
        cell = ""
        if start.cell is not None:
            # A cell's rows are no rows of the file.
            cell = f" (cell {start.cell}, row {start.row})"
            start = end = Location(1, 1)
        name = finding.code or finding.name
        items.append(
            {
                "check_name": name,
                "description": f"{name}: {finding.message}{cell}",
                "fingerprint": fingerprints.of(finding),
                "location": _location(relative(finding.path) or finding.path, start, end),
                "severity": _SEVERITIES[finding.level] if finding.code else "blocker",
            }
        )
    yield json.dumps(items, indent=2) + "\n"


def _location(path: str, start: Location, end: Location) -> dict[str, Any]:
    return {
        "path": path,
        "positions": {
            "begin": {"line": start.row, "column": start.column},
            "end": {"line": end.row, "column": end.column},
        },
    }
