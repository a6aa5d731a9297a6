"""For which versions each script is checked: as the user said, else as its project says.

Resolved per folder and only for files that are really checked, since it takes the tables and a
look at the project's lock files and environments.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from memlint.api import Api, Target
    from memlint.api.resolve import Resolver


class Targets:
    """Remembers what was resolved and the tables that were opened for it."""

    def __init__(self) -> None:
        self._resolver: Resolver | None = None
        self._targets: dict[tuple[str, str], Target] = {}
        self._apis: dict[Target, Api] = {}

    def of(self, path: str, said: str = "") -> Target:
        """The versions for the script at ``path``; ``said``: the user's words, which go first.

        Raises ``ValueError`` if those cannot be understood.
        """
        key = ("", said) if said else (os.path.dirname(os.path.abspath(path)), "")
        target = self._targets.get(key)
        if target is None:
            if said:
                from memlint.api import parse_target

                target = parse_target(said)
            else:
                target = self._resolve(key[0])
            self._targets[key] = target
        return target

    def api(self, path: str, said: str = "") -> Api:
        """The tables of those versions."""
        target = self.of(path, said)
        api = self._apis.get(target)
        if api is None:
            from memlint.api import Api

            api = self._apis[target] = Api(target)
        return api

    def key(self, path: str, said: str = "") -> str:
        """What of the versions a result depends on, as text."""
        target = self.of(path, said)
        return f"{target}{' assumed' if target.assumed else ''}"

    def _resolve(self, folder: str) -> Target:
        if self._resolver is None:
            from memlint.api.resolve import Resolver

            self._resolver = Resolver()
        return self._resolver.resolve(folder)
