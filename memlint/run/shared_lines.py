"""Fixes that put a statement beside one that shares its line with another (``a; b``, ``if x: y``).

A fix works by whole lines and leaves such a statement alone. Said here, before anything is shown,
counted, priced or planned, it is advice everywhere.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from memlint.rule.findings import Finding, Fix
from memlint.source.edits import InsertStatement

if TYPE_CHECKING:
    from memlint.source import Source, Span

_BEFORE = re.compile(rb"(?:\A|[\r\n])[ \t\f]*\Z")
_BEHIND = re.compile(rb"[ \t\f]*+;?[ \t\f]*+(?:#[^\r\n]*)?(?:[\r\n]|\Z)")


def with_advice_on_shared_lines(source: Source, findings: Sequence[Finding]) -> list[Finding]:
    """``findings`` with advice in the place of fixes that need a line of their own and have
    none."""
    return [
        finding.as_advice()
        if finding.fix is not None and _shares_a_line(source, finding.fix)
        else finding
        for finding in findings
    ]


def _shares_a_line(source: Source, fix: Fix) -> bool:
    return any(
        isinstance(edit, InsertStatement) and not _stands_alone(source.data, edit.anchor)
        for edit in fix.edits
    )


def _stands_alone(data: bytes, anchor: Span) -> bool:
    begin = max(data.rfind(b"\n", 0, anchor.start), data.rfind(b"\r", 0, anchor.start), 0)
    before = _BEFORE.search(data[begin : anchor.start]) is not None
    return before and _BEHIND.match(data, anchor.end) is not None
