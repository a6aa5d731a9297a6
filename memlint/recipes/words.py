"""Words of a shell command: their text, where each part of it is written, what is unknown.

Offsets count characters of the text that is read.
"""

from __future__ import annotations

import re

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
