"""Findings as reports show them: places as rows and columns, fixes as text, a sentence why."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from memlint.recipes.files import is_recipe_file
from memlint.rule.findings import Applicability, Finding, Fix
from memlint.run.results import Rendered, RenderedFix

if TYPE_CHECKING:
    from memlint.rule import Rule
    from memlint.source import Source
    from memlint.source.text import Location


def render_findings(
    source: Source,
    findings: Sequence[Finding],
    *,
    show_fixes: bool = False,
    rules: Iterable[Rule] = (),
) -> list[Rendered]:
    """The findings with places as rows and columns, and fixes as text if ``show_fixes``.

    rules: those that found them, for their reasons and links.
    """
    known = {rule.code: rule for rule in rules}
    words = {code: _reason(code, known) for code in {each.code for each in findings}}
    fixes: Sequence[RenderedFix | None]
    # Recipes are read quickly, and some of their keys cannot be changed where they stand.
    tries = show_fixes or is_recipe_file(source.path)
    if tries and any(finding.fix and finding.fix.edits for finding in findings):
        from memlint.run.preview import applicable, preview

        show = preview if show_fixes else applicable
        fixes = show(source, [finding.fix for finding in findings])
    else:
        fixes = [_unrendered(finding.fix) for finding in findings]
    fixes = [
        _with_requirement(fix, finding.fix) for fix, finding in zip(fixes, findings, strict=True)
    ]
    return [
        _rendered(source, finding, fix, words[finding.code])
        for finding, fix in zip(findings, fixes, strict=True)
    ]


def _rendered(
    source: Source, finding: Finding, fix: RenderedFix | None, words: tuple[str, str | None]
) -> Rendered:
    assert finding.level is not None, "a finding has the level of its rule"
    (start, line), (end, _) = (_place(source, at) for at in finding.span)
    return Rendered(
        source.path,
        finding.code,
        finding.name,
        finding.level.value,
        finding.message,
        start,
        end,
        line,
        fix,
        *words,
        finding.saving,
    )


def _place(source: Source, offset: int) -> tuple[Location, str]:
    """Where ``offset`` is for people, and its line."""
    text = source.line_text(source.line(offset))
    if not (source.is_notebook or source.masked) or "memlint" not in text:
        return source.location(offset), text
    from memlint.source.notebook import place_shown

    return place_shown(source, offset)


def _reason(code: str, rules: Mapping[str, Rule]) -> tuple[str, str | None]:
    """A sentence why, and where to read on."""
    if code not in rules:
        from memlint.rule.file_rules import file_rule

        rule_of_files = file_rule(code)
        return first_sentence(rule_of_files.why) if rule_of_files is not None else "", None
    rule = rules[code]
    url = next((each for each in rule.references if each.startswith("https://")), None)
    return first_sentence(rule.why), url


def first_sentence(text: str) -> str:
    """The first sentence of ``text``, on one line."""
    line = " ".join(text.split())
    end = re.search(r"(?<=[.!?])(?<!e\.g\.)(?<!i\.e\.)(?<!vs\.)\s+(?=[A-Z`\"'(])", line)
    return line[: end.start()] if end else line


def _unrendered(fix: Fix | None) -> RenderedFix | None:
    if fix is None:
        return None
    applicability = fix.applicability if fix.edits else Applicability.DISPLAY
    return RenderedFix(fix.message, applicability.value)


def _with_requirement(shown: RenderedFix | None, fix: Fix | None) -> RenderedFix | None:
    if shown is None or shown.applicability == Applicability.DISPLAY:
        return shown
    from memlint.run.runtime_fixes import requires

    return shown._replace(requires=requires(fix))
