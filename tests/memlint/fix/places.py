"""Where things are in a text, by ``ast``: the spans that rules would name."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import TypeVar

from memlint.fix.apply import apply_to
from memlint.fix.outcome import Applied, FixError
from memlint.fix.spans import parse
from memlint.source import Source, Span
from memlint.source.edits import Edit

NodeT = TypeVar("NodeT", bound=ast.AST)


def all_of(text: str, kind: type[NodeT]) -> list[tuple[NodeT, Span]]:
    """The nodes of ``kind`` with their spans, in the order of the text."""
    source = Source("x.py", text)
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, kind):
            assert isinstance(node, ast.expr | ast.stmt)
            assert node.end_lineno is not None
            assert node.end_col_offset is not None
            start = source.offset(node.lineno, node.col_offset)
            end = source.offset(node.end_lineno, node.end_col_offset)
            found.append((node, Span(start, end)))
    return sorted(found, key=lambda pair: (pair[1].start, -pair[1].end))


def call(text: str, number: int = 0) -> Span:
    return all_of(text, ast.Call)[number][1]


def statement(text: str, number: int = 0) -> Span:
    return all_of(text, ast.stmt)[number][1]


def spot(text: str, part: str, occurrence: int = 0) -> Span:
    """The span of ``part`` in ``text``, the first or a later one."""
    at = -1
    for _ in range(occurrence + 1):
        at = text.index(part, at + 1)
    start = len(text[:at].encode())
    return Span(start, start + len(part.encode()))


def fixed(text: str, *edits: Edit) -> str:
    """``text`` after one fix of ``edits``, which must be applied."""
    applied = apply_edits(text, [edits])
    assert applied.applied == (0,), applied.refused
    return applied.text


def refusal(text: str, *edits: Edit) -> str:
    """Why one fix of ``edits`` is refused; the text must be as it was."""
    applied: Applied = apply_edits(text, [edits])
    assert applied.text == text
    return applied.refused[0]


def apply_edits(text: str, fixes: Sequence[Sequence[Edit]]) -> Applied:
    """Carry out ``fixes`` on a text; a file that cannot be rewritten refuses every one."""
    if not fixes:
        return Applied(text)
    try:
        tree = parse(text)
    except FixError as error:
        reason = f"the file cannot be rewritten: {error}"
        return Applied(text, refused=dict.fromkeys(range(len(fixes)), reason))
    return apply_to(tree, fixes)[0]
