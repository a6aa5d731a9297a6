"""A file as it was read: its text, where its lines begin, and what must survive a rewrite.

Everything downstream (script model, findings, edits) speaks of byte offsets into
``text.encode()``, the UTF-8 form of the decoded text without its byte order mark. ``ast`` counts
columns in UTF-8 bytes and libcst's ``ByteSpanPositionProvider`` counts the same bytes, so one
``Span`` names the same node in both trees. A notebook is one text too: its code cells in order,
each under a line that names it, so that rules never learn where a script came from.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import accumulate
from typing import Any, Self, TypeVar

from memlint.source.record import NamedTuple, Record

Answer = TypeVar("Answer")


class Span(NamedTuple):
    """Half-open range of byte offsets into ``Source.data``."""

    start: int
    end: int

    def contains(self, other: Span) -> bool:
        return self.start <= other.start and other.end <= self.end

    def overlaps(self, other: Span) -> bool:
        return self.start < other.end and other.start < self.end

    def beginning(self, text: str) -> Span:
        """The part that holds ``text``, which it begins with."""
        return Span(self.start, self.start + len(text.encode()))


# Bytes of a line that a report shows.
_LONGEST_SHOWN = 1000
# Characters between two offsets that are kept.
_STEP = 4096


class ByteOffsets:
    """Byte offsets of characters of a text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._steps: list[int] | None = None
        if not text.isascii():
            parts = (text[at : at + _STEP] for at in range(0, len(text), _STEP))
            sizes = (len(part.encode("utf-8", "surrogatepass")) for part in parts)
            self._steps = list(accumulate(sizes, initial=0))

    def __call__(self, at: int) -> int:
        if self._steps is None:
            return at
        step = min(at // _STEP, len(self._steps) - 1)
        rest = self._text[step * _STEP : at]
        return self._steps[step] + len(rest.encode("utf-8", "surrogatepass"))

    def span(self, start: int, end: int) -> Span:
        """The bytes of the characters from ``start`` to ``end``."""
        return Span(self(start), self(end))


class Place(Span):
    """Where a setting is written that a script is given: bytes of another file than the script's.

    setting: what is written there, for who gave it; None for a piece of it.
    """

    setting: object = None

    def __new__(cls, span: Span, setting: object = None) -> Self:
        made = super().__new__(cls, *span)
        made.setting = setting
        return made

    def beginning(self, text: str) -> Span:
        """All of it: a recipe may call a keyword otherwise."""
        return self


class Location(NamedTuple):
    """A place for people: 1-based row and column (characters) within ``cell``, if in a notebook."""

    row: int
    column: int
    cell: int | None = None


class Cell(Record):
    """One code cell of a notebook. ``span`` covers its text in ``Source.data``.

    ``number`` counts all cells of the notebook from 1, as the notebook's readers count them.
    """

    number: int
    span: Span


class Source:
    """One script. Never changed.

    path: as the user gave it, or ``-``'s stand-in name.
    text: decoded, without byte order mark, newlines as they are in the file. For a notebook: its
        code cells, magics masked by a form that parses and can be unmasked. So are those of a
        notebook that was exported as a script.
    raw: the file's bytes, against which a rewrite is compared before it replaces them.
    cells: empty for a Python file. masked: the word that marks a script's masked lines, if any.
    data: the text's UTF-8 form, which spans count in.
    """

    def __init__(
        self,
        path: str,
        text: str,
        raw: bytes = b"",
        encoding: str = "utf-8",
        bom: bool = False,
        cells: tuple[Cell, ...] = (),
        masked: str = "",
    ) -> None:
        self.path = path
        self.text = text
        self.raw = raw
        self.encoding = encoding
        self.bom = bom
        self.cells = cells
        self.masked = masked
        self.data = text.encode("utf-8", "surrogatepass")
        self._read: dict[Callable[[Source], Any], Any] = {}

    def once(self, read: Callable[[Source], Answer]) -> Answer:
        """Return ``read(source)``, computed once."""
        if read not in self._read:
            self._read[read] = read(self)
        answer: Answer = self._read[read]
        return answer

    @property
    def is_notebook(self) -> bool:
        return self.path.endswith(".ipynb")

    @cached_property
    def line_starts(self) -> tuple[int, ...]:
        """Byte offset at which each line begins.

        Lines end where they end for Python: ``str.splitlines`` would also split on form feeds and
        U+2028.
        """
        if b"\r" in self.data:
            return (0, *(match.end() for match in re.finditer(rb"\r\n|\r|\n", self.data)))
        lengths = (len(line) + 1 for line in self.data.split(b"\n")[:-1])
        return tuple(accumulate(lengths, initial=0))

    def offset(self, lineno: int, col_offset: int) -> int:
        """Return the byte offset of an ``ast`` position (1-based line, 0-based UTF-8 column)."""
        return self.line_starts[lineno - 1] + col_offset

    def slice(self, span: Span) -> str:
        """Return the text that ``span`` covers."""
        return self.data[span.start : span.end].decode("utf-8", "surrogatepass")

    def line(self, offset: int) -> int:
        """Return the 0-based line of the whole text that ``offset`` is on."""
        return bisect_right(self.line_starts, offset) - 1

    def line_text(self, line: int) -> str:
        """Line ``line`` (0-based) without its newline."""
        start = self.line_starts[line]
        end = self.line_starts[line + 1] if line + 1 < len(self.line_starts) else len(self.data)
        return self.data[start:end].decode("utf-8", "surrogatepass").rstrip("\r\n")

    def line_shown(self, line: int) -> str:
        """Line ``line`` (0-based) as reports show it: empty where nobody reads it, as in a file of
        one line. Thousands of findings there would each hold the whole file."""
        ends = (*self.line_starts[line + 1 : line + 2], len(self.data))
        return self.line_text(line) if ends[0] - self.line_starts[line] <= _LONGEST_SHOWN else ""

    def cell_at(self, offset: int) -> Cell | None:
        """Return the notebook cell that holds ``offset``; None in a Python file."""
        for cell in self.cells:
            if cell.span.start <= offset <= cell.span.end:
                return cell
        return None

    def location(self, offset: int) -> Location:
        """Return the place of ``offset`` as people count it."""
        line = self.line(offset)
        start = self.line_starts[line]
        column = len(self.data[start:offset].decode("utf-8", "replace")) + 1
        cell = self.cell_at(offset)
        if cell is None:
            return Location(line + 1, column)
        return Location(line - self.line(cell.span.start) + 1, column, cell.number)


def common_start(one: Sequence[str], other: Sequence[str]) -> int:
    """Count what two texts, or lists of lines, begin with alike."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))
