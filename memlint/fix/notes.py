"""Comments that follow the option which they explain to the place that it moves to.

An item's comments stand at the end of its line, inside its value and on the lines above. Where the
item goes and the same fix writes something in its place, they are marked in the new text and put
where it has come to stand: at the end of that line, or above it.
"""

import re

from memlint.fix.draft import MARK, Note, Splice
from memlint.fix.sequences import Sequence
from memlint.fix.spans import Tree
from memlint.fix.splicing import between, spliced
from memlint.source import Span

_WORD = re.compile(r"[a-z0-9]{3,}")


def notes_of(
    tree: Tree, sequence: Sequence, index: int, name: str
) -> tuple[tuple[Note, ...], tuple[Span, ...], bool]:
    """The comments that belong to item ``index``, the places of those on the lines above it, and
    whether these are about it alone: what heads a group stays if nothing takes the item's place.

    Only an item with lines of its own has any but those inside its value.
    """
    item = sequence.items[index]
    inside = [
        Note(text, inside=True) for text, place in tree.comments() if item.span.contains(place)
    ]
    start = tree.line_start(item.span.start)
    end = item.comma + 1 if item.comma is not None else item.span.end
    comments = behind(tree, end)
    rest = tree.data[end : comments[0][1].start if comments else tree.line_end(end)]
    alone = not tree.data[start : item.span.start].strip() and start > sequence.start
    if not alone or rest.strip(b" \t\r\n)]},"):
        return tuple(inside), (), True
    if rest.strip():
        # The closing bracket stands behind it: the comment is the whole statement's.
        comments = []
    above = _above(tree, sequence, start)
    notes = [Note(text, above=True) for text, _ in above] + inside
    notes += [Note(text) for text, _ in comments]
    own = _mention(above, name) or _stands_alone(tree, sequence, index)
    return tuple(notes), tuple(place for _, place in above), own


def behind(tree: Tree, offset: int) -> list[tuple[str, Span]]:
    """Return the comments behind ``offset`` on its line."""
    line_end = tree.line_end(offset)
    return [comment for comment in tree.comments() if offset <= comment[1].start < line_end]


def _mention(comments: list[tuple[str, Span]], name: str) -> bool:
    """True if the comments share a word with the name of an option."""
    said = _WORD.findall(" ".join(text for text, _ in comments).lower())
    return not set(_WORD.findall(name.lower())).isdisjoint(said)


def _above(tree: Tree, sequence: Sequence, start: int) -> list[tuple[str, Span]]:
    """Return the comment lines right above the line that begins at ``start``."""
    found: list[tuple[str, Span]] = []
    by_line = {tree.line_start(place.start): (text, place) for text, place in tree.comments()}
    line = start
    while line > sequence.start:
        ended = line - 2 if tree.data[line - 2 : line] == b"\r\n" else line - 1
        line = tree.line_start(ended)
        one = by_line.get(line)
        if one is None or tree.data[line : one[1].start].strip() or line <= sequence.start:
            break
        found.insert(0, one)
    return found


def _stands_alone(tree: Tree, sequence: Sequence, index: int) -> bool:
    """True if no further item follows under the same heading."""
    if index + 1 == len(sequence.items):
        return True
    end, start = sequence.items[index].span.end, sequence.items[index + 1].span.start
    between = tree.data[end:start].splitlines()[1:-1]
    return bool(between)


def placed_notes(data: bytes, splices: list[Splice]) -> list[Splice]:
    """Return ``splices`` with every marked comment at the end of its line, or on a line above."""
    if not any(MARK.search(splice.text) for splice in splices):
        return splices
    text = spliced(data, splices)
    changes: list[tuple[Span, str]] = []
    shown = text.decode("utf-8", "surrogatepass")
    ends: dict[int, list[str]] = {}
    for match in MARK.finditer(shown):
        start = len(shown[: match.start()].encode("utf-8", "surrogatepass"))
        end = start + len(match.group().encode("utf-8", "surrogatepass"))
        changes.append((Span(start, end), ""))
        first = max(text.rfind(b"\n", 0, start), text.rfind(b"\r", 0, start)) + 1
        if match[1]:
            indent = re.match(rb"[ \t\f]*", text[first:])
            assert indent is not None
            newline = "\r\n" if b"\r\n" in data else "\n"
            changes.append((Span(first, first), f"{indent.group().decode()}{match[2]}{newline}"))
            continue
        rest = re.compile(rb"[^\r\n]*").match(text, end)
        assert rest is not None
        stop = end + len(rest[0].rstrip(b" \t"))
        ends.setdefault(stop, []).append(match[2])
    for offset, notes in ends.items():
        written = "".join(f"  {note}" for note in dict.fromkeys(notes))
        changes.append((Span(offset, offset), written))
    for span, written in sorted(changes, reverse=True):
        text = text[: span.start] + written.encode("utf-8", "surrogatepass") + text[span.end :]
    new = text.decode("utf-8", "surrogatepass")
    old = data.decode("utf-8", "surrogatepass")
    return between(old, new)
