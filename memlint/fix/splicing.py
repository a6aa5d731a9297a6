"""Splices made, and the splices between two texts."""

import re
from collections.abc import Callable, Mapping, Sequence

from memlint.fix.differences import differences
from memlint.fix.draft import Splice
from memlint.fix.outcome import FixError, TextEdit
from memlint.source import Span
from memlint.source.edits import Edit
from memlint.source.text import common_start

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
        head = common_start(gone, come)
        tail = common_start(gone[head:][::-1], come[head:][::-1])
        start = starts[block.start] + len(gone[:head].encode("utf-8", "surrogatepass"))
        end = starts[block.end] - len(gone[len(gone) - tail :].encode("utf-8", "surrogatepass"))
        result.append(TextEdit(Span(start, end), come[head : len(come) - tail]))
    return tuple(result)


def between(before: str, after: str) -> list[Splice]:
    """Return the splices that turn ``before`` into ``after``."""
    result = []
    data = before.encode("utf-8", "surrogatepass")
    for span, content in ((edit.span, edit.content) for edit in text_edits(before, after)):
        begins = span.start == 0 or data[span.start - 1 : span.start] in (b"\n", b"\r")
        lines = span.start == span.end and begins and content.endswith(("\n", "\r"))
        result.append(Splice(span, content, lines=lines))
    return result


def planned(
    fixes: Sequence[Sequence[Edit]], splices: Callable[[Edit], list[Splice]]
) -> tuple[dict[int, list[Splice]], dict[int, str]]:
    """Return the splices of each fix, and the reasons why others are impossible.

    splices: those of one edit; raises FixError.
    """
    wanted: dict[int, list[Splice]] = {}
    refused: dict[int, str] = {}
    for number, edits in enumerate(fixes):
        try:
            wanted[number] = [splice for edit in edits for splice in splices(edit)]
        except FixError as error:
            refused[number] = str(error)
    return wanted, refused


def first_of_each_place(
    wanted: Mapping[int, Sequence[Splice]],
) -> tuple[list[Splice], list[int]]:
    """The splices that are made, and the numbers of their fixes; others wait for the next pass."""
    taken: list[Splice] = []
    accepted: list[int] = []
    for number, splices in wanted.items():
        pairs = [(one.span, other.span) for one in splices for other in taken if one != other]
        if not any(one.overlaps(other) or one.start == other.start for one, other in pairs):
            taken += [splice for splice in splices if splice not in taken]
            accepted.append(number)
    return taken, accepted
