"""Reads the words of a shell script: quotes, escapes, and what variables put into them."""

import re
from collections.abc import Callable

from memlint.recipes.words import Elements, Piece, Variables, Word

NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_QUOTED = re.compile(
    r"""(?P<plain>[^"\\$`{]+)|(?P<escape>\\(?s:.)?)|(?P<dollar>\$)|(?P<backtick>`)|(?P<brace>{)|\""""
)
_ANSI = re.compile(r"(?:[^'\\]|\\(?s:.))*+")
_DEFAULT = re.compile(r"(\w+):?[-=]", re.ASCII)
_ARRAY = re.compile(r"(\w+)\[[@*]\]", re.ASCII)
# A number or a name, and what stands between it and the next.
_TERM = re.compile(r"\s*+(?:\$?\{?([A-Za-z_]\w*+)\}?|(\d{1,9}))\s*+([-+*/%]|$)", re.ASCII)
_MOST = 10**12
_CLOSING = {
    "(": re.compile(r"""\\(?s:.)|'[^']*+'|"(?:[^"\\]|\\(?s:.))*+"|[()]"""),
    "{": re.compile(r"""\\(?s:.)|'[^']*+'|"(?:[^"\\]|\\(?s:.))*+"|[{}]"""),
}


class WordReader:
    """The word that is being read, and the cursor ``at`` in ``text``, which ends at ``end``."""

    def __init__(
        self,
        text: str,
        start: int,
        end: int,
        dialect: str,
        variables: Variables,
        take: Callable[[Word], None],
    ) -> None:
        self.text = text
        self.at = start
        self.end = end
        self._dialect = dialect
        self._variables = variables
        self._take = take
        self._pieces: list[Piece] | None = None
        self._start = start

    @property
    def is_open(self) -> bool:
        """True if a word has begun."""
        return self._pieces is not None

    @property
    def shown(self) -> str:
        """The text of the open word, with a ``$`` for what is unknown."""
        return "".join(piece.text or "$" for piece in self._pieces or ())

    def drop(self) -> None:
        """Forget the open word."""
        self._pieces = None

    def add(self, piece: Piece | None, start: int) -> None:
        """Put a piece at the end of the word, or begin one at ``start``."""
        if self._pieces is None:
            self._pieces = []
            self._start = start
        if piece is not None:
            self._pieces.append(piece)

    def finish(self, end: int) -> None:
        """The word, if there is one, ends."""
        pieces, self._pieces = self._pieces, None
        if pieces:
            self._take(Word(_joined(pieces), self._start, end))

    # -- quotes and escapes ----------------------------------------------------------------------
    # Each reads what begins at ``start``, with the cursor behind its mark.

    def plain(self, start: int, *, quoted: bool = False) -> None:
        """A text that means itself."""
        self.add(Piece(self.text[start : self.at], start, quoted=quoted), start)

    def single(self, start: int) -> None:
        """``'...'``."""
        close = self.text.find("'", self.at, self.end)
        stop = self.end if close < 0 else close
        self.add(Piece(self.text[self.at : stop], self.at, quoted=True), start)
        self.at = min(stop + 1, self.end)

    def double(self, start: int) -> None:
        """``"..."``."""
        self.add(Piece("", quoted=True), start)
        while self.at < self.end:
            match = _QUOTED.match(self.text, self.at, self.end)
            assert match is not None
            self.at = match.end()
            if match.lastgroup is None:
                return
            getattr(self, match.lastgroup)(match.start(), quoted=True)

    def escape(self, start: int, *, quoted: bool = False) -> None:
        """A backslash and what follows it."""
        escaped = self.text[start + 1 : self.at]
        if escaped == "\n":
            return
        if escaped == "$":
            # Another shell may expand it later.
            self.add(Piece(None, quoted=True), start)
        elif quoted and escaped not in ('"', "\\", "`"):
            self.plain(start, quoted=True)
        else:
            self.add(Piece(escaped, quoted=True), start)

    def backtick(self, start: int, *, quoted: bool = False) -> None:
        """The output of a command."""
        self.add(None, start)
        close = self.text.find("`", self.at, self.end)
        self.at = self.end if close < 0 else close + 1
        self.add(Piece(None, quoted=quoted), self.at)

    def brace(self, start: int, *, quoted: bool = False) -> None:
        """``{{name}}`` of just, ``{name}`` of a notebook; otherwise a character."""
        if self._dialect == "just" and self.text.startswith("{{", start):
            close = self.text.find("}}", start, self.end)
            self.at = self.end if close < 0 else close + 2
            name = self.text[start + 2 : max(close, start + 2)].strip()
            self._expand(name if NAME.fullmatch(name) else "", start, quoted=quoted)
        elif self._dialect == "notebook" and self.text[start] == "{":
            self.add(Piece(None, quoted=quoted), start)
            self.skip_to_closing("{")
        else:
            self.plain(start, quoted=quoted)

    def skip_to_closing(self, opening: str) -> int:
        """Go behind the bracket that closes one before ``at``; where that one is."""
        level = 1
        for match in _CLOSING[opening].finditer(self.text, self.at, self.end):
            mark = match[0]
            level += (mark == opening) - (mark in (")", "}"))
            if level == 0:
                self.at = match.end()
                return match.start()
        self.at = self.end
        return self.end

    # -- expansions ------------------------------------------------------------------------------

    def dollar(self, start: int, *, quoted: bool = False) -> None:
        """Behind ``$``, which is at ``start``."""
        if self._dialect == "make" and self._make_dollar(start, quoted=quoted):
            return
        mark = self.text[self.at : self.at + 1] if self.at < self.end else ""
        name = NAME.match(self.text, self.at, self.end)
        if name is not None:
            self.at = name.end()
            self._expand(name[0], start, quoted=quoted)
        elif mark == "{":
            self.at += 1
            self._parameter(start, self.at, self.skip_to_closing("{"), quoted=quoted)
        elif mark == "(":
            self.at += 1
            inner = self.at
            body = self.text[inner : self.skip_to_closing("(")]
            self.add(Piece(self._arithmetic(body, start), quoted=quoted), start)
        elif mark == "'" and not quoted:
            self._ansi(start)
        elif mark and (mark.isdigit() or mark in "@*#?$!-"):
            self.at += 1
            self.add(Piece(None, quoted=quoted and mark not in "@*"), start)
        else:
            self.add(Piece("$", start, quoted=quoted), start)

    def _arithmetic(self, body: str, start: int) -> str | None:
        """What ``$((TOTAL / GPUS / 8))`` gives; None for a command, and for what is not known."""
        numbers: list[int] = []
        signs: list[str] = []
        at, end = 1, len(body) - 1
        while body[:1] == "(" and body[-1:] == ")" and (match := _TERM.match(body, at, end)):
            number = self._number(match[1], start) if match[1] else int(match[2])
            if number is None:
                return None
            if signs and signs[-1] in "*/%":
                made = _combined(numbers.pop(), signs.pop(), number)
                if made is None:
                    return None
                number = made
            numbers.append(number)
            if not match[3]:
                rest = zip(signs, numbers[1:], strict=True)
                return str(numbers[0] + sum(one if sign == "+" else -one for sign, one in rest))
            signs.append(match[3])
            at = match.end()
        return None

    def _number(self, name: str, start: int) -> int | None:
        value = self._variables.value(name, start)
        text = "".join(piece.text or "?" for piece in value[0]) if value else ""
        return int(text) if text.isdecimal() and text.isascii() and len(text) < 10 else None

    def _make_dollar(self, start: int, *, quoted: bool) -> bool:
        """What make expands, which leaves ``$$`` to the shell; whether that was all of it."""
        if self.text.startswith("$", self.at):
            self.at += 1
            return False
        if self.text.startswith(("(", "{"), self.at):
            opening = self.text[self.at]
            self.at += 1
            inner = self.at
            name = self.text[inner : self.skip_to_closing(opening)]
            self._expand(name if NAME.fullmatch(name) else "", start, quoted=quoted)
        else:
            self.at = min(self.at + 1, self.end)
            self.add(Piece(None, quoted=quoted), start)
        return True

    def _ansi(self, start: int) -> None:
        """``$'...'``."""
        self.at += 1
        body = _ANSI.match(self.text, self.at, self.end)
        assert body is not None
        plain = None if "\\" in body[0] else body[0]
        self.add(Piece(plain, self.at if plain else -1, quoted=True), start)
        self.at = min(body.end() + 1, self.end)

    def _parameter(self, start: int, inner: int, stop: int, *, quoted: bool) -> None:
        """``${...}``: a name, an array, or a name with a default."""
        body = self.text[inner:stop]
        array = _ARRAY.fullmatch(body)
        default = _DEFAULT.match(body)
        if NAME.fullmatch(body):
            self._expand(body, start, quoted=quoted)
        elif array is not None:
            elements = self._variables.value(array[1], start)
            self._expand_array(elements, start, quoted=quoted)
        elif default is not None and default[1] not in self._variables.values:
            self._default(default[1], inner + default.end(), stop, start, quoted=quoted)
        elif default is not None and not default[1].isdigit():
            self._expand(default[1], start, quoted=quoted)
        else:
            self.add(Piece(None, quoted=quoted), start)

    def _default(self, name: str, at: int, stop: int, start: int, *, quoted: bool) -> None:
        """``${NAME:-text}`` where nothing sets the name."""
        text = self.text[at:stop]
        if len(text) >= 2 and text[0] == text[-1] and text[0] in "\"'":
            text, at = text[1:-1], at + 1
        known = not any(mark in text for mark in "$`\\\"'")
        shared = self._variables.uses.count(name) > 1 and not name.isdigit()
        self._insert((Piece(text if known else None, at, shared),), start, quoted=quoted)

    def _expand(self, name: str, start: int, *, quoted: bool) -> None:
        value = self._variables.value(name, start)
        pieces = (Piece(None),) if value is None else (value[0] if value else ())
        self._insert(pieces, start, quoted=quoted)

    def _insert(self, pieces: tuple[Piece, ...], start: int, *, quoted: bool) -> None:
        """Put an expansion into the word; unquoted, its blanks end words."""
        self.add(Piece("", quoted=True) if quoted else None, start)
        for piece in pieces:
            if piece.text is None or quoted:
                self.add(piece._replace(quoted=quoted), start)
                continue
            end = 0
            for match in re.finditer(r"\S+", piece.text):
                if match.start() > end or (match.start() and not end):
                    self.finish(self.at)
                end = match.end()
                at = piece.start + match.start() if piece.start >= 0 else -1
                self.add(piece._replace(text=match[0], start=at), start)
            if end < len(piece.text):
                self.finish(self.at)

    def _expand_array(self, value: Elements | None, start: int, *, quoted: bool) -> None:
        if value is None:
            self.add(Piece(None), start)
            return
        for number, pieces in enumerate(value):
            if number:
                self.finish(self.at)
            for piece in pieces:
                one = piece.text is not None or (piece.quoted and quoted)
                self.add(piece._replace(quoted=one), start)


def _combined(left: int, sign: str, right: int) -> int | None:
    """A product, quotient or rest of two numbers; None where there is none, or a huge one."""
    if sign == "*":
        return left * right if left < _MOST else None
    if right == 0:
        return None
    return left // right if sign == "/" else left % right


def _joined(pieces: list[Piece]) -> tuple[Piece, ...]:
    """Pieces that are written next to each other as one; empty ones only where nothing else is."""
    joined: list[Piece] = []
    for piece in pieces:
        if piece.text == "" and (joined or len(pieces) > 1):
            if not joined:
                joined.append(piece)
            continue
        if joined and joined[-1].text == "":
            joined.pop()
        last = joined[-1] if joined else None
        if last is not None and _touch(last, piece):
            joined[-1] = last._replace(text=f"{last.text}{piece.text}")
        else:
            joined.append(piece)
    return tuple(joined)


def _touch(one: Piece, other: Piece) -> bool:
    """True if two pieces stand next to each other, and are read by the same."""
    return (
        one.text is not None
        and other.text is not None
        and one.start >= 0
        and one.start + len(one.text) == other.start
        and (one.shared, one.variables) == (other.shared, other.variables)
    )
