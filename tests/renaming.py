"""A script with other names, or without its comments: it does the same."""

from __future__ import annotations

import ast
import io
import keyword
import tokenize
from random import Random

# Names that are the interface of something: hooks of trainers, what a library calls by name.
_SPOKEN = ("self", "cls", "_")


def renamed(text: str, random: Random) -> str:
    """Return a script whose functions, variables and parameters have other names of one length.

    Names of imports stay, and those that an attribute, a keyword or a string spells too: they may
    be read by name.
    """
    tree = ast.parse(text)
    mapping = {name: _other(name, random) for name in sorted(_own_names(tree))}
    lines = text.splitlines(keepends=True)
    words: list[str] = []
    row = column = 0
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        while row < token.start[0] - 1:
            words.append(lines[row][column:])
            row, column = row + 1, 0
        words.append(lines[row][column : token.start[1]] if row < len(lines) else "")
        given = token.string
        words.append(mapping.get(given, given) if token.type == tokenize.NAME else given)
        row, column = token.end[0] - 1, token.end[1]
    return "".join(words)


def _own_names(tree: ast.Module) -> set[str]:
    """Return the names that a script binds, and that stand for nothing but that."""
    bound, taken = set(), set(_SPOKEN)
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
                bound.add(name)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                bound.add(name)
            case ast.Attribute(attr=name) | ast.keyword(arg=str(name)):
                taken.add(name)
            case ast.Import(names=names) | ast.ImportFrom(names=names):
                taken |= {alias.asname or alias.name.partition(".")[0] for alias in names}
                taken |= {alias.name for alias in names}
            case ast.Constant(value=str(word)):
                taken |= set(word.split())
            case ast.ClassDef(body=body):
                # Methods and fields are attributes.
                taken |= {name for one in body for name in _members(one)}
            case ast.MatchAs(name=str(name)) | ast.ExceptHandler(name=str(name)):
                taken.add(name)
    return {name for name in bound - taken if not name.startswith("__")}


def _members(statement: ast.stmt) -> set[str]:
    match statement:
        case ast.FunctionDef(name=name, args=given) | ast.AsyncFunctionDef(name=name, args=given):
            # Those of a hook are its library's.
            return {name, *(one.arg for one in ast.walk(given) if isinstance(one, ast.arg))}
    return {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)}


def _other(name: str, random: Random) -> str:
    """Return a name as long as another, which says nothing."""
    while True:
        new = "".join(random.choice("qxzjkw") for _ in name)
        if not keyword.iskeyword(new) and new != name:
            return new.upper() if name.isupper() else new


def without_comments(text: str) -> str:
    """Return a script with spaces where its comments are."""
    lines = text.splitlines(keepends=True)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            line = lines[row - 1]
            lines[row - 1] = line[:column] + " " * len(token.string) + line[token.end[1] :]
    return "".join(lines)
