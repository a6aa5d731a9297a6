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
    statement = script.statement(node)
    begins = script.source.line(script.span(statement).start)
    alone = script.source.line(script.span(node).start) > begins
    if _behind(script, node) or (alone and _above(script, node)):
        return True
    words = _words(f"{option} {script.text(node)}")
    if words & _PRECISION:
        words |= _PRECISION
    return bool(words & _words(f"{_behind(script, statement)} {_above(script, statement)}"))


def _words(text: str) -> frozenset[str]:
    found = _WORD.findall(text.lower())
    return frozenset(word for word in found if len(word) > 1) - _COMMON


def _behind(script: Script, node: ast.AST) -> str:
    """The comment at the end of the line on which a node ends."""
    source, end = script.source, script.span(node).end
    stop = source.data.find(b"\n", end)
    rest = source.data[end : stop if stop >= 0 else len(source.data)]
    match = _COMMENT.match(rest.decode("utf-8", "replace"))
    return _prose(match[1]) if match is not None else ""


def _above(script: Script, node: ast.AST) -> str:
    """The comment on the lines right above the one on which a node begins."""
    found: list[str] = []
    line = script.source.line(script.span(node).start) - 1
    while line >= 0 and (text := script.source.line_text(line).lstrip()).startswith("#"):
        found.append(_prose(text[1:]))
        line -= 1
    return " ".join(found)


def _prose(comment: str) -> str:
    return "" if _FOR_TOOLS.match(comment) or not re.search(r"\w", comment) else comment
