"""Colours and widths for terminals, without importing anything to get them."""

_CODES = {
    "bold": "1",
    "dim": "2",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "blue": "34",
    "cyan": "36",
}
LEVEL_COLOURS = {"error": "red", "waste": "yellow", "notice": "cyan", "hint": "blue"}
_TAB = "    "
# What services of continuous integration obey wherever it stands in a line.
_OBEYED = ("##[", "##vso[", "##teamcity[")
# Joiners: emoji and several scripts need them.
_KEPT = "\N{ZERO WIDTH JOINER}\N{ZERO WIDTH NON-JOINER}"


class Style:
    """Wraps text in escape sequences, or leaves it alone."""

    def __init__(self, enabled: bool) -> None:
        self._enabled = enabled

    def __call__(self, text: str, *names: str) -> str:
        if not self._enabled or not text:
            return text
        return f"\x1b[{';'.join(_CODES[name] for name in names)}m{text}\x1b[0m"


def printable(line: str) -> str:
    """Return ``line`` with tabs as spaces and control characters made visible."""
    return visible(line.replace("\t", _TAB))


def visible(text: str) -> str:
    """Return ``text`` on one line, with control characters made visible.

    Paths, versions, messages and source lines are chosen by whoever wrote the repository: an escape
    sequence would change the terminal, a newline could begin a line that a CI service obeys.
    What one obeys anywhere gets a space (``# #vso[``). C0 controls become their pictures (U+241B
    for escape); other invisible characters (C1, directions of writing) U+FFFD. Spaces, joiners and
    undecodable bytes of file names stay.
    """
    if "##" in text:
        for command in _OBEYED:
            text = text.replace(command, f"# {command[1:]}")
    return text if text.isprintable() else "".join(map(_visible, text))


def shown_path(path: str) -> str:
    """Return ``path`` as a line may start with it: visible, not blank, no command for CI."""
    text = visible(path) if path.strip() else repr(path)
    return f"./{text}" if text.lstrip().startswith("::") else text


def _visible(char: str) -> str:
    if char.isprintable() or char in _KEPT:
        return char
    code = ord(char)
    if code < 0x20:
        return chr(0x2400 + code)
    if code == 0x7F:
        return "\N{SYMBOL FOR DELETE}"
    import unicodedata

    # Lone surrogates stand for bytes; the output stream writes them as escapes.
    return char if unicodedata.category(char) in ("Zs", "Cs") else "\N{REPLACEMENT CHARACTER}"


def width(text: str) -> int:
    """Return the columns that ``text`` takes on a terminal."""
    text = printable(text)
    if text.isascii():
        return len(text)
    import unicodedata

    return sum(
        0
        if unicodedata.combining(char) or char in _KEPT
        else 2
        if unicodedata.east_asian_width(char) in "WF"
        else 1
        for char in text
    )
