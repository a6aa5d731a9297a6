"""Findings as reports show them: places as rows and columns, fixes as text, a sentence why."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from memlint.recipes.files import is_recipe_file
from memlint.rule.findings import Applicability, Fix, Violation
from memlint.rule.registry import UNUSED_SUPPRESSION
from memlint.run.results import Shown, ShownFix

if TYPE_CHECKING:
    from memlint.rule import Rule
    from memlint.source import Source


def shown_violations(
    source: Source,
    violations: Sequence[Violation],
    *,
    render: bool = False,
    rules: Iterable[Rule] = (),
) -> list[Shown]:
    """The violations with places as rows and columns, and fixes as text if ``render``.

    rules: those that found them, for their reasons and links.
    """
    known = {rule.code: rule for rule in rules}
    words = {code: _reason(code, known) for code in {each.code for each in violations}}
    fixes: Sequence[ShownFix | None]
    # Recipes are read quickly, and some of their keys cannot be changed where they stand.
    tries = render or is_recipe_file(source.path)
    if tries and any(violation.fix and violation.fix.edits for violation in violations):
        from memlint.run.preview import applicable, preview

        show = preview if render else applicable
        fixes = show(source, [violation.fix for violation in violations])
    else:
        fixes = [_unrendered(violation.fix) for violation in violations]
    fixes = [
        _with_requirement(fix, violation.fix)
        for fix, violation in zip(fixes, violations, strict=True)
    ]
    return [
        Shown(
            source.path,
            violation.code,
            violation.name,
            violation.level.value,
            violation.message,
            source.location(violation.span.start),
            source.location(violation.span.end),
            source.line_text(source.line(violation.span.start)),
            fix,
            *words[violation.code],
            violation.saving,
        )
        for violation, fix in zip(violations, fixes, strict=True)
    ]


def _reason(code: str, rules: Mapping[str, Rule]) -> tuple[str, str | None]:
    """A sentence why, and where to read on."""
    if code == UNUSED_SUPPRESSION:
        from memlint.rule.registry import UNUSED_WHY

        return first_sentence(UNUSED_WHY), None
    if code not in rules:
        return "", None
    rule = rules[code]
    url = next((each for each in rule.references if each.startswith("https://")), None)
    return first_sentence(rule.why), url


def first_sentence(text: str) -> str:
    """The first sentence of ``text``, on one line."""
    line = " ".join(text.split())
    end = re.search(r"(?<=[.!?])(?<!e\.g\.)(?<!i\.e\.)(?<!vs\.)\s+(?=[A-Z`\"'(])", line)
    return line[: end.start()] if end else line


def _unrendered(fix: Fix | None) -> ShownFix | None:
    if fix is None:
        return None
    applicability = fix.applicability if fix.edits else Applicability.DISPLAY
    return ShownFix(fix.message, applicability.value)


def _with_requirement(shown: ShownFix | None, fix: Fix | None) -> ShownFix | None:
    if shown is None or shown.applicability == Applicability.DISPLAY:
        return shown
    from memlint.run.runtime_fixes import requires

    return shown._replace(requires=requires(fix))
