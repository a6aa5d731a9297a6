"""Lines that go one level deeper, under a header (``with torch.no_grad():``)."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from memlint.fix.draft import Splice, Wrap
from memlint.fix.spans import Tree
from memlint.source import Span

_LINE = re.compile(r"\r\n|\r|\n")


def wrapped(tree: Tree, wrap: Wrap, splices: list[Splice]) -> list[Splice]:
    """``splices``, and those that put the lines of ``wrap`` one level deeper with what others write
    there."""
    header = f"{wrap.indent}{wrap.header}{tree.newline}"
    return [
        *(_deeper(tree, splice) if _is_inside(wrap, splice) else splice for splice in splices),
        Splice(Span(wrap.span.start, wrap.span.start), header, rank=1, lines=True),
        *(
            Splice(Span(start, start), tree.indent, rank=2)
            for start in _lines_to_indent(tree, wrap.span, splices)
        ),
    ]


def _is_inside(wrap: Wrap, splice: Splice) -> bool:
    """True if what a splice writes comes to stand under the header."""
    before = splice.span == (wrap.span.start, wrap.span.start) and splice.rank <= 0
    behind = splice.span.start == wrap.span.end
    return wrap.span.contains(splice.span) and not before and not behind


def _deeper(tree: Tree, splice: Splice) -> Splice:
    """Return the splice with the lines of its text one level deeper."""
    text = _LINE.sub(lambda match: match.group() + tree.indent, splice.text)
    starts_line = splice.span.start == splice.span.end == tree.line_start(splice.span.start)
    if starts_line and not _LINE.search(splice.text[-2:]):
        # It stands before the first character of a line that will be indented, too.
        return Splice(splice.span, text, 4, splice.lines)
    if starts_line or (splice.lines and text):
        text = tree.indent + text.removesuffix(tree.indent)
    return Splice(splice.span, text, splice.rank, splice.lines)


def _lines_to_indent(tree: Tree, region: Span, splices: list[Splice]) -> Iterator[int]:
    """Where the lines begin that hold code of the file: no blank line, no line of a string, none
    that a splice writes anew."""
    strings = [*map(tree.span, tree.nodes(cst.SimpleString))]
    strings += map(tree.span, tree.nodes(cst.FormattedString))
    strings = [span for span in strings if region.overlaps(span)]
    replaced = [splice.span for splice in splices if splice.span.start < splice.span.end]
    start = region.start
    while start < region.end:
        end = tree.line_end(start)
        blank = not tree.data[start:end].strip()
        in_string = any(span.start < start < span.end for span in strings)
        in_splice = any(
            span.start < start < span.end or (span.start == start and span.end >= end)
            for span in replaced
        )
        if not (blank or in_string or in_splice):
            yield start
        start = end
