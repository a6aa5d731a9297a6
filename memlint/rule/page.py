"""The page of a rule: a Markdown file beside the rule's own, or a ``Page`` that the rule is given.

Its sections are those of the documentation: why it matters, examples before and after, what the
fix does, sources. The examples are tests as well. A page is read when someone asks for it.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path

from memlint.source.bounded import read_regular_text
from memlint.source.patterns import lazy_pattern
from memlint.source.record import Record

WHY = "Why it matters"
FIX = "What the fix does"
SOURCES = "Sources"
AGAINST = "Helps against"
_HEADING = lazy_pattern(r"(?m)^## (?P<title>.+)$")
_EXAMPLE = lazy_pattern(r"(?:Example|Also)(?:: (?P<title>.+))?")
_CODE = lazy_pattern(r"(?ms)^```python\n(?P<code>.*?)^```$")
_FOR = lazy_pattern(r"(?m)^For (?P<target>[^\n]+):$")
_COUNT = lazy_pattern(r"(?m)^(?P<count>\d+) findings\.$")


class Example(Record):
    """A faulty script and what ``memlint fix`` makes of it: a test and a documentation section.

    bad: a script in which the rule finds exactly ``findings`` faults.
    good: the script after the rule's fixes, unsafe ones included; None where it has none to apply.
    target: versions other than the newest, as ``--target`` takes them.
    """

    bad: str
    good: str | None = None
    findings: int = 1
    target: str = ""
    title: str = ""


class Page(Record):
    """What people read of a rule.

    why: what it costs and why, in a paragraph or two.
    fix_safety: what the fix changes and when it is withheld.
    references: documentation or papers.
    against: kinds of tensors that an out-of-memory error may be about, and what helps.
    """

    why: str
    examples: tuple[Example, ...] = ()
    fix_safety: str = ""
    references: tuple[str, ...] = ()
    against: tuple[str, ...] = ()


def read_page(path: Path | str) -> Page:
    """The page in a file. Raises ValueError where it is missing or lacks a section."""
    try:
        text = read_regular_text(os.fspath(path))
    except OSError as error:
        raise ValueError(f"a rule's page is expected at {path}: {error}") from None
    try:
        return parse_page(text)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def parse_page(text: str) -> Page:
    """A page from its Markdown. Raises ValueError for an unknown section, or without a why."""
    parts = _HEADING.split(text)
    sections = list(zip(parts[1::2], parts[2::2], strict=True))
    words = {title: _paragraphs(body) for title, body in sections if title in (WHY, FIX)}
    if WHY not in words:
        raise ValueError(f"expected a section '## {WHY}'")
    examples: list[Example] = []
    items: dict[str, tuple[str, ...]] = {SOURCES: (), AGAINST: ()}
    for title, body in sections:
        match = _EXAMPLE.fullmatch(title)
        if match is not None:
            examples.append(_example(match["title"] or "", body))
        elif title in items:
            items[title] = tuple(_items(body))
        elif title not in words:
            known = f"{WHY}, Example, Also, {FIX}, {AGAINST}, {SOURCES}"
            raise ValueError(f"expected sections among {known}; got {title!r}")
    return Page(words[WHY], tuple(examples), words.get(FIX, ""), items[SOURCES], items[AGAINST])


def _paragraphs(body: str) -> str:
    """Paragraphs without their line breaks; lists keep theirs."""
    blocks = re.split(r"\n\s*\n", body.strip())
    return "\n\n".join(
        block if block.startswith(("- ", "|")) else " ".join(block.split()) for block in blocks
    )


def _items(body: str) -> Iterator[str]:
    for line in body.splitlines():
        if line.startswith("- "):
            yield line[2:].strip()


def _example(title: str, body: str) -> Example:
    codes = [match["code"] for match in _CODE.finditer(body)]
    if len(codes) not in (1, 2):
        raise ValueError(f"an example has one or two blocks of Python, got {len(codes)}")
    target, count = _FOR.search(body), _COUNT.search(body)
    return Example(
        bad=codes[0],
        good=codes[1] if len(codes) == 2 else None,
        findings=int(count["count"]) if count else 1,
        target=target["target"] if target else "",
        title=title,
    )
