"""Blank out large literals before libcst parses a file, and refuse what is too large for it.

libcst takes some 100 times what ``ast`` does for a literal of 30,000 numbers, and quadratic time
for expressions thousands of operators deep. No edit speaks of the inside of such a literal: libcst
sees blanks there. Edits are spliced into the file's own bytes, so the literal survives.
"""

import ast
import re
from itertools import accumulate

from memlint.source.parsing import parse_python

# Literals of this many bytes are spared; below it looking for them costs more.
_LITERAL_BYTES = 5_000
# A file of more bytes without its literals takes minutes and gigabytes.
_MAX_BYTES = 400_000
_MAX_TOKENS = 50_000  # libcst takes some 4 KB for each, and 40 microseconds
_MAX_DEPTH = 1_200
# Lists and sets of numbers alone are seen without a parser. What stands before the bracket makes it
# no index; in a string or a comment blanks do no harm.
_NUMBERS = re.compile(rb"[=(,:\[{][ \t\r\n]*[\[{]([-+\d.,\s]{%d,})[\]}]" % _LITERAL_BYTES, re.ASCII)
# A line of code is some 30 bytes; more lines than this are data, or blank.
_MAX_LINES = 60_000
# Runs of so many blank lines are seen as one; a fix speaks of none of them.
_BLANK_LINES = re.compile(rb"(?<=\n)(?:[ \t]*\r?\n){100,}")
_TOO_DEEP = "its statements or expressions are nested too deeply"
_DISPLAYS = (ast.List, ast.Tuple, ast.Set, ast.Dict)
_DATA = (*_DISPLAYS, ast.Constant, ast.UnaryOp, ast.USub, ast.UAdd, ast.Load)


class TooMuchError(ValueError):
    """The file is too large or too deep to be rewritten; the message says which."""


def without_bulk(data: bytes) -> bytes:
    """``data``, UTF-8 with ``\\n`` or ``\\r\\n``, with blanks inside its large literals and in the
    place of many blank lines.

    Offsets stay as they are. Raises ``TooMuchError``.
    """
    if len(data) > _LITERAL_BYTES:
        data = _spared(_NUMBERS.sub(_blanked, data))
    if data.count(b"\n") > 100:
        data = _BLANK_LINES.sub(lambda run: b" " * (len(run[0]) - 1) + b"\n", data)
    if len(data) - data.count(b" ") > _MAX_BYTES:
        raise TooMuchError(f"it has more than {_MAX_BYTES // 1000} kB of code")
    if len(data) > _MAX_TOKENS and len(re.findall(rb"\w+|[^\w\s]", data)) > _MAX_TOKENS:
        raise TooMuchError(f"it has more than {_MAX_TOKENS:,} words and signs of code")
    if data.count(b"\n") > _MAX_LINES:
        raise TooMuchError(f"it has more than {_MAX_LINES:,} lines")
    return data


def _blanked(literal: re.Match[bytes]) -> bytes:
    """Return a literal with blanks for what it holds; its lines stay."""
    start, end = literal.span(1)
    inside = re.sub(rb"[^\r\n]", b" ", literal[1])
    return literal[0][: start - literal.start()] + inside + literal[0][end - literal.start() :]


def _spared(data: bytes) -> bytes:
    try:
        tree = parse_python(data.decode("utf-8"))
    except (RecursionError, MemoryError):
        raise TooMuchError(_TOO_DEEP) from None
    except (SyntaxError, ValueError):
        return data
    literals = _large_literals(tree)
    if not literals:
        return data
    lines = re.split(rb"(?<=\n)", data)
    starts = list(accumulate(map(len, lines), initial=0))
    out = bytearray(data)
    for node in literals:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        start = starts[node.lineno - 1] + node.col_offset
        end = starts[node.end_lineno - 1] + node.end_col_offset
        if end - start > _LITERAL_BYTES:
            inside = slice(start + 1, end - 1)
            out[inside] = re.sub(rb"[^\r\n]", b" ", data[inside])
    return bytes(out)


def _large_literals(tree: ast.Module) -> list[ast.expr]:
    """Return the outermost displays of constants that may be large; raises ``TooMuchError``."""
    found: list[ast.expr] = []
    waiting: list[tuple[ast.AST, int]] = [(tree, 0)]
    while waiting:
        node, depth = waiting.pop()
        if depth > _MAX_DEPTH:
            raise TooMuchError(_TOO_DEEP)
        if (
            isinstance(node, _DISPLAYS)
            and _is_bracketed(node)
            and all(isinstance(each, _DATA) for each in ast.walk(node))
        ):
            found.append(node)
            continue
        # libcst nests what is one level here: ``a and b and c``, ``"a" "b" "c"``.
        inner = depth + (len(node.values) if isinstance(node, ast.BoolOp | ast.JoinedStr) else 1)
        waiting += ((child, inner) for child in ast.iter_child_nodes(node))
    return found


def _is_bracketed(node: ast.expr) -> bool:
    """True if it has brackets of its own for certain, and more than a few items."""
    if isinstance(node, ast.Dict):
        return len(node.values) > 100
    return isinstance(node, ast.List | ast.Set) and len(node.elts) > 100
