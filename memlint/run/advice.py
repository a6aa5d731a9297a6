"""Fixes that are said and not made, and why: decided before anything is shown, counted or priced.

A hint's fix is a trade that nobody asked for; one that imports the runtime may not be wanted; one
that puts a statement beside another works by whole lines, and leaves ``a; b`` alone. Where versions
are only assumed, what is applied is right for each of them: the same rule, asked about another
version that may be meant, comes to the same edits. Edits that ask nothing of a library need no
second check (some ten milliseconds).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from memlint.api.runtime import INSTALL, NEEDS, is_of_runtime
from memlint.project.targets import named_in
from memlint.rule.findings import Applicability, Finding, Fix, Level
from memlint.source.edits import (
    AddDecorator,
    AddImport,
    Edit,
    InsertStatement,
    RemoveKeyword,
    RenameImport,
    SetKeyword,
    WrapStatements,
)

if TYPE_CHECKING:
    from memlint.api.lookup import Api
    from memlint.api.target_versions import Target
    from memlint.source import Source, Span


def runtime_imports(fix: Fix | None) -> tuple[str, ...]:
    """Qualified names of the runtime that the edits of ``fix`` import."""
    found = []
    for edit in fix.edits if fix is not None else ():
        if isinstance(edit, AddImport):
            found.append(f"{edit.module}.{edit.name}" if edit.name else edit.module)
        elif isinstance(edit, RenameImport):
            found.append(f"{edit.new_module}.{edit.new_name}".lstrip("."))
    return tuple(name for name in found if is_of_runtime(name))


def requires(fix: Fix | None) -> str:
    """The command that installs what the fixed script imports; empty where nothing is added."""
    return INSTALL if runtime_imports(fix) else ""


def libraries_of(source: Source, findings: Sequence[Finding]) -> frozenset[str]:
    """The libraries on whose versions it depends what is found in ``source``, and fixed."""
    found = named_in(source)
    if any(runtime_imports(finding.fix) for finding in findings):
        found |= NEEDS.keys()
    return found


# Edits that ask nothing of a library: ``del outputs``, ``with torch.no_grad():``.
_PLAIN = (AddDecorator, AddImport, InsertStatement, WrapStatements)
# Keywords of torch, and those that transformers has had since its version 4.
_OF_TORCH = frozenset({"fused", "use_reentrant", "map_location"})
_SINCE_4 = frozenset({"use_cache", "padding", "fp16"})
_BEFORE_4 = re.compile(r"transformers [0-3]\.")
_BEFORE = re.compile(rb"(?:\A|[\r\n])[ \t\f]*\Z")
_BEHIND = re.compile(rb"[ \t\f]*+;?[ \t\f]*+(?:#[^\r\n]*)?(?:[\r\n]|\Z)")


def hints_as_advice(
    findings: list[Finding], by_code: frozenset[str] | None, path: str
) -> list[Finding]:
    """``findings`` without those on request that the user did not choose, and without hints on what
    may be out of use; with advice in the place of fixes of hints that he did not choose."""
    if by_code is None or not findings:
        return findings
    from memlint.script.guesses import may_be_out_of_use

    hints = not may_be_out_of_use(path)
    findings = [
        one
        for one in findings
        if one.code in by_code or not (one.on_request or (one.level is Level.HINT and not hints))
    ]
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

    Findings about such a version are dropped. Fixes that write names of a library become advice,
    but for those that every release has.
    """
    found = []
    for one in findings:
        if any(version in one.message for version in versions):
            continue
        names = _OF_TORCH if any(map(_BEFORE_4.match, versions)) else _OF_TORCH | _SINCE_4
        if one.fix is not None and not all(_asks_nothing(each, names) for each in one.fix.edits):
            message = (
                f"{one.fix.message}, if {' and '.join(versions)} can: older than what memlint knows"
            )
            one = one._replace(fix=one.fix._replace(message=message)).as_advice()
        found.append(one)
    return found


def _asks_nothing(edit: Edit, names: frozenset[str]) -> bool:
    """True if a change is right in any release, which has keywords of these ``names``."""
    match edit:
        case SetKeyword(name=name) | RemoveKeyword(name=name):
            return name in names
        case InsertStatement(source=text):
            return "checkpointing_enable(" not in text and ".set_defaults(" not in text
    return isinstance(edit, _PLAIN)


def without_runtime(findings: Sequence[Finding], target: Target, *, wanted: bool) -> list[Finding]:
    """``findings`` with advice in the place of fixes that import the runtime, where it is not
    wanted or the target's libraries are older than what it needs."""
    from memlint.api.runtime import lacking

    found = []
    for finding in findings:
        fix, imported = finding.fix, runtime_imports(finding.fix)
        names = (*imported, *_ADVISED.findall(fix.message)) if fix is not None else ()
        missing = lacking(names, target) if names else ()
        if fix is not None and missing:
            needs = f"{fix.message}; this needs {' and '.join(missing)}"
            finding = finding._replace(fix=fix._replace(message=needs))
        found.append(finding.as_advice() if imported and (missing or not wanted) else finding)
    return found


def with_advice_on_shared_lines(source: Source, findings: Sequence[Finding]) -> list[Finding]:
    """``findings`` with advice for fixes that need a line of their own and have none."""
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


# What advice names of the runtime.
_ADVISED = re.compile(r"\bmemlint_runtime(?:\.\w+)*")
# What PyTorch has had for as long as anybody trained with it.
_PLAIN_SOURCE = re.compile(r"del [\w., ]+|@?(?:with )?torch\.(?:no_grad|inference_mode)\(\)?:?")

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
    doubtful = {edits_of(each) for each in findings if is_doubtful(each)}
    if not doubtful:
        return list(findings), []
    left = set(doubtful) if len(source.data) <= _LARGEST_BYTES else set()
    for api in others if left else ():
        found = check(frozenset(code for code, _ in left), api)
        left &= {edits_of(each) for each in found}
        if not left:
            break
    withheld = [each for each in findings if edits_of(each) in doubtful - left]
    kept = [each.as_advice() if edits_of(each) in doubtful - left else each for each in findings]
    return kept, withheld


def is_doubtful(finding: Finding) -> bool:
    """True if it depends on the version whether its fix is right."""
    fix = finding.fix
    if fix is None or not fix.edits or fix.applicability is Applicability.DISPLAY:
        return False
    return not all(map(_is_plain, fix.edits))


def _is_plain(edit: Edit) -> bool:
    match edit:
        case AddImport(module="torch", name=None):
            return True
        case InsertStatement(source=text) | AddDecorator(source=text) | WrapStatements(header=text):
            return _PLAIN_SOURCE.fullmatch(text.strip()) is not None
    return False


def edits_of(finding: Finding) -> _Key:
    """Return what must come out the same: the words may name versions, the edits decide."""
    fix = finding.fix or Fix("")
    return finding.code, fix._replace(message="", effect=())
