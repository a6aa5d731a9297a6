"""Items between brackets, separated by commas: add and remove them in the style that is there.

Arguments of a call, bases of a class, items of a dict display and names of an import are the same
text: items, and between them gaps that hold one comma, white space and comments. This module works
on the gaps alone, so that an item's own text is never touched, and answers with the gaps that
change. The layouts it keeps: all on one line; one item a line, hanging or aligned with the
bracket; several items a line; with a trailing comma or without; comments at the end of lines and
on lines of their own.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import libcst as cst

from memlint.fix.new_expressions import reindented
from memlint.fix.spans import Tree
from memlint.source import Span

_LINE = re.compile(r"\r\n|\r|\n")


@dataclass(frozen=True, slots=True)
class Item:
    """An item as it is written: its span without comma, and where its comma is, if it has one."""

    span: Span
    comma: int | None

    @property
    def end(self) -> int:
        """Where it ends, its comma included."""
        return self.span.end if self.comma is None else self.comma + 1


def item_of(
    tree: Tree, node: cst.Arg | cst.ImportAlias | cst.BaseDictElement, span: Span | None = None
) -> Item:
    """Return an argument, an alias or an entry of a dict as an item. span: its own, if not that."""
    comma = tree.span(node.comma).start if isinstance(node.comma, cst.Comma) else None
    return Item(span or tree.span(node), comma)


@dataclass(frozen=True, slots=True)
class Sequence:
    """Items from ``start`` (behind the opening bracket) to ``end`` (the closing bracket)."""

    start: int
    end: int
    items: tuple[Item, ...]
    bracketed: bool = True


@dataclass(slots=True)
class _Entry:
    """An item and the gap behind it: text, a comma perhaps, text. New items have no ``index``."""

    index: int | None
    text: str = ""
    before: str = ""
    comma: bool = False
    after: str = ""

    @property
    def gap(self) -> str:
        return self.before + ("," if self.comma else "") + self.after

    def follow(self, other: _Entry) -> None:
        """Take over what stands behind ``other``."""
        self.before, self.comma, self.after = other.before, other.comma, other.after


def _hanging(gap: str) -> str | None:
    """Return the indentation of an item behind ``gap`` if it begins a line, else None."""
    lines = _LINE.split(gap)
    return lines[-1] if len(lines) > 1 and not lines[-1].strip(" \t\f") else None


def _first_line(gap: str) -> tuple[str, str]:
    """Return ``gap`` cut before its first newline."""
    match = _LINE.search(gap)
    return (gap[: match.start()], gap[match.start() :]) if match else (gap, "")


def _without_last_line(gap: str) -> str:
    """Return ``gap`` without the last newline and the indentation behind it."""
    *_, last = _LINE.finditer(gap)
    return gap[: last.start()]


def _without_whole_lines(gap: str, count: int) -> str:
    """Return ``gap`` without the ``count`` lines before the one that is not ended."""
    ends = [match.end() for match in _LINE.finditer(gap)]
    return gap[: ends[-1 - count]] + gap[ends[-1] :] if count < len(ends) else gap


@dataclass(slots=True)
class Layout:
    """The items of one sequence while edits are made to it.

    ``newline``, ``indent``: of the file. ``outside``: the indentation of the line on which the
    sequence begins.
    """

    data: bytes
    sequence: Sequence
    newline: str
    indent: str
    outside: str
    lead: str = field(init=False)
    entries: list[_Entry] = field(init=False)

    def __post_init__(self) -> None:
        sequence = self.sequence
        starts = [item.span.start for item in sequence.items]
        self.lead = self._slice(sequence.start, starts[0] if starts else sequence.end)
        self.entries = []
        for index, item in enumerate(sequence.items):
            until = starts[index + 1] if index + 1 < len(starts) else sequence.end
            entry = _Entry(index, comma=item.comma is not None)
            if item.comma is None:
                entry.before = self._slice(item.span.end, until)
            else:
                entry.before = self._slice(item.span.end, item.comma)
                entry.after = self._slice(item.comma + 1, until)
            self.entries.append(entry)

    def _slice(self, start: int, end: int) -> str:
        return self.data[start:end].decode("utf-8", "surrogatepass")

    def _newline(self, gap: str) -> str:
        """Return the newline that ``gap`` uses, in files that mix them."""
        match = _LINE.search(gap)
        return match.group() if match else self.newline

    def _lines(self, text: str, prefix: str, newline: str) -> str:
        return reindented(text, prefix, indent=self.indent, newline=newline)

    def position(self, index: int) -> int:
        """Return where the item that was number ``index`` is now."""
        return next(at for at, entry in enumerate(self.entries) if entry.index == index)

    def insert(self, position: int, text: str) -> None:
        """Put ``text`` before the item now at ``position``, or last."""
        if not self.entries:
            self._fill(text)
        elif position:
            self._insert_behind(position - 1, text)
        else:
            entry = _Entry(None, text, comma=True, after=" ")
            hanging = _hanging(self.lead)
            if hanging is not None:
                newline = self._newline(self.lead)
                entry.text = self._lines(text, hanging, newline)
                entry.after = newline + hanging
            self.entries.insert(0, entry)

    def _fill(self, text: str) -> None:
        entry = _Entry(None, text)
        lines = _LINE.split(self.lead)
        if self.sequence.bracketed and len(lines) > 1:
            newline = self._newline(self.lead)
            comments = [line for line in lines[1:] if line.strip()]
            closing = lines[-1]
            if comments:
                indent = comments[-1][: len(comments[-1]) - len(comments[-1].lstrip())]
            else:
                indent = closing + self.indent
            entry.text = self._lines(text, indent, newline)
            entry.comma, entry.after = True, newline + closing
            self.lead = _without_last_line(self.lead) + newline + indent
        else:
            entry.text = self._lines(text, self.outside, self.newline)
            self.lead = ""
        self.entries.append(entry)

    def _insert_behind(self, position: int, text: str) -> None:
        previous = self.entries[position]
        last = position == len(self.entries) - 1
        before = self.entries[position - 1].gap if position else self.lead
        hanging = _hanging(before) if self.sequence.bracketed else None
        entry = _Entry(None, text)
        if hanging is not None and (last or _LINE.search(previous.gap)):
            newline = self._newline(before)
            behind = previous.after if previous.comma else previous.before
            if previous.comma and _LINE.search(previous.before):
                # The comma stands on a later line: what follows it is no comment of this item.
                same, rest = "", behind
            else:
                same, rest = _first_line(behind)
                if not same.strip():
                    same, rest = "", (rest or same)
            entry.text = self._lines(text, hanging, newline)
            entry.comma = previous.comma
            if previous.comma:
                entry.after = rest
                previous.after = same + newline + hanging
            else:
                entry.before = rest
                previous.before, previous.comma = "", True
                previous.after = same + newline + hanging
        else:
            entry.text = self._lines(text, hanging or self.outside, self.newline)
            entry.follow(previous)
            previous.before, previous.comma, previous.after = "", True, " "
        self.entries.insert(position + 1, entry)

    def remove(self, position: int, above: int = 0) -> None:
        """Take the item now at ``position`` out, with its comma and the comment on its line.

        above: how many lines of comments right above it go as well.
        """
        self._drop_lines(position, above)
        entry = self.entries.pop(position)
        last = position == len(self.entries)
        before = self.entries[position - 1].gap if position else self.lead
        previous = self.entries[position - 1] if position else None
        hanging = _hanging(before)
        if not self.entries:
            self._empty(entry)
            return
        if hanging is not None and _LINE.search(entry.gap):
            self._remove_line(previous, entry, last)
        elif previous is None:
            _, rest = _first_line(entry.after if entry.comma else entry.before)
            if "#" in rest and hanging is None:
                self.lead += rest
        elif hanging is not None and last:
            self._remove_closing(previous, entry, hanging)
        elif hanging is not None:
            pass  # More items follow on this line: the gap before them stays.
        elif "#" in before:
            previous.comma = entry.comma
            previous.after = previous.after.rstrip(" \t") + entry.after
            if not entry.comma:
                previous.before += previous.after + entry.before
                previous.after = ""
        else:
            previous.follow(entry)

    def _drop_lines(self, position: int, count: int) -> None:
        """Take the last ``count`` whole lines out of the gap before ``position``."""
        if not count:
            return
        if not position:
            self.lead = _without_whole_lines(self.lead, count)
            return
        entry = self.entries[position - 1]
        if entry.comma:
            entry.after = _without_whole_lines(entry.after, count)
        else:
            entry.before = _without_whole_lines(entry.before, count)

    def _remove_line(self, previous: _Entry | None, entry: _Entry, last: bool) -> None:
        """The item has lines of its own: they go, with the comment at their end."""
        between = _first_line(entry.before)[1]
        rest = _first_line(entry.after)[1] if entry.comma else between
        if entry.comma and between:
            # The comma stands on a later line; comments on lines of their own before it stay.
            kept = _without_last_line(between)
            rest = kept + (rest or between[len(kept) :] + entry.after)
        if previous is None:
            self.lead = _without_last_line(self.lead) + rest
            return
        if previous.comma and _LINE.search(previous.after):
            previous.after = _without_last_line(previous.after) + rest
        else:
            previous.before = _without_last_line(previous.before) + rest
        if last and not entry.comma:
            previous.before, previous.comma, previous.after = (
                previous.before + previous.after,
                False,
                "",
            )

    def _remove_closing(self, previous: _Entry, entry: _Entry, hanging: str) -> None:
        """The last item, on its own line with the closing bracket behind it."""
        head = _without_last_line(previous.after if previous.comma else previous.before)
        if "#" in head:
            head += self._newline(previous.gap) + hanging
        else:
            head = ""
        if entry.comma:
            previous.after = head + entry.after
        else:
            previous.before += head + entry.before
            previous.comma, previous.after = False, ""

    def _empty(self, entry: _Entry) -> None:
        """The last of the items goes: nothing but comments may stay between the brackets."""
        _, rest = _first_line(entry.before)
        if entry.comma and not rest:
            _, rest = _first_line(entry.after)
        elif entry.comma:
            rest += entry.after  # The comma stands on a later line, and goes too.
        if "#" in self.lead or "#" in rest:
            lead = self.lead
            self.lead = (_without_last_line(lead) if _LINE.search(lead) else lead) + (
                rest or self.newline + self.outside
            )
        else:
            self.lead = ""

    def changes(self) -> list[tuple[Span, str]]:
        """Return the gaps that are no longer what they were, and what stands there now."""
        result: list[tuple[Span, str]] = []
        items = self.sequence.items
        start = self.sequence.start
        text = self.lead
        for entry in self.entries:
            if entry.index is None:
                text += entry.text + entry.gap
                continue
            item = items[entry.index]
            result.append((Span(start, item.span.start), text))
            start, text = item.span.end, entry.gap
        result.append((Span(start, self.sequence.end), text))
        return [
            _trimmed(span, self._slice(*span), new)
            for span, new in result
            if self._slice(*span) != new
        ]


def _trimmed(span: Span, old: str, new: str) -> tuple[Span, str]:
    """Return the same change without what stays at its two ends."""
    limit = min(len(old), len(new))
    head = 0
    while head < limit and old[head] == new[head]:
        head += 1
    if 0 < head < len(old) and old[head - 1] == "\r":
        head -= 1  # Never between the two characters of a newline.
    tail = 0
    while tail < limit - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    if tail and old[len(old) - tail] == "\n" and tail < len(old) - head:
        tail -= 1
    start = span.start + len(old[:head].encode("utf-8", "surrogatepass"))
    end = span.end - len(old[len(old) - tail :].encode("utf-8", "surrogatepass"))
    return Span(start, end), new[head : len(new) - tail]
