"""Colours and widths for terminals, without importing anything to get them."""

from __future__ import annotations

_CODES = {
    "bold": "1",
    "dim": "2",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "blue": "34",
    "cyan": "36",
}
LEVEL_COLOURS = {"error": "red", "waste": "yellow", "hint": "blue"}
_TAB = "    "


class Style:
    """Wraps text in escape sequences, or leaves it alone."""

    def __init__(self, enabled: bool) -> None:
        self._enabled = enabled

    def __call__(self, text: str, *names: str) -> str:
        if not self._enabled or not text:
            return text
        return f"\x1b[{';'.join(_CODES[name] for name in names)}m{text}\x1b[0m"


def printable(line: str) -> str:
    """``line`` with tabs as spaces and control characters (escape sequences too) made visible."""
    line = line.replace("\t", _TAB)
    if line.isprintable():
        return line
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in line)


def width(text: str) -> int:
    """The columns that ``text`` takes on a terminal."""
    text = printable(text)
    if text.isascii():
        return len(text)
    import unicodedata

    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1
        for char in text
    )
