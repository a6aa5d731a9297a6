"""Who reads a variable of a script: what its value may be changed for.

Counted in the text, by words: a name within a string or a comment may count as well. A read is
followed where the command, or the variable, that it goes into is known.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict

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
