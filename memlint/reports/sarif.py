"""SARIF 2.1.0, which code scanning services read.

SARIF's rows are a file's, and a notebook's file is JSON: a finding there is put on the file's first
row, with cell and row in its message and as a logical location, and without fixes.
"""

import json
from collections.abc import Iterator
from typing import Any

import memlint
from memlint.reports import Report
from memlint.reports.paths import Fingerprints, uri
from memlint.run.results import FileResult, Rendered, TextEdit
from memlint.source import Location
from memlint.source.diagnostics import FileError

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_PROJECT = "https://github.com/torch-memlint/memlint"
_LEVELS = {"error": "error", "waste": "warning", "notice": "note", "hint": "note"}


def render(report: Report) -> Iterator[str]:
    codes = sorted({finding.code for finding in report.findings})
    diagnostics = list(report.diagnostics)
    fingerprints = Fingerprints()
    run: dict[str, Any] = {
        "tool": {
            "driver": {
                "name": "memlint",
                "version": memlint.__version__,
                "informationUri": _PROJECT,
                "rules": [_rule(code, report) for code in codes],
            }
        },
        "columnKind": "unicodeCodePoints",
        "results": [_result(finding, codes, fingerprints) for finding in report.findings],
        "invocations": [
            {
                "executionSuccessful": not diagnostics,
                "toolExecutionNotifications": [_notification(each) for each in diagnostics],
            }
        ],
    }
    assumed = dict.fromkeys(each for result in report.results for each in result.assumed)
    properties: dict[str, Any] = {"assumedVersions": list(assumed)} if assumed else {}
    if footprints := [_footprint(result) for result in report.results if result.footprint]:
        properties["footprints"] = footprints
    if properties:
        run["properties"] = properties
    yield json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def _footprint(result: FileResult) -> dict[str, Any]:
    assert result.footprint is not None
    return {"uri": uri(result.path), **result.footprint._asdict()}


def _rule(code: str, report: Report) -> dict[str, Any]:
    words = report.words.get(code)
    if words is None:
        return {"id": code}
    why = " ".join(words.why.split())
    rule: dict[str, Any] = {
        "id": code,
        "name": words.name,
        "shortDescription": {"text": words.summary},
        "fullDescription": {"text": why},
        "help": {"text": f"{why}\n\n`memlint rule {code}` shows an example and sources."},
        "defaultConfiguration": {"level": _LEVELS[words.level]},
    }
    url = next((finding.url for finding in report.findings if finding.code == code), None)
    if url:
        rule["helpUri"] = url
    return rule


def _result(finding: Rendered, codes: list[str], fingerprints: Fingerprints) -> dict[str, Any]:
    start, end, cell = finding.start, finding.end, finding.start.cell
    message = finding.message
    if cell is not None:
        message = f"cell {cell}, row {start.row}: {message}"
        start = end = Location(1, 1)
    region = {
        "startLine": start.row,
        "startColumn": start.column,
        "endLine": end.row,
        "endColumn": end.column,
    }
    location: dict[str, Any] = {
        "physicalLocation": {"artifactLocation": {"uri": uri(finding.path)}, "region": region}
    }
    if cell is not None:
        location["logicalLocations"] = [{"name": f"cell {cell}", "kind": "module"}]
    result: dict[str, Any] = {
        "ruleId": finding.code,
        "ruleIndex": codes.index(finding.code),
        "level": _LEVELS[finding.level],
        "message": {"text": message},
        "locations": [location],
        "partialFingerprints": {"memlint/v1": fingerprints.of(finding)},
    }
    if finding.saving is not None:
        result["properties"] = {"saving": finding.saving._asdict()}
    if finding.fix is not None and finding.fix.edits and finding.start.cell is None:
        change = {
            "artifactLocation": {"uri": uri(finding.path)},
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
    place: dict[str, Any] = {"artifactLocation": {"uri": uri(diagnostic.path)}}
    if diagnostic.row is not None and diagnostic.cell is None:
        place["region"] = {"startLine": diagnostic.row, "startColumn": diagnostic.column or 1}
    return {
        "level": "error",
        "message": {"text": diagnostic.message},
        "locations": [{"physicalLocation": place}],
    }
