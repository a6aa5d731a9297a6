"""The documentation of rules, derived from the rules: a page each, and the table of all."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from memlint.rule.file_rules import FILE_RULES, FileRule

if TYPE_CHECKING:
    from memlint.rule import Rule
    from memlint.rule.page import Example

_LEVELS = {
    "error": "error: breaks, leaks or trains wrongly",
    "waste": "waste: memory or time for nothing",
    "notice": "notice: will matter later, shown and not counted in the exit status",
    "hint": "hint: a trade, shown and not counted in the exit status",
}


def page(rule: Rule) -> str:
    """What a rule sees, why it matters, an example before and after, what its fix does, sources."""
    return "\n\n".join(part.strip("\n") for part in _page(rule)) + "\n"


def _page(rule: Rule) -> Iterator[str]:
    import inspect

    yield f"# {rule.code} {rule.name}"
    yield f"**{_sentence(rule.summary)}** Level: {_LEVELS[rule.level.value]}."
    yield "## Why it matters"
    yield inspect.cleandoc(rule.page.why)
    for number, example in enumerate(rule.page.examples):
        yield from _example(example, first=number == 0)
    if rule.page.fix_safety:
        yield "## What the fix does"
        yield inspect.cleandoc(rule.page.fix_safety)
    if rule.skips:
        yield "## Silent where"
        yield "\n".join(f"- {skip.words}" for skip in rule.skips)
    yield "## To keep it"
    yield f"Append `# memlint: ignore[{rule.code}]` to the line, with a word why."
    if rule.page.references:
        yield "## Sources"
        yield "\n".join(f"- {reference}" for reference in rule.page.references)


def _example(example: Example, *, first: bool) -> Iterator[str]:
    if example.title or first:
        yield f"## {'Example' if first else 'Also'}{': ' + example.title if example.title else ''}"
    if example.target:
        yield f"For {example.target}:"
    yield f"```python\n{example.bad.strip()}\n```"
    if example.good is not None:
        yield "Instead:"
        yield f"```python\n{example.good.strip()}\n```"


def file_page(rule: FileRule) -> str:
    """The page of a rule about files as such."""
    return (
        f"# {rule.code} {rule.name}\n\n"
        f"**{_sentence(rule.summary)}** Level: {_LEVELS[rule.level]}.\n\n"
        f"## Why it matters\n\n{rule.why}\n\n{rule.more}"
    )


def page_of(rule: Rule | FileRule) -> str:
    """The page of any rule."""
    return file_page(rule) if isinstance(rule, FileRule) else page(rule)


def facts(rule: Rule | FileRule) -> dict[str, object]:
    """What a program wants to know of a rule, and its page as Markdown."""
    loaded = None if isinstance(rule, FileRule) else rule
    return {
        "code": rule.code,
        "name": rule.name,
        "level": str(rule.level),
        "summary": rule.summary,
        "fix": loaded is not None and has_fix(loaded),
        "references": list(loaded.page.references) if loaded is not None else [],
        "page": page_of(rule),
    }


def file_rows() -> list[tuple[str, str, str, str, str]]:
    """The rules about files as such in a list of rules: code, name, level, no fix, what it sees."""
    return [(rule.code, rule.name, rule.level, "", rule.summary) for rule in FILE_RULES]


def has_fix(rule: Rule) -> bool:
    """True if its examples show something that a fix makes of them."""
    return any(example.good is not None for example in rule.page.examples)


def _sentence(text: str) -> str:
    text = text.strip()
    text = text[:1].upper() + text[1:]
    return text if text.endswith((".", "!", "?")) else text + "."
