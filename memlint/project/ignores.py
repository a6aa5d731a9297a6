"""Patterns in the form of ``.gitignore``, matched fast enough to cost a walk nothing.

Nearly every pattern in practice is a plain name, a suffix (``*.pyc``) or a plain path: those are
looked up, and only the rest become regular expressions, compiled when first needed. ``exclude``
and ``per-file-ignores`` of the configuration use the same patterns.

Patterns come with somebody's repository, so matching never backtracks: ``*a*a*a*b`` takes time in
proportion to pattern and path (pathspec's expressions take exponential time on it). Between two
wildcards the leftmost match is as good as any other, so each is an atomic group.
"""

import re
from collections.abc import Iterable, Iterator

from memlint.source.patterns import lazy_pattern
from memlint.source.record import NamedTuple

_MAGIC = frozenset("*?[\\")
_STARS = lazy_pattern(r"\*+")


class _Pattern(NamedTuple):
    """``rank`` is the line: of all that match, the last decides. ``keep`` stands for ``!``."""

    rank: int
    keep: bool
    folders_only: bool


class Patterns:
    """The patterns of one file (or list), relative to the folder that it lies in."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._names: dict[str, list[_Pattern]] = {}
        self._paths: dict[str, list[_Pattern]] = {}
        self._suffixes: list[tuple[str, _Pattern]] = []
        self._globs: list[tuple[str, bool, _Pattern]] = []
        self._compiled: list[tuple[re.Pattern[str], bool, _Pattern]] | None = None
        for rank, line in enumerate(lines):
            self._add(rank, line)
        self._endings = tuple(suffix for suffix, _ in self._suffixes)

    def __bool__(self) -> bool:
        return bool(self._names or self._paths or self._suffixes or self._globs)

    def match(self, path: str, is_folder: bool) -> bool | None:
        """True if ``path`` (relative, with ``/``) is ignored; None if no pattern speaks of it.

        What lies in an ignored folder is ignored too, and is the caller's to skip.
        """
        name = path[path.rfind("/") + 1 :]
        best: _Pattern | None = None
        for pattern in self._names.get(name, ()):
            best = _later(best, pattern, is_folder)
        for pattern in self._paths.get(path, ()):
            best = _later(best, pattern, is_folder)
        if self._endings and name.endswith(self._endings):
            for suffix, pattern in self._suffixes:
                if name.endswith(suffix):
                    best = _later(best, pattern, is_folder)
        if self._globs:
            if self._compiled is None:
                self._compiled = [
                    (re.compile(_translate(glob), re.DOTALL), anchored, pattern)
                    for glob, anchored, pattern in self._globs
                ]
            for regex, anchored, pattern in self._compiled:
                if regex.fullmatch(path if anchored else name):
                    best = _later(best, pattern, is_folder)
        return None if best is None else not best.keep

    def ignores(self, path: str) -> bool:
        """True if the file ``path`` or a folder above it is ignored by these patterns alone."""
        parts = path.split("/")
        for end in range(1, len(parts) + 1):
            if self.match("/".join(parts[:end]), end < len(parts)):
                return True
        return False

    def _add(self, rank: int, line: str) -> None:
        text = _stripped(line)
        if not text or text.startswith("#"):
            return
        keep, text = text.startswith("!"), text.removeprefix("!")
        folders_only, text = text.endswith("/"), text.rstrip("/")
        anchored, text = "/" in text, text.removeprefix("/")
        if not text:
            return
        pattern = _Pattern(rank, keep, folders_only)
        anywhere = text.removeprefix("**/")
        if _MAGIC.isdisjoint(text):
            (self._paths if anchored else self._names).setdefault(text, []).append(pattern)
        elif not anchored and text[0] == "*" and _MAGIC.isdisjoint(text[1:]):
            self._suffixes.append((text[1:], pattern))
        elif anywhere != text and _MAGIC.isdisjoint(anywhere) and "/" not in anywhere:
            self._names.setdefault(anywhere, []).append(pattern)
        else:
            self._globs.append((text, anchored, pattern))


def _stripped(line: str) -> str:
    """Return a line without its end and the blanks before it, of which ``\\`` keeps one."""
    text = line.rstrip("\r\n")
    while text.endswith(" ") and not text.endswith("\\ "):
        text = text[:-1]
    return text


def _later(best: _Pattern | None, pattern: _Pattern, is_folder: bool) -> _Pattern | None:
    if pattern.folders_only and not is_folder:
        return best
    return pattern if best is None or pattern.rank > best.rank else best


_NOTHING = "(?!)"


def problem(pattern: str) -> str | None:
    """Say why ``pattern`` can match nothing; None if it can match."""
    return next((word for kind, word in _tokens(pattern) if kind == "broken"), None)


def _translate(glob: str) -> str:
    """Return the regular expression of a pattern with wildcards; ``*`` and ``?`` stop at ``/``."""
    groups: list[list[list[str]]] = [[[""]]]  # parts between ``**/``, their segments, their pieces
    rest = ""
    for kind, text in _tokens(glob):
        segments = groups[-1]
        if kind == "broken":
            return _NOTHING
        if kind == "deep":
            groups.append([[""]])
        elif kind == "rest":
            rest = ".+"
        elif kind == "slash":
            segments.append([""])
        elif kind == "star":
            segments[-1].append("")
        else:
            segments[-1][-1] += text
    bodies = ["/".join(map(_segment, segments)) for segments in groups]
    out = bodies[0]
    for body in bodies[1:-1]:
        out += f"(?>(?:[^/]++/)*?{body})" if body else ""
    if len(bodies) > 1:
        ending = rest or r"\Z"
        out += f"(?>(?:[^/]++/)*?{bodies[-1]}{ending})" if bodies[-1] else ".+"
    else:
        out += rest
    return out


def _segment(pieces: list[str]) -> str:
    """Return a part of a path between two ``/``: its pieces with anything between them."""
    if len(pieces) == 1:
        return pieces[0]
    first, *middle, last = pieces
    inner = "".join(f"(?>[^/]*?{piece})" for piece in middle if piece)
    # The last piece ends where the segment does.
    end = rf"(?>[^/]*?{last}(?=/|\Z))" if last else "[^/]*+"
    return first + inner + end


def _tokens(glob: str) -> Iterator[tuple[str, str]]:
    """Yield the tokens of a pattern: (kind, expression of one character or reason)."""
    index = 0
    while index < len(glob):
        kind, text, index = _token(glob, index)
        yield kind, text


def _token(glob: str, index: int) -> tuple[str, str, int]:
    """Return the token at ``index``: kind, expression or reason, and where it ends."""
    char = glob[index]
    if index == 0 or glob[index - 1] == "/":
        if glob.startswith("**/", index):
            return "deep", "", index + 3
        if index and index + 2 == len(glob) and glob.endswith("**"):
            return "rest", "", len(glob)
    if char == "*":
        stars = _STARS.match(glob, index)
        return "star", "", stars.end() if stars is not None else index + 1
    if char == "[":
        return _bracket(glob, index)
    if char == "\\" and index + 1 < len(glob):
        return "char", re.escape(glob[index + 1]), index + 2
    if char == "/":
        return "slash", "", index + 1
    return "char", "[^/]" if char == "?" else re.escape(char), index + 1


def _bracket(glob: str, index: int) -> tuple[str, str, int]:
    """Return the token of the bracket that opens at ``index``, and where it ends."""
    end = glob.find("]", index + 3 if glob[index + 1 : index + 2] in "!^" else index + 2)
    if end < 0:
        return "broken", "a bracket is not closed", len(glob)
    return *_characters(glob[index + 1 : end]), end + 1


def _characters(body: str) -> tuple[str, str]:
    """Return the token of ``[body]``."""
    negated = body[0] in "!^"
    chars = body[1:] if negated else body
    parts: list[str] = []
    index = 0
    while index < len(chars):
        if chars[index + 1 : index + 2] == "-" and index + 2 < len(chars):
            low, high = chars[index], chars[index + 2]
            if low > high:
                return "broken", f"the range {low}-{high} is reversed"
            parts.append(f"{re.escape(low)}-{re.escape(high)}")
            index += 3
        else:
            parts.append(re.escape(chars[index]))
            index += 1
    return "char", f"(?!/)[{'^' if negated else ''}{''.join(parts)}]"
