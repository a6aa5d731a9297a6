"""For which versions each script is checked: as the user said, else as its project says.

Resolved per folder and only for files that are really checked, since it takes the tables and a
look at the project's lock files and environments.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from memlint.api import Api, Target
    from memlint.project.resolve import Resolver


class Targets:
    """Remembers what was resolved and the tables that were opened for it."""

    def __init__(self) -> None:
        self._resolver: Resolver | None = None
        self._found: dict[tuple[str, str], _Opened] = {}
        self._opened: dict[Target, _Opened] = {}

    def of(self, path: str, said: str = "") -> Target:
        """The versions for the script at ``path``; ``said``: the user's words, which go first.

        Raises ``ValueError`` if those cannot be understood.
        """
        return self._at(path, said).target

    def api(self, path: str, said: str = "") -> Api:
        """The tables of those versions."""
        opened = self._at(path, said)
        if opened.api is None:
            from memlint.api import Api

            opened.api = Api(opened.target)
        return opened.api

    def key(self, path: str, said: str = "") -> str:
        """What of the versions a result depends on, as text."""
        return self._at(path, said).key

    def _at(self, path: str, said: str) -> _Opened:
        place = ("", said) if said else (os.path.dirname(path), "")
        opened = self._found.get(place)
        if opened is None:
            target = self._resolve(*place)
            opened = self._opened.get(target)
            if opened is None:
                opened = self._opened[target] = _Opened(target)
            self._found[place] = opened
        return opened

    def _resolve(self, folder: str, said: str) -> Target:
        if said:
            from memlint.api import parse_target

            return parse_target(said)
        if self._resolver is None:
            from memlint.project.resolve import Resolver

            self._resolver = Resolver()
        return self._resolver.resolve(folder)


class _Opened:
    """A target, and its tables once they are asked."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.key = f"{target}{' assumed' if target.assumed else ''}"
        self.api: Api | None = None
