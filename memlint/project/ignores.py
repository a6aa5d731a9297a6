"""Patterns in the form of ``.gitignore``, matched fast enough to cost a walk nothing.

Nearly every pattern in practice is a plain name, a suffix (``*.pyc``) or a plain path: those are
looked up, and only the rest become regular expressions, compiled when first needed. ``exclude``
and ``per-file-ignores`` of the configuration use the same patterns.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

_MAGIC = frozenset("*?[\\")


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
        """Whether ``path`` (relative, with ``/``) is ignored; None if no pattern speaks of it.

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
        """Whether the file ``path`` or a folder above it is ignored by these patterns alone."""
        parts = path.split("/")
        for end in range(1, len(parts) + 1):
            if self.match("/".join(parts[:end]), end < len(parts)):
                return True
        return False

    def _add(self, rank: int, line: str) -> None:
        text = line.rstrip("\r\n")
        while text.endswith(" ") and not text.endswith("\\ "):
            text = text[:-1]
        if not text or text.startswith("#"):
            return
        keep = text.startswith("!")
        text = text[1:] if keep else text
        folders_only = text.endswith("/")
        text = text.rstrip("/") if folders_only else text
        anchored = "/" in text
        text = text.removeprefix("/")
        if not text:
            return
        pattern = _Pattern(rank, keep, folders_only)
        if _MAGIC.isdisjoint(text):
            (self._paths if anchored else self._names).setdefault(text, []).append(pattern)
        elif not anchored and text[0] == "*" and _MAGIC.isdisjoint(text[1:]):
            self._suffixes.append((text[1:], pattern))
        elif text.startswith("**/") and _MAGIC.isdisjoint(text[3:]) and "/" not in text[3:]:
            self._names.setdefault(text[3:], []).append(pattern)
        else:
            self._globs.append((text, anchored, pattern))


def _later(best: _Pattern | None, pattern: _Pattern, is_folder: bool) -> _Pattern | None:
    if pattern.folders_only and not is_folder:
        return best
    return pattern if best is None or pattern.rank > best.rank else best


def _translate(glob: str) -> str:
    """The regular expression of a pattern with wildcards; ``*`` and ``?`` stop at ``/``."""
    out: list[str] = []
    index = 0
    while index < len(glob):
        if glob.startswith("**/", index) and (index == 0 or glob[index - 1] == "/"):
            out.append("(?:.+/)?")
            index += 3
        elif glob[index:] == "**" and index and glob[index - 1] == "/":
            out.append(".+")
            index += 2
        elif glob[index] == "*":
            while index < len(glob) and glob[index] == "*":
                index += 1
            out.append("[^/]*")
        elif glob[index] == "?":
            out.append("[^/]")
            index += 1
        elif glob[index] == "[":
            end = glob.find("]", index + 3 if glob[index + 1 : index + 2] in "!^" else index + 2)
            if end < 0:
                return "(?!)"  # an unclosed bracket matches nothing, as in git
            body = glob[index + 1 : end].replace("\\", "\\\\").replace("[", "\\[")
            if body[0] in "!^":
                body = "^" + body[1:]
            out.append(f"(?!/)[{body}]")
            index = end + 1
        elif glob[index] == "\\" and index + 1 < len(glob):
            out.append(re.escape(glob[index + 1]))
            index += 2
        else:
            out.append(re.escape(glob[index]))
            index += 1
    return "".join(out)
