"""What of a file a fix may ask about: the rest is blanked before libcst parses a file for previews.

libcst takes some thirty times what ``ast`` does, and a fix speaks of a few statements. Statements
of functions and classes that no fix touches become ``0`` and blanks, so that offsets stay. What
stands at the top of a file stays, for imports go there; where a fix imports or takes an import
away, so do functions that import, or that say the name.
"""

import ast
import re
from collections.abc import Iterator, Sequence
from itertools import accumulate

from memlint.source import Span
from memlint.source.edits import AddImport, Edit, RemoveImport, RenameImport
from memlint.source.parsing import parse_python

_OTHER_LINES = re.compile(rb"\r(?!\n)|\f")
_WORD = re.compile(rb"\w+")
_RENAMED = re.compile(rb"\b(\w++)[\s\\]++as[\s\\]++(\w+)")
_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def without_untouched(data: bytes, fixes: Sequence[Sequence[Edit]], text: str) -> bytes:
    """``data``, ``text`` but for blanks at its end, without what no fix touches or asks of."""
    if _OTHER_LINES.search(data):
        return data
    try:
        tree = parse_python(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return data
    starts = list(accumulate(map(len, data.splitlines(keepends=True)), initial=0))
    edits = [edit for fix in fixes for edit in fix]
    blanks = _Blanks(data, starts, sorted(_touched(edits)), _names(data, edits))
    out = bytearray(data)
    for start, end in blanks.of(tree.body, is_inside=False):
        out[start:end] = b"0".ljust(end - start)
    return bytes(out)


def _touched(edits: Sequence[Edit]) -> Iterator[Span]:
    """Yield the bytes of which edits speak: from the first place of an edit to its last."""
    for edit in edits:
        spans = [each for name in edit._fields if isinstance(each := getattr(edit, name), Span)]
        if spans:
            yield Span(min(span.start for span in spans), max(span.end for span in spans))


def _names(data: bytes, edits: Sequence[Edit]) -> frozenset[bytes]:
    """Return the words of code that edits of imports ask about; empty where no edit is of one."""
    imports = [each.name for each in edits if isinstance(each, RemoveImport | RenameImport)]
    if not imports and not any(isinstance(each, AddImport) for each in edits):
        return frozenset()
    words = {b"import", *(word.encode() for name in imports for word in name.split("."))}
    # And the names under which they are imported.
    return frozenset(words | {new for old, new in _RENAMED.findall(data) if old in words})


class _Blanks:
    """starts: where the lines of ``data`` begin. touched: in order. names: words of code that
    edits of imports ask about; empty where no edit is of an import."""

    def __init__(
        self, data: bytes, starts: Sequence[int], touched: Sequence[Span], names: frozenset[bytes]
    ) -> None:
        self._data = data
        self._starts = starts
        self._touched = touched
        self._names = names

    def of(self, body: Sequence[ast.stmt], *, is_inside: bool) -> Iterator[Span]:
        """Yield what to blank of some statements. is_inside: those of a function or a class."""
        for node in body:
            if is_inside and not self._names and not self._is_touched([node]):
                yield self._span([node])
            elif not isinstance(node, _Definition):
                yield from self.of(getattr(node, "body", ()), is_inside=is_inside)
            elif self._is_touched([node]):
                yield from self.of(node.body, is_inside=True)
            elif not self._is_asked_about(self._span(node.body)):
                yield self._span(node.body)

    def _span(self, body: Sequence[ast.stmt]) -> Span:
        """Return the bytes of statements, the first one's decorators included."""
        first, last = body[0], body[-1]
        line = min(each.lineno for each in (first, *getattr(first, "decorator_list", ())))
        assert last.end_lineno is not None
        assert last.end_col_offset is not None
        start = self._starts[line - 1] + first.col_offset
        return Span(start, self._starts[last.end_lineno - 1] + last.end_col_offset)

    def _is_asked_about(self, span: Span) -> bool:
        """True if code says a word that an edit of an import asks about."""
        words = _WORD.finditer(self._data, *span) if self._names else ()
        return any(word.group() in self._names for word in words)

    def _is_touched(self, body: Sequence[ast.stmt]) -> bool:
        """True if an edit speaks of the lines of statements."""
        span = self._span(body)
        start = self._data.rfind(b"\n", 0, span.start) + 1
        end = self._data.find(b"\n", span.end)
        end = len(self._data) if end < 0 else end
        return any(each.start <= end and start <= each.end for each in self._touched)
