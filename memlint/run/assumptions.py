"""Fixes where versions are only assumed: applied is what is right for every version.

A fix is right for a version if the same rule, asked about that version, comes to the same edits. So
the script is checked again for the other versions that may be meant, with the rules whose fixes are
in question only, until none of these is left or every version agrees. Edits that ask nothing of a
library (``del outputs``, ``with torch.no_grad():``) need no second check.

Cost: some ten milliseconds a check. A fix that depends on the version mostly falls at the first
one, the oldest; one that every version agrees to takes some hundred.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from memlint.rule.findings import Applicability, Finding, Fix
from memlint.source.edits import AddDecorator, AddImport, Edit, InsertStatement, WrapStatements

if TYPE_CHECKING:
    from memlint.api.lookup import Api
    from memlint.source import Source

# What PyTorch has had for as long as anybody trained with it.
_PLAIN = re.compile(r"del [\w., ]+|@?(?:with )?torch\.(?:no_grad|inference_mode)\(\)?:?")

# Scripts are smaller; a larger file would be checked for minutes.
_LARGEST_BYTES = 300_000

_Key = tuple[str, Fix]


def right_everywhere(
    source: Source,
    findings: Sequence[Finding],
    others: Iterable[Api],
    check: Callable[[frozenset[str], Api], list[Finding]],
) -> tuple[list[Finding], list[Finding]]:
    """``findings`` with advice in the place of fixes that depend on the version, and those.

    others: the tables of all other versions that may be meant; empty where the versions are known.
    check: what the rules of some codes find in the source at other versions.
    """
    doubtful = {_key(each) for each in findings if _is_doubtful(each)}
    if not doubtful:
        return list(findings), []
    left = set(doubtful) if len(source.data) <= _LARGEST_BYTES else set()
    for api in others if left else ():
        found = check(frozenset(code for code, _ in left), api)
        left &= {_key(each) for each in found}
        if not left:
            break
    withheld = [each for each in findings if _key(each) in doubtful - left]
    kept = [each.as_advice() if _key(each) in doubtful - left else each for each in findings]
    return kept, withheld


def _is_doubtful(finding: Finding) -> bool:
    fix = finding.fix
    if fix is None or not fix.edits or fix.applicability is Applicability.DISPLAY:
        return False
    return not all(map(_is_plain, fix.edits))


def _is_plain(edit: Edit) -> bool:
    match edit:
        case AddImport(module="torch", name=None):
            return True
        case InsertStatement(source=text) | AddDecorator(source=text) | WrapStatements(header=text):
            return _PLAIN.fullmatch(text.strip()) is not None
    return False


def _key(finding: Finding) -> _Key:
    """What must come out the same: the words may name versions, the edits decide."""
    fix = finding.fix or Fix("")
    return finding.code, fix._replace(message="", effect=())
