"""Safe fixes of what several scripts of a project run: they are to be right for each of them.

A file is judged with the scripts that lead to it until all that it defines is called. Where others
name what a fix changes, they are run as well, each alone: the fix is safe only where the same rule
comes to the same edits in each that runs the place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from memlint.rule.findings import Applicability, Finding
from memlint.source.parsing import parse_python

if TYPE_CHECKING:
    from memlint.engine.project import Project
    from memlint.script.model import Script
    from memlint.source import Source, Span

_MOST = 12  # scripts that are run; of what more of them name no fix is safe

# The file where one of the scripts leads to it, and what these rules find.
Again = Callable[["Project", Iterable[str]], "tuple[Script, list[Finding]]"]


def right_for_all(
    findings: list[Finding], script: Script, project: Project, again: Again
) -> list[Finding]:
    """Return ``findings`` with unsafe fixes in the place of safe ones that another caller may not
    bear."""
    doubtful: dict[int, str] = {}  # findings, by identity: what they hold may have no hash
    for number, (path, some) in enumerate(_concerned(findings, script, project)):
        if number < _MOST:
            other, found = again(project.led_alone_by(path), {one.code for one in some})
            agreed = list(map(_key, found))
            some = [one for one in some if _key(one) not in agreed and other._is_reached(one.span)]
        doubtful |= dict.fromkeys(map(id, some), project.name_of(path))
    return [_with_doubt(one, doubtful.get(id(one), "")) for one in findings]


def _concerned(
    findings: list[Finding], script: Script, project: Project
) -> Iterator[tuple[str, list[Finding]]]:
    """Yield the scripts that were not run, with the findings whose safe fixes change for them."""
    safe = [one for one in findings if one.fix and one.fix.applicability is Applicability.SAFE]
    touched = [_names_of(one, script.source) for one in safe]
    for path, names in project.all_above().items() if any(touched) else ():
        some = [one for one, defined in zip(safe, touched, strict=True) if defined & names]
        if some and path not in script._scripts_run:
            yield path, some


def _key(finding: Finding) -> tuple[object, ...]:
    return finding.code, finding.span, finding.fix and finding.fix.edits


def _with_doubt(finding: Finding, caller: str) -> Finding:
    if finding.fix is None or not caller:
        return finding
    message = f"{finding.fix.message}, if that is right for `{caller}`, too"
    return finding._replace(fix=finding.fix._replace(message=message).as_unsafe())


def _names_of(finding: Finding, source: Source) -> set[str]:
    """The names by which other files know what a fix changes."""
    edits = finding.fix.edits if finding.fix is not None else ()
    places = [finding.span, *(one.span for one in edits if hasattr(one, "span"))]
    return {name for place in places for name in _defined_at(place, source)}


def _defined_at(place: Span, source: Source) -> Iterable[str]:
    """The names of the function or class around a place, or that its statement binds."""
    row = source.location(place.start).row
    for node in parse_python(source.text).body:
        if node.lineno <= row <= (node.end_lineno or row):
            bound = (node, *getattr(node, "targets", ()))
            names = [getattr(one, "name", "") or getattr(one, "id", "") for one in bound]
            return filter(None, names)
    return ()
