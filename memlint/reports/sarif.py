"""SARIF 2.1.0, which code scanning services read.

Rows within a notebook's cell are given with the cell as a logical location, and without fixes:
SARIF's replacements speak of the file, which is JSON there.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

import memlint
from memlint.reports import Report
from memlint.run.results import Shown, TextEdit
from memlint.source.diagnostics import FileError

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS = {"error": "error", "waste": "warning", "hint": "note"}


def render(report: Report) -> Iterator[str]:
    codes = sorted({finding.code for finding in report.findings})
    diagnostics = list(report.diagnostics)
    run = {
        "tool": {
            "driver": {
                "name": "memlint",
                "version": memlint.__version__,
                "rules": [_rule(code, report) for code in codes],
            }
        },
        "columnKind": "unicodeCodePoints",
        "results": [_result(finding, codes) for finding in report.findings],
        "invocations": [
            {
                "executionSuccessful": not diagnostics,
                "toolExecutionNotifications": [_notification(each) for each in diagnostics],
            }
        ],
    }
    yield json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def _rule(code: str, report: Report) -> dict[str, Any]:
    words = report.words.get(code)
    if words is None:
        return {"id": code}
    rule: dict[str, Any] = {
        "id": code,
        "name": words.name,
        "shortDescription": {"text": words.summary},
        "fullDescription": {"text": " ".join(words.why.split())},
        "defaultConfiguration": {"level": _LEVELS[words.level]},
    }
    url = next((finding.url for finding in report.findings if finding.code == code), None)
    if url:
        rule["helpUri"] = url
    return rule


def _result(finding: Shown, codes: list[str]) -> dict[str, Any]:
    region = {
        "startLine": finding.start.row,
        "startColumn": finding.start.column,
        "endLine": finding.end.row,
        "endColumn": finding.end.column,
    }
    location: dict[str, Any] = {
        "physicalLocation": {"artifactLocation": {"uri": _uri(finding.path)}, "region": region}
    }
    if finding.start.cell is not None:
        location["logicalLocations"] = [{"name": f"cell {finding.start.cell}", "kind": "module"}]
    result: dict[str, Any] = {
        "ruleId": finding.code,
        "ruleIndex": codes.index(finding.code),
        "level": _LEVELS[finding.level],
        "message": {"text": finding.message},
        "locations": [location],
    }
    if finding.fix is not None and finding.fix.edits and finding.start.cell is None:
        change = {
            "artifactLocation": {"uri": _uri(finding.path)},
            "replacements": [_replacement(edit) for edit in finding.fix.edits],
        }
        result["fixes"] = [
            {"description": {"text": finding.fix.message}, "artifactChanges": [change]}
        ]
    return result


def _replacement(edit: TextEdit) -> dict[str, Any]:
    return {
        "deletedRegion": {
            "startLine": edit.start.row,
            "startColumn": edit.start.column,
            "endLine": edit.end.row,
            "endColumn": edit.end.column,
        },
        "insertedContent": {"text": edit.content},
    }


def _notification(diagnostic: FileError) -> dict[str, Any]:
    place: dict[str, Any] = {"artifactLocation": {"uri": _uri(diagnostic.path)}}
    if diagnostic.row is not None:
        place["region"] = {"startLine": diagnostic.row, "startColumn": diagnostic.column or 1}
    return {
        "level": "error",
        "message": {"text": diagnostic.message},
        "locations": [{"physicalLocation": place}],
    }


def _uri(path: str) -> str:
    """Relative to the working folder where it lies below, so that services find it."""
    from urllib.parse import quote

    relative = os.path.relpath(path)
    if relative.startswith(".."):
        return "file://" + quote(os.path.abspath(path).replace(os.sep, "/"))
    return quote(relative.replace(os.sep, "/"))
