"""Fixes that are said and not made, and why: decided before anything is shown, counted or priced.

A hint's fix is a trade that nobody asked for; one that imports the runtime may not be wanted; one
that puts a statement beside another works by whole lines, and leaves ``a; b`` alone.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from memlint.rule.findings import Applicability, Finding, Fix, Level
from memlint.source.edits import AddDecorator, AddImport, InsertStatement, WrapStatements

if TYPE_CHECKING:
    from memlint.api.target_versions import Target
    from memlint.source import Source, Span

# Edits that ask nothing of a library: ``del outputs``, ``with torch.no_grad():``.
_PLAIN = (AddDecorator, AddImport, InsertStatement, WrapStatements)
_BEFORE = re.compile(rb"(?:\A|[\r\n])[ \t\f]*\Z")
_BEHIND = re.compile(rb"[ \t\f]*+;?[ \t\f]*+(?:#[^\r\n]*)?(?:[\r\n]|\Z)")


def hints_as_advice(findings: list[Finding], by_code: frozenset[str] | None) -> list[Finding]:
    """``findings`` without those on request that the user did not choose, and with advice in the
    place of fixes of hints that he did not."""
    if by_code is None:
        return findings
    findings = [one for one in findings if not one.on_request or one.code in by_code]
    # Their edits are shown.
    return [
        each._replace(fix=each.fix._replace(applicability=Applicability.DISPLAY))
        if each.fix is not None and _is_trade(each, by_code)
        else each
        for each in findings
    ]


def _is_trade(finding: Finding, by_code: frozenset[str]) -> bool:
    """True if its fix is a trade that the user did not choose."""
    return (
        finding.level is Level.HINT
        and finding.code not in by_code
        and finding.fix is not None
        and finding.fix.applicability is not Applicability.DISPLAY
    )


def of_old_targets(findings: list[Finding], versions: Sequence[str]) -> list[Finding]:
    """Return the findings for a target older than the tables.

    Findings about such a version are dropped. Fixes that write names of a library become advice.
    """
    found = []
    for one in findings:
        if any(version in one.message for version in versions):
            continue
        if one.fix is not None and not all(isinstance(edit, _PLAIN) for edit in one.fix.edits):
            message = (
                f"{one.fix.message}, if {' and '.join(versions)} can: older than what memlint knows"
            )
            one = one._replace(fix=one.fix._replace(message=message)).as_advice()
        found.append(one)
    return found


def without_runtime(findings: Sequence[Finding], target: Target, *, wanted: bool) -> list[Finding]:
    """``findings`` with advice in the place of fixes that import the runtime, where it is not
    wanted or the target's libraries are older than what it needs."""
    from memlint.api.runtime import lacking
    from memlint.run.runtime_fixes import runtime_imports

    found = []
    for finding in findings:
        names = runtime_imports(finding.fix)
        if names and finding.fix is not None:
            missing = lacking(names, target)
            message = finding.fix.message
            if missing:
                message = f"{message}; this needs {' and '.join(missing)}"
            if missing or not wanted:
                fix = finding.fix._replace(message=message)
                finding = finding._replace(fix=fix).as_advice()
        found.append(finding)
    return found


def with_advice_on_shared_lines(source: Source, findings: Sequence[Finding]) -> list[Finding]:
    """``findings`` with advice in the place of fixes that need a line of their own and have
    none."""
    return [
        each.as_advice() if each.fix is not None and _shares_a_line(source, each.fix) else each
        for each in findings
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
