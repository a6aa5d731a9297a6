"""Values that a comment explains: a decision of the author's, which no fix rewrites.

A fix that changed such a value would leave a comment that is no longer true, or take away one that
still is. What a comment is about is a guess by its place and words; it can only hold a fix back.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from memlint.engine.project import is_elsewhere, place_of_setting

if TYPE_CHECKING:
    from memlint.script.model import Script
    from memlint.source import Source, Span

# What follows on a line up to its comment: strings may hold the sign as well.
_COMMENT = re.compile(r"""(?:[^#'"\n\\]|\\.|'(?:[^'\n\\]|\\.)*'|"(?:[^"\n\\]|\\.)*")*#([^\n]*)""")
# Comments for tools, which explain nothing.
_FOR_TOOLS = re.compile(
    r"\s*(?:noqa|type:|fmt:|isort:|pylint|pyright|mypy|ruff|memlint|pragma|nosec|@param|expect:)"
)
_WORD = re.compile(r"[a-z]+[0-9]*|[0-9]+")
# Words that say nothing of one option.
_COMMON = frozenset({"torch", "true", "false", "none", "model", "args", "config", "the", "for"})
_PRECISION = frozenset(
    {"dtype", "float32", "fp32", "float16", "fp16", "bfloat16", "bf16", "half", "precision"}
)


def is_explained(script: Script, option: str, node: ast.AST | None) -> bool:
    """True if a comment says why ``option`` has the value that is written at ``node``."""
    if node is None or is_elsewhere(node) or place_of_setting(node) is not None:
        return False
    source, span = script.source, script.span(node)
    statement = script.span(script.statement(node))
    alone = source.line(span.start) > source.line(statement.start)
    if _behind(source, span) or (alone and _above(source, span)):
        return True
    around = f"{_behind(source, statement)} {_above(source, statement)}"
    return _is_about(around, f"{option} {script.text(node)}")


def is_explained_key(source: Source, key: Span, value: Span) -> bool:
    """True if a comment says why a key of a document has its value: one behind it, or one above
    that speaks of it."""
    written, behind = source.slice(value).lower(), _behind(source, value)
    # ``compile: false  # true is faster`` says what the option does.
    other = {"true": "false", "false": "true"}.get(written)
    if behind and other not in _WORD.findall(behind.lower()):
        return True
    return _is_about(_above(source, key), f"{source.slice(key)} {written}")


def _is_about(comment: str, said: str) -> bool:
    """True if a comment shares a word with what is said, or both are about precision."""
    words = _words(said)
    if words & _PRECISION:
        words |= _PRECISION
    return bool(words & _words(comment))


def _words(text: str) -> frozenset[str]:
    found = _WORD.findall(text.lower())
    return frozenset(word for word in found if len(word) > 1) - _COMMON


def _behind(source: Source, span: Span) -> str:
    """The comment at the end of the line on which a span ends."""
    end = span.end
    stop = source.data.find(b"\n", end)
    rest = source.data[end : stop if stop >= 0 else len(source.data)]
    match = _COMMENT.match(rest.decode("utf-8", "replace"))
    return _prose(match[1]) if match is not None else ""


def _above(source: Source, span: Span) -> str:
    """The comment on the lines right above the one on which a span begins."""
    found: list[str] = []
    line = source.line(span.start) - 1
    while line >= 0 and (text := source.line_text(line).lstrip()).startswith("#"):
        found.append(_prose(text[1:]))
        line -= 1
    return " ".join(found)


def _prose(comment: str) -> str:
    return "" if _FOR_TOOLS.match(comment) or not re.search(r"\w", comment) else comment
