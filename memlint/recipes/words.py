"""Words of a shell command, the variables that they come through, and who reads those.

A word knows its text, where each part of it is written, and what is unknown: a value that a branch,
a loop or another program chooses. What a branch appends to a variable leaves the rest of it known:
of the words appended, the options are known to be possible and their values are not.
Offsets count characters of the text that is read.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping

from memlint.source.record import NamedTuple

# A word of these characters means itself in every shell, quoted or not.
PLAIN = re.compile(r"[\w.,:/@%+=-]+", re.ASCII)


class Piece(NamedTuple):
    """A part of a word.

    text: None where it is not known. start: where it is written, -1 where it stands nowhere as
    such. shared: what reads the same place is not all known. quoted: no shell splits it.
    variables: those that it came through.
    """

    text: str | None
    start: int = -1
    shared: bool = False
    quoted: bool = False
    variables: tuple[str, ...] = ()


# What another program, or a branch, decides: one word, or any number of them.
UNKNOWN_WORD = Piece(None, quoted=True)
UNKNOWN_WORDS = Piece(None)


class Word(NamedTuple):
    """One word as a program gets it. ``start``, ``end``: where the command writes it."""

    pieces: tuple[Piece, ...]
    start: int
    end: int

    @property
    def text(self) -> str | None:
        """None where a part is unknown."""
        if len(self.pieces) == 1:
            return self.pieces[0].text
        parts = [piece.text for piece in self.pieces]
        return None if None in parts else "".join(part for part in parts if part is not None)

    @property
    def may_be_several(self) -> bool:
        """True if it is unknown and may be no word or several."""
        return len(self.pieces) == 1 and self.pieces[0].text is None and not self.pieces[0].quoted

    @property
    def head(self) -> str:
        """The text up to the first unknown part."""
        text = ""
        for piece in self.pieces:
            if piece.text is None:
                break
            text += piece.text
        return text

    @property
    def is_unquoted(self) -> bool:
        """True if it is written as it is, as reserved words are."""
        return len(self.pieces) == 1 and self.pieces[0].start == self.start

    def after(self, count: int) -> Word:
        """The word without its first ``count`` characters, which are known."""
        kept: list[Piece] = []
        for piece in self.pieces:
            if not count or piece.text is None:
                kept.append(piece)
            elif count >= len(piece.text):
                count -= len(piece.text)
            else:
                start = piece.start + count if piece.start >= 0 else -1
                kept.append(piece._replace(text=piece.text[count:], start=start))
                count = 0
        start = kept[0].start if kept and kept[0].start >= 0 else self.start
        return Word(tuple(kept) or (Piece(""),), start, self.end)

    @property
    def place(self) -> tuple[int, int]:
        """Where the value is written: at a variable's assignment, if it is all of a variable."""
        if len(self.pieces) == 1:
            text, start = self.pieces[0][:2]
            if text and start >= 0:
                return start, start + len(text)
        return self.start, self.end

    @property
    def begin(self) -> int:
        """Where its first character is written."""
        return self.pieces[0].start if self.pieces[0].start >= 0 else self.start

    @property
    def is_plain(self) -> bool:
        """True if another plain word may be written at ``place``, and changes this word alone."""
        if len(self.pieces) != 1:
            return False
        text, start, shared = self.pieces[0][:3]
        return text is not None and start >= 0 and not shared and bool(PLAIN.fullmatch(text))

    @property
    def is_shared(self) -> bool:
        """True if what is not known reads its first bytes too."""
        return self.pieces[0].shared

    def settled(self, shared: frozenset[str]) -> Word:
        """The word, where it is known which variables are ``shared``."""
        if not any(shared.intersection(piece.variables) for piece in self.pieces):
            return self
        pieces = (
            piece._replace(shared=True) if shared.intersection(piece.variables) else piece
            for piece in self.pieces
        )
        return self._replace(pieces=tuple(pieces))


_WRITES = re.compile(r"(?<![^\s;&|(])([A-Za-z_]\w*)\s*(?:\+|\?|:{1,3})?=", re.ASCII)
_READS = re.compile(r"(?<!\$)\$++[{(]?([A-Za-z_]\w*)|\{\{\s*+([A-Za-z_]\w*)", re.ASCII)


class Uses:
    """The uses of variables in one text."""

    def __init__(self, text: str) -> None:
        self.writes = Counter(match[1] for match in _WRITES.finditer(text))
        self._reads: dict[str, set[int]] = defaultdict(set)
        for match in _READS.finditer(text):
            self._reads[match[1] or match[2]].add(match.start())
        self._followed: set[int] = set()

    def count(self, name: str) -> int:
        """How often a variable is read."""
        return len(self._reads[name]) if name in self._reads else 0

    def follow(self, places: list[int]) -> None:
        """What is read at ``places`` goes into a command, or a variable, that is known."""
        self._followed.update(places)

    def shared(self) -> frozenset[str]:
        """The variables that are read by what is not known."""
        return frozenset(name for name, places in self._reads.items() if places - self._followed)


# The elements of a variable: one, or those of an array; None where the text does not decide.
Elements = tuple[tuple[Piece, ...], ...]
Variable = Elements | None

# Beyond these a value is unknown: what doubles itself stays small.
_MOST_PIECES = 2_000
_MOST_EXPANDED = 200_000
_OPTION = re.compile(r"(--?[^\W\d_][\w.-]*=?)|([+~]{0,2}[A-Za-z_][\w./@-]*=)")
_PARTS = re.compile(r"\S+")


class Block:
    """A branch, loop, function or subshell; what it sets is unknown after it."""

    def __init__(self, closer: str, folder: str | None, *, repeats: bool) -> None:
        self.closer = closer
        self.folder = folder
        self.repeats = repeats
        self._replaced: set[str] = set()
        # Of variables that the block only makes longer: what they were, and with what arms add.
        self._before: dict[str, Elements] = {}
        self._longer: dict[str, Elements] = {}

    def changes(self, name: str, before: Variable, *, grows: bool) -> None:
        """A variable gets a new value, or what it was ``before`` with more behind it."""
        if grows and before is not None and name not in self._replaced:
            self._before.setdefault(name, before)
            self._longer.setdefault(name, before)
        else:
            self._replaced.add(name)
            self._before.pop(name, None)

    def end_arm(self, values: dict[str, Variable]) -> None:
        """Another arm begins, or none: what this one set is not set there."""
        for name in self._replaced:
            values[name] = None
        for name, before in self._before.items():
            after = values.get(name)
            self._longer[name] = _perhaps(self._longer[name], before, after)
            values[name] = before

    def end(self, values: dict[str, Variable], around: Block | None) -> None:
        """The block ends: what its arms may have added is behind what was there before."""
        self.end_arm(values)
        for name, before in self._before.items():
            values[name] = _bounded(self._longer[name])
            if around is not None:
                around.changes(name, before, grows=True)
        if around is not None:
            for name in self._replaced:
                around.changes(name, None, grows=False)


class Variables:
    """Values by name, and the blocks that the text is in. dialect: as ``Shell`` has it."""

    def __init__(self, dialect: str, values: Mapping[str, Variable], uses: Uses) -> None:
        self.values: dict[str, Variable] = dict(values)
        self.uses = uses
        self.blocks: list[Block] = []
        self.expanded = 0
        self._is_foreign = dialect == "notebook"
        # What the command reads: variables and places; those that it makes longer.
        self._read: list[tuple[str, int]] = []
        self._grown: set[str] = set()

    def value(self, name: str, place: int) -> Variable:
        """What is read at ``place``."""
        value = self.values.get(name)
        if value is None or self._is_foreign:
            return None
        if self.uses.writes[name] > 1 and any(block.repeats for block in self.blocks):
            return None
        if not self.spend(sum(len(pieces) for pieces in value) + 1):
            return None
        self._read.append((name, place))
        return tuple(tuple(_through(name, piece) for piece in pieces) for pieces in value)

    def spend(self, amount: int) -> bool:
        """True if a text that expands to this much more is still small."""
        self.expanded += amount
        return self.expanded <= _MOST_EXPANDED

    def settle(self, *, known: bool) -> None:
        """A command ends. known: what it read goes where all of it is known."""
        self.uses.follow([at for name, at in self._read if known or name in self._grown])
        self._read, self._grown = [], set()

    def assign(self, name: str, value: Variable, *, possible: bool = False) -> None:
        """``NAME=value``. possible: a condition decides whether it is done."""
        before = self.values.get(name)
        grows = before is not None and value is not None and _grows(before, value)
        if grows:
            self._grown.add(name)
        if possible:
            value = _perhaps(before, before, value) if before is not None and grows else None
        if self.blocks:
            self.blocks[-1].changes(name, before, grows=grows)
        self.values[name] = _bounded(value)

    def append(self, name: str, elements: Variable, *, possible: bool = False) -> None:
        """``NAME+=(...)``."""
        before = self.values.get(name)
        more = ((UNKNOWN_WORDS,),) if elements is None else elements
        value = None if before is None else (*before, *more)
        self.assign(name, value, possible=possible)

    def extend(self, name: str, pieces: tuple[Piece, ...], *, possible: bool = False) -> None:
        """``NAME+=text``."""
        before = self.values.get(name)
        longer = (*before[0], *pieces) if before else pieces
        value = None if before is None else (longer, *before[1:])
        self.assign(name, value, possible=possible)

    def end_arm(self) -> None:
        """``else``, ``;;``: another arm of the innermost block begins."""
        if self.blocks:
            self.blocks[-1].end_arm(self.values)

    def end_block(self) -> Block:
        """The innermost block ends."""
        block = self.blocks.pop()
        block.end(self.values, self.blocks[-1] if self.blocks else None)
        return block


def _through(name: str, piece: Piece) -> Piece:
    known = name in piece.variables
    return piece if known else piece._replace(variables=(*piece.variables, name))


def _bounded(value: Variable) -> Variable:
    few = value is None or sum(len(pieces) for pieces in value) <= _MOST_PIECES
    return value if few else None


def _grows(before: Elements, after: Elements) -> bool:
    """True if ``after`` is ``before`` with more at the end of its first element, or behind it."""
    if not before:
        return True
    if not after or len(after) < len(before):
        return False
    first, own = _places(after[0]), _places(before[0])
    return first[: len(own)] == own and all(
        _places(one) == _places(other) for one, other in zip(before[1:], after[1:], strict=False)
    )


def _places(pieces: tuple[Piece, ...]) -> list[tuple[str | None, int]]:
    return [(piece.text, piece.start) for piece in pieces if piece.text != ""]


def _perhaps(value: Elements, before: Elements, after: Variable) -> Elements:
    """``value``, and behind it what ``after`` has beyond ``before``, as words that may be there."""
    if after is None:
        return (*value, (UNKNOWN_WORDS,))
    if not before:
        return (*value, *_possible(after))
    known = len(_places(before[0]))
    kept = [piece for piece in after[0] if piece.text != ""][known:]
    inner = tuple(_apart(_possible((tuple(kept),)))) if kept else ()
    first = (*value[0], *inner)
    return (first, *value[1:], *_possible(after[len(before) :]))


def _possible(elements: Elements) -> Iterator[tuple[Piece, ...]]:
    """Words that may be there or not: their options, with values that nobody knows."""
    for piece in (piece for pieces in elements for piece in pieces):
        if piece.text is None:
            yield (UNKNOWN_WORDS,)
            continue
        for part in _PARTS.finditer(piece.text):
            option = _OPTION.match(part[0])
            if option is None:
                continue
            start = piece.start + part.start() if piece.start >= 0 else -1
            name = piece._replace(text=option[0], start=start)
            if option[0].endswith("="):
                yield (name, UNKNOWN_WORD)
            else:
                yield (name,)
                yield (UNKNOWN_WORD,)


def _apart(elements: Iterator[tuple[Piece, ...]]) -> Iterator[Piece]:
    """Elements as one text, whose blanks part them."""
    for pieces in elements:
        yield Piece(" ")
        yield from pieces
