"""GitLab's code quality report: a JSON list with a fingerprint for every finding."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from hashlib import blake2b
from typing import Any

from memlint.reports import Report

_SEVERITIES = {"error": "major", "waste": "minor", "hint": "info"}


def render(report: Report) -> Iterator[str]:
    seen: dict[str, int] = {}
    items: list[dict[str, Any]] = []
    for result in report.results:
        path = _relative(result.path)
        for finding in result.findings:
            # Rows are left out of the fingerprint: a finding that moves is no new one.
            cell = "" if finding.start.cell is None else f" (cell {finding.start.cell})"
            items.append(
                {
                    "check_name": finding.code,
                    "description": f"{finding.code}: {finding.message}{cell}",
                    "fingerprint": _fingerprint(
                        seen, path, finding.code, finding.message, finding.line.strip()
                    ),
                    "location": _location(
                        path, finding.start.row, finding.start.column,
                        finding.end.row, finding.end.column,
                    ),
                    "severity": _SEVERITIES[finding.level],
                }
            )  # fmt: skip
        for each in result.diagnostics:
            row, column = each.row or 1, each.column or 1
            items.append(
                {
                    "check_name": "unreadable",
                    "description": each.message,
                    "fingerprint": _fingerprint(seen, path, "unreadable", each.message),
                    "location": _location(path, row, column, row, column),
                    "severity": "blocker",
                }
            )
    yield json.dumps(items, indent=2) + "\n"


def _location(path: str, row: int, column: int, end_row: int, end_column: int) -> dict[str, Any]:
    return {
        "path": path,
        "positions": {
            "begin": {"line": row, "column": column},
            "end": {"line": end_row, "column": end_column},
        },
    }


def _fingerprint(seen: dict[str, int], *parts: str) -> str:
    """Equal findings of one file are told apart by their order."""
    key = "\0".join(parts)
    seen[key] = seen.get(key, 0) + 1
    return blake2b(f"{key}\0{seen[key]}".encode("utf-8", "replace"), digest_size=16).hexdigest()


def _relative(path: str) -> str:
    relative = os.path.relpath(path)
    return (path if relative.startswith("..") else relative).replace(os.sep, "/")
