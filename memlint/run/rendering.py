"""Findings as reports show them: places as rows and columns, fixes as text, a sentence why."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from memlint.recipes.files import is_document, is_recipe_file
from memlint.rule.findings import Applicability, Finding, Fix
from memlint.run.results import DiffLine, Rendered, RenderedFix, TextEdit
from memlint.source.text import common_start

if TYPE_CHECKING:
    from memlint.fix.fixpoint import Apply
    from memlint.fix.outcome import TextEdit as Splice
    from memlint.rule import Rule
    from memlint.source import Source
    from memlint.source.edits import Edit
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
    fixes = rendered_fixes(source, [each.fix for each in findings], show_fixes=show_fixes)
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
    text = source.line_shown(source.line(offset))
    if not (source.is_notebook or source.masked) or "memlint" not in text:
        return source.location(offset), text
    from memlint.source.notebook import place_shown

    return place_shown(source, offset)


def _reason(code: str, rules: Mapping[str, Rule]) -> tuple[str, str | None]:
    if code not in rules:
        from memlint.rule.file_rules import file_rule

        rule_of_files = file_rule(code)
        return first_sentence(rule_of_files.why) if rule_of_files is not None else "", None
    rule = rules[code]
    url = next((each for each in rule.page.references if each.startswith("https://")), None)
    return first_sentence(rule.page.why), url


def first_sentence(text: str) -> str:
    """The first sentence of ``text``, on one line."""
    line = " ".join(text.split())
    end = re.search(r"(?<=[.!?])(?<!e\.g\.)(?<!i\.e\.)(?<!vs\.)\s+(?=[A-Z`\"'(])", line)
    return line[: end.start()] if end else line


def rendered_fixes(
    source: Source, fixes: Sequence[Fix | None], *, show_fixes: bool = True
) -> list[RenderedFix | None]:
    """Each fix alone, as it would change ``source``; one that cannot be made becomes advice."""
    changes = [fix.edits for fix in fixes if fix is not None and fix.edits]
    made = iter(_tried(source, changes, show_fixes)) if changes else iter(())
    return [
        None if fix is None else _rendered_fix(source, fix, next(made) if fix.edits else None)
        for fix in fixes
    ]


def _tried(
    source: Source, changes: Sequence[Sequence[Edit]], show_fixes: bool
) -> Iterable[Sequence[Splice] | None]:
    """What each change splices into the source, if that is shown; None where it cannot be made."""
    if show_fixes:
        if is_recipe_file(source.path):
            apply = applier(source.path)
            return [apply(source, [edits]).edits or None for edits in changes]
        from memlint.fix.apply import previews

        return [each.edits or None for each in previews(source.text, changes)]
    if not is_recipe_file(source.path):
        return [()] * len(changes)
    # Recipes are read quickly, and some of their keys cannot be changed where they stand.
    if is_document(source.path):
        from memlint.fix.recipe_edits import impossible_recipe_edits as impossible_edits
    else:
        from memlint.fix.command_edits import impossible_command_edits as impossible_edits
    refused = impossible_edits(source, changes)
    return [None if number in refused else () for number in range(len(changes))]


def _rendered_fix(source: Source, fix: Fix, splices: Sequence[Splice] | None) -> RenderedFix:
    if splices is None or (fix.applicability is Applicability.DISPLAY and not splices):
        return RenderedFix(fix.message, Applicability.DISPLAY.value)
    from memlint.run.advice import requires

    needed = "" if fix.applicability is Applicability.DISPLAY else requires(fix)
    if not splices:
        return RenderedFix(fix.message, fix.applicability.value, requires=needed)
    as_shown = _unmasked(source)
    edits = tuple(
        TextEdit(
            source.location(splice.span.start),
            source.location(splice.span.end),
            as_shown(splice.content),
        )
        for splice in splices
    )
    diff = diff_lines(source, splices, as_shown)
    return RenderedFix(fix.message, fix.applicability.value, edits, diff, needed)


def applier(path: str) -> Apply:
    """What carries out edits on a recipe, or on a file of launch commands."""
    if is_document(path):
        from memlint.fix.recipe_edits import apply_recipe_edits

        return apply_recipe_edits
    from memlint.fix.command_edits import apply_command_edits

    return apply_command_edits


def diff_lines(
    source: Source, splices: Sequence[Splice], as_shown: Callable[[str], str] = str
) -> tuple[DiffLine, ...]:
    """The lines that ``splices`` (in order) take out and put in; rows as the file has them.

    In a notebook rows count within the cell.
    """

    lines: list[DiffLine] = []
    shift = 0  # rows that the hunks so far have added to their cell
    cell: int | None = None
    for hunk in _hunks(source, splices):
        first = source.line(hunk[0].span.start)
        last = max(source.line(splice.span.end) for splice in hunk)
        start = source.line_starts[first]
        end = (
            source.line_starts[last + 1] if last + 1 < len(source.line_starts) else len(source.data)
        )
        old = _lines(as_shown(source.data[start:end].decode("utf-8", "surrogatepass")))
        new = _lines(as_shown(_spliced(source.data, start, end, hunk)))
        head = common_start(old, new)
        tail = common_start(old[head:][::-1], new[head:][::-1])
        where = source.location(start)
        if where.cell != cell:
            cell, shift = where.cell, 0
        for number, line in enumerate(old[head : len(old) - tail], start=where.row + head):
            lines.append(DiffLine("-", number, line))
        row = where.row + head + shift
        for number, line in enumerate(new[head : len(new) - tail], start=row):
            lines.append(DiffLine("+", number, line))
        shift += len(new) - len(old)
    return tuple(lines)


def _hunks(source: Source, splices: Sequence[Splice]) -> list[list[Splice]]:
    """The splices grouped so that no line belongs to two groups."""
    hunks: list[list[Splice]] = []
    last_line = -1
    for splice in splices:
        if hunks and source.line(splice.span.start) <= last_line:
            hunks[-1].append(splice)
        else:
            hunks.append([splice])
        last_line = max(last_line, source.line(splice.span.end))
    return hunks


def _spliced(data: bytes, start: int, end: int, splices: Sequence[Splice]) -> str:
    parts: list[bytes] = []
    position = start
    for splice in splices:
        parts += (data[position : splice.span.start], splice.content.encode())
        position = splice.span.end
    parts.append(data[position:end])
    return b"".join(parts).decode("utf-8", "surrogatepass")


def _lines(text: str) -> list[str]:
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def _unmasked(source: Source) -> Callable[[str], str]:
    """How text of ``source`` is shown: as it is, or with a notebook's magics given back."""
    if not (source.is_notebook or source.masked):
        return str
    from memlint.source.notebook import unmasker

    return unmasker(source)
