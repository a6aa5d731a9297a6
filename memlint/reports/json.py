"""The shape of ruff's JSON output, so that what reads that reads this.

A list of objects: ``code``, ``name``, ``message``, ``filename`` (absolute), ``cell``, ``location``
and ``end_location`` (1-based row and column), ``fix`` with its edits and the command that installs
what it ``requires``, ``level``, ``url``; ``assumed_versions`` that nothing names; ``saving``: the
bytes ``low`` and ``high`` that a fix saves in ``phase``, whether the peak falls (``of_peak``), and
``at``, which names the batch or the run whose saving it is, where that is not the script's own.
What could not be read has ``code`` null.
"""

import os
from collections.abc import Iterator
from json import dumps
from typing import Any

from memlint.reports import Report
from memlint.run.results import Rendered, RenderedFix
from memlint.source import Location


def render(report: Report) -> Iterator[str]:
    items: list[dict[str, Any]] = []
    for result in report.results:
        items += [_finding(each, result.assumed) for each in result.told]
    yield dumps(items, indent=2) + "\n"


def _finding(finding: Rendered, assumed: tuple[str, ...]) -> dict[str, Any]:
    return {
        "assumed_versions": list(assumed),
        "cell": finding.start.cell,
        "code": finding.code or None,
        "end_location": _location(finding.end),
        "filename": os.path.abspath(finding.path),
        "fix": None if finding.fix is None else _fix(finding.fix),
        "level": finding.level,
        "location": _location(finding.start),
        "message": finding.message,
        "name": finding.name,
        "noqa_row": finding.start.row if finding.code else None,
        "saving": None if finding.saving is None else finding.saving._asdict(),
        "url": finding.url,
    }


def _fix(fix: RenderedFix) -> dict[str, Any]:
    return {
        "applicability": fix.applicability,
        "edits": [
            {
                "content": edit.content,
                "end_location": _location(edit.end),
                "location": _location(edit.start),
            }
            for edit in fix.edits
        ],
        "message": fix.message,
        "requires": fix.requires or None,
    }


def _location(location: Location) -> dict[str, int]:
    return {"column": location.column, "row": location.row}
