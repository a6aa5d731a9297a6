"""A script for a range of versions: what any of them does not run or ignores, and what is right in
all of them.

The newest release that the range admits says everything; the older ones, each with the other
libraries as they were on its day, add what stops or has no effect there. A fix is made only where
each of them comes to the same edits, whichever of the rules on versions asks for it: a name that is
deprecated here and gone there.
"""

from collections.abc import Callable, Hashable, Sequence
from itertools import groupby

from memlint.api.lookup import Api
from memlint.rule.findings import Finding, Level
from memlint.rule.registry import rules_on_versions
from memlint.run.advice import edits_of, is_doubtful

_STOPS = (Level.ERROR, Level.WASTE)  # a notice on an older version is no news


def over_range(
    findings: Sequence[Finding],
    apis: Sequence[Api],
    check: Callable[[frozenset[str], Api], list[Finding]],
) -> list[Finding]:
    """Return what is found in any version of a range, with the versions where it is not all of
    them, and with advice in the place of fixes that are not right in all.

    findings: those at the newest. apis: the tables of all versions, the newest last. check: what
    the rules of some codes find at another version.
    """
    on_versions = rules_on_versions()

    def place(finding: Finding) -> Hashable:
        return finding.span, finding.code

    def edits(finding: Finding) -> Hashable:
        code, fix = edits_of(finding)
        return "" if code in on_versions else code, fix

    def where(finding: Finding, of: Callable[[Finding], Hashable]) -> str:
        """Name the versions in which something is the same; empty where it is in all."""
        there = [of(finding) in {of(each) for each in found} for found in every]
        return "" if all(there) else _named(there, [api.target.label for api in apis])

    def told(finding: Finding) -> Finding:
        if finding.code in on_versions and (versions := where(finding, place)):
            finding = finding._replace(message=f"{finding.message}; so in {versions}")
        fix = finding.fix if is_doubtful(finding) else None
        if fix is not None and (versions := where(finding, edits)):
            message = f"{fix.message}: right in {versions} alone, not in the whole range"
            finding = finding._replace(fix=fix._replace(message=message)).as_advice()
        return finding

    codes = on_versions | {each.code for each in findings if is_doubtful(each)}
    every = [*(check(codes, api) for api in apis[:-1]), list(findings)]
    shown = list(findings)
    for found in reversed(every):
        known = {place(each) for each in shown}
        stop = [each for each in found if each.code in on_versions and each.level in _STOPS]
        shown += [each for each in stop if place(each) not in known]
    return sorted(map(told, shown), key=lambda finding: (finding.span, finding.code))


def _named(there: Sequence[bool], labels: Sequence[str]) -> str:
    """Name versions in a row by their ends: ``trl 0.15.2 to 0.19.1``."""
    spans = []
    for is_so, group in groupby(zip(there, labels, strict=True), lambda pair: pair[0]):
        named = [label for _, label in group]
        last = named[-1] if "," in named[-1] else named[-1].rpartition(" ")[2]
        if is_so:
            spans.append(named[0] if len(named) == 1 else f"{named[0]} to {last}")
    return " and ".join(spans)
