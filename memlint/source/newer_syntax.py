"""Newer Python written as older Python reads it, each character at its place.

What runs memlint may be older than what runs the script. Python 3.12 lets an f-string hold its own
quotes and backslashes (PEP 701), functions and classes have type parameters, and types aliases
(PEP 695). Here other quotes stand for the first, a name for a string that no quotes are left for,
and blanks for the rest; nothing else moves.
"""

import re

from memlint.source.patterns import lazy_pattern

_STRING = r"(?P<prefix>(?<!\w)[A-Za-z]{1,2}+|)(?P<quote>\"\"\"|'''|\"|')"
_IN_FIELD = lazy_pattern(_STRING)
_IN_CODE = lazy_pattern(
    rf"""\#[^\n]*+|{_STRING}
    |^[ \t]*+(?:(?:async[ \t]++)?+def|class)[ \t]++\w++(?P<parameters>\[)
    |^[ \t]*+type(?P<alias>[ ])[^\W\d]\w*+[ \t]*+(?=[=\[])""",
    re.VERBOSE | re.MULTILINE,
)
# What matters within quotes: of one line, and of several.
_SIGNS = {1: lazy_pattern(r"[\\{\n\"']"), 3: lazy_pattern(r"[\\{\"']")}
_OTHER = {'"': "'", "'": '"', '"""': "'''", "'''": '"""'}
_CLOSING = {"(": ")", "[": "]", "{": "}"}
# Fields in the format of another's, and brackets: deeper is no code that people write.
_DEEPEST = 20
_LONGEST = 1 << 19


def as_older(text: str) -> str:
    """Return ``text`` in older syntax: as long, with all that stays at the same places; as it is
    where that cannot be, nothing is newer, or it is longer than people write."""
    if len(text) > _LONGEST:
        return text
    older = _Older(text)
    try:
        older.code()
    except (IndexError, ValueError):  # it ends too early, or cannot be written
        return text
    return "".join(older.out)


class _Older:
    def __init__(self, text: str) -> None:
        self._text = text
        self.out = list(text)

    def code(self) -> None:
        at = 0
        while found := _IN_CODE.search(self._text, at):
            at = found.end()
            if found["quote"]:
                at = self._string(found, ())
            elif found["parameters"]:
                at = self._blank(found.start("parameters"), self._closed(at))
            elif found["alias"]:  # ``type Words = list``: ``type=Words = list``
                self.out[found.start("alias")] = "="
                if self._text[at] == "[":
                    at = self._blank(at, self._closed(at + 1))

    def _closed(self, at: int, depth: int = 0) -> int:
        """Where brackets that are open at ``at`` are closed."""
        if depth > _DEEPEST:
            raise ValueError
        while self._text[at] != "]":
            at = self._closed(at + 1, depth + 1) if self._text[at] == "[" else at + 1
        return at + 1

    def _blank(self, start: int, end: int) -> int:
        if not self._text[start:end].isascii():  # places in a line are counted in bytes
            raise ValueError
        self.out[start:end] = [one if one in "\r\n" else " " for one in self._text[start:end]]
        return end

    def _string(self, found: re.Match[str], around: tuple[str, ...], depth: int = 0) -> int:
        """Write a string within f-strings that are quoted so; returns where it ends."""
        quote, start = found["quote"], found.end()
        has_fields = "f" in found["prefix"].lower()
        written = quote if _may_stand(quote, around) else _OTHER[quote]
        inner = (*around, written) if has_fields else ()
        at = self._content(start, quote, inner, bool(around), depth)
        end = at + len(quote)
        is_lost = not _may_stand(written, around)
        is_lost |= written != quote and written[0] in self.out[start:at]
        self.out[start - len(quote) : start] = self.out[at:end] = written
        if is_lost and has_fields:
            raise ValueError
        if is_lost:
            self._blank(found.start(), end)
            self.out[found.start()] = "_"
        return end

    def _content(
        self, at: int, quote: str, inner: tuple[str, ...], is_within: bool, depth: int
    ) -> int:
        """Write what stands between quotes; returns where that ends. inner: the quotes around its
        fields; is_within: it stands in a field itself."""
        while (found := _SIGNS[len(quote)].search(self._text, at)) is not None:
            at, sign = found.start(), found[0]
            if self._text.startswith(quote, at):
                return at
            if sign == "\n":
                raise ValueError
            if sign == "\\":
                step = 1 if inner and self._text[at + 1] in "{}" else 2
                at = self._blank(at, at + step) if is_within else at + step
            elif sign == "{" and inner and self._text[at + 1] != "{":
                at = self._field(at + 1, inner, depth)
            else:
                at += 2 if self._text.startswith("{{", at) else 1
        raise ValueError

    def _field(self, at: int, around: tuple[str, ...], depth: int) -> int:
        """Write what stands between braces; returns where that ends."""
        brackets: list[str] = []
        if depth > _DEEPEST:
            raise ValueError
        while brackets or self._text[at] != "}":
            sign = self._text[at]
            if (found := _IN_FIELD.match(self._text, at)) is not None:
                at = self._string(found, around, depth + 1)
                continue
            if sign == ":" and not brackets:
                at = self._format(at + 1, around, depth + 1)
                break
            if sign in "#\\" or (sign == "\n" and len(around[-1]) == 1):
                raise ValueError
            if sign in _CLOSING:
                brackets.append(_CLOSING[sign])
            elif brackets and sign == brackets[-1]:
                brackets.pop()
            at += 1
        return at + 1

    def _format(self, at: int, around: tuple[str, ...], depth: int) -> int:
        while self._text[at] != "}":
            if self._text[at] in "\\\n" or self._text.startswith(around[-1], at):
                raise ValueError
            at = self._field(at + 1, around, depth) if self._text[at] == "{" else at + 1
        return at


def _may_stand(quote: str, around: tuple[str, ...]) -> bool:
    """True if older Python reads a string of these quotes in f-strings of the others."""
    return all(quote != other and (len(other) == 3 or quote[0] != other) for other in around)
