"""What holds a fix of a recipe back: a key that stands twice, a comment, another reader."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from memlint.recipes.document import Entry, MappingNode, nodes_in
from memlint.recipes.recipe import Recipe
from memlint.rule.findings import Applicability, Finding, Level
from memlint.run.trl_recipes import edits_of
from memlint.runs.decisions import is_explained_key
from memlint.source import Span
from memlint.source.edits import Edit, ReplaceExpression, SetItem

if TYPE_CHECKING:
    from memlint.run.runs import Runs


def with_decisions(recipe: Recipe, finding: Finding) -> Finding:
    """A finding without a fix where that names a key that stands twice (which one is meant?), or
    changes a value that a comment explains, but for one that stops the run or warns."""
    doubled = {str(each.value) for each in recipe.document.duplicates}
    if doubled and not doubled.isdisjoint(_keys_of(recipe, finding)):
        return finding.as_advice()
    if finding.level in (Level.ERROR, Level.NOTICE):
        return finding
    source = recipe.source
    changed = (each for edit in edits_of(finding) for each in _changed(recipe, edit))
    is_decided = any(is_explained_key(source, key.span, value.span) for key, value in changed)
    return finding.as_advice() if is_decided else finding


def _changed(recipe: Recipe, edit: Edit) -> Iterator[Entry]:
    """Yield the entry of a document to which an edit gives another value."""
    nodes = nodes_in(recipe.document.root) if recipe.command is None else ()
    for node in (each for each in nodes if isinstance(each, MappingNode)):
        if isinstance(edit, SetItem):
            entry = node.entry(edit.key) if node.span == edit.mapping else None
            yield from [entry] if entry is not None else []
        elif isinstance(edit, ReplaceExpression):
            yield from (each for each in node.entries if each.value.span == edit.span)


def beside_others(recipe: Recipe, findings: Sequence[Finding], runs: Runs) -> Iterator[Finding]:
    """Yield findings whose fixes are unsafe where they rewrite a key that other code asks for."""
    for finding in findings:
        keys = () if recipe.command is not None else tuple(_keys_of(recipe, finding))
        fix = finding.fix
        if fix is None or fix.applicability is not Applicability.SAFE or not keys:
            yield finding
            continue
        for key, where in runs.asked_elsewhere(recipe.document.root, keys).items():
            message = f"{fix.message}; `{where}` may ask for `{key}` too"
            fix = fix._replace(message=message, applicability=Applicability.UNSAFE)
            break
        yield finding._replace(fix=fix)


def _keys_of(recipe: Recipe, finding: Finding) -> Iterator[str]:
    """Yield the keys of a recipe that the edits of a finding rewrite or add."""
    for edit in edits_of(finding):
        names = {getattr(edit, name, None) for name in ("key", "old")}
        span = getattr(edit, "span", None) or getattr(edit, "mapping", None)
        yield from (each for each in names if isinstance(each, str))
        yield from keys_at(recipe, span) if span else ()


def keys_at(recipe: Recipe, span: Span) -> Iterator[str]:
    """Yield the key at the top of a recipe at, or in whose value, a place is."""
    for key, value in recipe.document.root.entries:
        if key.span.contains(span) or value.span.contains(span):
            yield str(key.value)
