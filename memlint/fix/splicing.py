"""Splices made, and the splices between two texts."""

from __future__ import annotations

import re
from collections.abc import Sequence

from memlint.fix.differences import differences
from memlint.fix.draft import Splice
from memlint.fix.outcome import TextEdit
from memlint.source import Span

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+\Z")


def spliced(data: bytes, splices: Sequence[Splice]) -> bytes:
    """Return ``data`` with every splice made."""
    parts: list[bytes] = []
    last = 0
    for splice in splices:
        assert splice.span.start >= last, "splices overlap"
        parts += [data[last : splice.span.start], splice.text.encode("utf-8", "surrogatepass")]
        last = splice.span.end
    return b"".join([*parts, data[last:]])


def split_lines(text: str) -> list[str]:
    """Return the lines of ``text`` with their ends, which are those that Python knows."""
    return _LINE.findall(text)


def text_edits(before: str, after: str) -> tuple[TextEdit, ...]:
    """Replacements that turn ``before`` into ``after``: the lines that differ, without what their
    ends share. Spans are bytes of ``before``'s UTF-8 form, in order."""
    old, new = split_lines(before), split_lines(after)
    starts = [0]
    for line in old:
        starts.append(starts[-1] + len(line.encode("utf-8", "surrogatepass")))
    result = []
    for block in differences(old, new):
        gone = "".join(old[block.start : block.end])
        come = "".join(new[block.new_start : block.new_end])
        head = _common(gone, come)
        tail = _common(gone[head:][::-1], come[head:][::-1])
        start = starts[block.start] + len(gone[:head].encode("utf-8", "surrogatepass"))
        end = starts[block.end] - len(gone[len(gone) - tail :].encode("utf-8", "surrogatepass"))
        result.append(TextEdit(Span(start, end), come[head : len(come) - tail]))
    return tuple(result)


def _common(one: str, other: str) -> int:
    """Count the characters that both texts begin with."""
    count = 0
    for left, right in zip(one, other, strict=False):
        if left != right:
            break
        count += 1
    return count


def between(before: str, after: str) -> list[Splice]:
    """Return the splices that turn ``before`` into ``after``."""
    result = []
    data = before.encode("utf-8", "surrogatepass")
    for span, content in ((edit.span, edit.content) for edit in text_edits(before, after)):
        begins = span.start == 0 or data[span.start - 1 : span.start] in (b"\n", b"\r")
        lines = span.start == span.end and begins and content.endswith(("\n", "\r"))
        result.append(Splice(span, content, lines=lines))
    return result
