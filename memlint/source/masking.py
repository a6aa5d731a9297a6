"""What IPython adds to Python, masked line for line and given back.

``%pip install x``, ``!nvidia-smi``, ``model?`` and ``files = !ls`` do not parse. Each such line
becomes one that does, at the same indentation, with the original in a comment behind it; an
assigned magic becomes the result of a call that nobody knows, so that its value stays unknown.
Strings, brackets and continued lines are followed: a line within them is never a magic.
"""

import re
from collections.abc import Iterator

from memlint.source.parsing import parse_python
from memlint.source.patterns import lazy_pattern
from memlint.source.record import NamedTuple

# Cell magics whose body is Python that runs in the notebook's own namespace.
_PYTHON_CELL_MAGICS = frozenset(
    {"capture", "debug", "heat", "lprun", "memit", "mprun", "prun", "time", "timeit", "wandb"}
)
# Those whose body a shell gets.
_SHELL_CELL_MAGICS = frozenset({"bash", "sh", "shell", "script"})
# A cell of one line is a magic without its sign too: IPython's automagic.
_AUTOMAGIC = lazy_pattern(
    r"\s*+(?:pip|conda|mamba|uv|cd|ls|cat|cp|mv|rm|mkdir|time|env|load_ext|matplotlib|config)"
    r"[ \t]++[^=\n][^\n]*+\s*+"
)
_CELL_MAGIC = lazy_pattern(r"\s*%%\s*(\w+)")
_FIRST_MAGIC = lazy_pattern(r"(?m)^[ \t]{0,40}[!%]")
_LINE_MAGIC = lazy_pattern(r"[%!]|\?{1,2}\w")
# The target is all up to the first ``=``: no character is tried twice.
_ASSIGNED = lazy_pattern(r"(?P<target>[A-Za-z_][\w\s,.\[\]'\"]*+)=\s*+(?:!|%[A-Za-z])")
_HELP = lazy_pattern(r"[%\w.*]++\?{1,2}+\s*+$")
_TO_DOUBLE = lazy_pattern(r"(?s)(?:\\.|[^\\])*?\"\"\"")
_TO_SINGLE = lazy_pattern(r"(?s)(?:\\.|[^\\])*?'''")
_LINES = lazy_pattern(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
# One lexeme of a line that matters for whether the next line begins a statement.
_LEXEME = lazy_pattern(
    r"""(?P<comment>\#[^\r\n]*)
    |(?P<long>[A-Za-z]{0,2}(?:\"\"\"|'''))
    |(?P<short>\"(?:\\.|[^\"\\\r\n])*\"?|'(?:\\.|[^'\\\r\n])*'?)
    |(?P<open>[(\[{])
    |(?P<close>[)\]}])
    |(?P<continued>\\(?:\r\n|\r|\n))""",
    re.VERBOSE,
)


class Masks(NamedTuple):
    """``word`` occurs nowhere else in the notebook's code."""

    word: str

    @property
    def head(self) -> str:
        return f"# {self.word}: "

    @property
    def rest(self) -> str:
        """Behind this the line is kept with its own indentation: it goes on the one above."""
        return f"# {self.word}| "


def mask(text: str, masks: Masks) -> str | None:
    """Return ``text`` with its magics masked; None if the cell is in another language."""
    lines: list[str] = _LINES.findall(text)
    out: list[str] = []
    state = _State()
    index = 0
    first = next((i for i, line in enumerate(lines) if line.strip()), None)
    while index < len(lines):
        line = lines[index]
        cell_magic = _CELL_MAGIC.match(line) if index == first else None
        if cell_magic is not None and cell_magic[1] not in _PYTHON_CELL_MAGICS:
            return _whole(lines, masks) if cell_magic[1] in _SHELL_CELL_MAGICS else None
        replacement = _replacement(line.strip()) if state.at_statement else None
        if cell_magic is not None:
            replacement = "pass"
        if replacement is None:
            out.append(line)
            state.read(line)
            index += 1
            continue
        indent = _indent(line)
        if state.block is not None and len(indent) > len(state.block):
            # IPython takes a magic at any indentation, Python no statement: keep the line whole.
            indent = state.block
            out.append(f"{indent}{replacement}  {masks.rest}{line}")
        else:
            out.append(f"{indent}{replacement}  {masks.head}{line[len(indent) :]}")
        index += 1
        while line.rstrip("\r\n").endswith("\\") and index < len(lines):
            line = lines[index]
            out.append(f"{indent}pass  {masks.rest}{line}")
            index += 1
    return "".join(out)


def mask_alone(text: str, masks: Masks) -> str:
    """Return a cell of one line that is a magic without its sign, masked; all else as it is."""
    if _AUTOMAGIC.fullmatch(text) is None:
        return text
    line = text.rfind("\n", 0, len(text) - len(text.lstrip())) + 1
    return f"{text[:line]}pass  {masks.rest}{text[line:]}"


def _whole(lines: list[str], masks: Masks) -> str:
    return "".join(f"pass  {masks.rest}{line}" for line in lines)


def unmask(text: str, masks: Masks) -> str:
    """Return the inverse of ``mask``; a masked line follows the indentation that it has now."""
    if masks.word not in text:
        return text
    out = []
    for line in _LINES.findall(text):
        for marker in (masks.head, masks.rest):
            before, found, original = line.partition(marker)
            if found:
                indent = before[: len(before) - len(before.lstrip())]
                line = (indent if marker == masks.head else "") + original
                break
        out.append(line)
    return "".join(out)


def mask_script(text: str) -> tuple[str, str]:
    """Return the script exported from a notebook with its magics masked, and the mark of these;
    the text itself, and no word, where it parses, or does not parse even so."""
    if not _FIRST_MAGIC.search(text) or _parses(text):
        return text, ""
    word = "memlint-magic"
    while word in text:
        word += "-"
    masked = mask(text, Masks(word))
    return (masked, word) if masked is not None and _parses(masked) else (text, "")


def _parses(text: str) -> bool:
    try:
        parse_python(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def magics(text: str, masks: Masks) -> Iterator[tuple[str, int]]:
    """Yield the lines that are masked in ``text`` as they were, each with its offset there."""
    at = 0
    for line in _LINES.findall(text):
        for marker in (masks.head, masks.rest):
            start = line.find(marker)
            if start >= 0:
                yield line[start + len(marker) :], at + start + len(marker)
                break
        at += len(line)


def _replacement(code: str) -> str | None:
    """Return the replacement of a stripped line that is a magic; None for Python."""
    if _LINE_MAGIC.match(code) or _HELP.fullmatch(code):
        return "pass"
    assigned = _ASSIGNED.match(code)
    return f"{assigned['target'].rstrip()} = _magic()" if assigned else None


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip(" \t\f"))]


class _State:
    """True if the next line begins a statement: not within brackets, a string, a continuation.

    block: the indentation of the block that it belongs to; None if it may begin a deeper one.
    """

    block: str | None = ""

    def __init__(self) -> None:
        self._depth = 0
        self._quote = ""
        self._continued = False

    @property
    def at_statement(self) -> bool:
        return not (self._depth > 0 or self._quote or self._continued)

    def read(self, line: str) -> None:
        code = line.partition("#")[0].rstrip()
        if code.endswith(":"):
            self.block = None
        elif code and self.at_statement:
            self.block = _indent(line)
        self._scan(line)

    def _scan(self, line: str) -> None:
        position = 0
        self._continued = False
        while position < len(line):
            if self._quote:
                double = self._quote[0] == '"'
                end = (_TO_DOUBLE.match if double else _TO_SINGLE.match)(line, position)
                if end is None:
                    return
                self._quote, position = "", end.end()
                continue
            found = _LEXEME.search(line, position)
            if found is None:
                return
            position = found.end()
            if found["long"]:
                self._quote = found["long"][-3:]
            elif found["open"]:
                self._depth += 1
            elif found["close"]:
                self._depth = max(0, self._depth - 1)
            elif found["continued"]:
                self._continued = True
