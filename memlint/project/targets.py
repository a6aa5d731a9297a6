"""For which versions each script is checked: as the user said, else as its project says."""

from __future__ import annotations

import os
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from memlint.api.lookup import Api
    from memlint.api.target_versions import Target
    from memlint.project.resolve import Resolver
    from memlint.source import Source


class Targets:
    """Remembers what was resolved and the tables that were opened for it.

    ``path`` is a script's; ``said`` the user's words on versions, which go first; ``source`` the
    script, whose own pins go before its project's. said_by: who said it, in ``memlint target``.
    """

    def __init__(self, said_by: str = "--target") -> None:
        self._said_by = said_by
        self._resolver: Resolver | None = None
        self._found: dict[tuple[str, str, tuple[tuple[str, str], ...]], _Opened] = {}
        self._opened: dict[Target, _Opened] = {}

    def of(self, path: str, said: str = "", source: Source | None = None) -> Target:
        """Return the versions for the script at ``path``.

        Raises ``ValueError`` if ``said`` cannot be understood.
        """
        return self._at(path, said, source).target

    def api(self, path: str, said: str = "", source: Source | None = None) -> Api:
        """Return the tables of those versions."""
        return self._at(path, said, source).api

    def tables(self, said: str) -> Callable[[str, Source | None], Api]:
        """Return what finds the tables for a script by its path, however that is written."""
        return lambda path, source: self.api(os.path.abspath(path), said, source)

    def others(
        self, path: str, said: str, source: Source, libraries: frozenset[str]
    ) -> Iterator[Api]:
        """Yield the tables of all other versions of ``libraries`` that may be meant: none if the
        user named any or none is assumed. Those least like today's come first."""
        target = self.of(path, said, source)
        targets = dict.fromkeys(target.alternatives(libraries))
        for other in _coarse_to_fine(list(targets)):
            if other.versions != target.versions:
                yield self.opened(other)

    def opened(self, target: Target) -> Api:
        """Return the tables of a target."""
        return self._open(target).api

    def key(self, path: str, said: str = "") -> str:
        """Return the versions that a result depends on, as text, without the script's own pins."""
        from memlint.api.tables import PROGRAMS

        releases = [f"{name} {self.release(path, name)}" for name in PROGRAMS]
        return " ".join((self._at(path, said, None).key, *releases))

    def release(self, path: str, program: str) -> str | None:
        """Return a recipe program's release, for the recipe at ``path``; None if it is open."""
        return self._projects.release(os.path.dirname(path), program)

    def _at(self, path: str, said: str, source: Source | None) -> _Opened:
        own: tuple[tuple[str, str], ...] = ()
        if source is not None and not said and may_pin(source):
            from memlint.project.own_pins import own_pins

            own = tuple(sorted(own_pins(source).items()))
        place = ("", said, ()) if said else (os.path.dirname(path), "", own)
        opened = self._found.get(place)
        if opened is None:
            opened = self._found[place] = self._open(self._resolve(*place))
        return opened

    def _open(self, target: Target) -> _Opened:
        opened = self._opened.get(target)
        if opened is None:
            opened = self._opened[target] = _Opened(target)
        return opened

    def _resolve(self, folder: str, said: str, own: tuple[tuple[str, str], ...]) -> Target:
        if said:
            from memlint.api.target_versions import parse_target

            return parse_target(said, self._said_by)
        return self._projects.resolve(folder, dict(own))

    @property
    def _projects(self) -> Resolver:
        if self._resolver is None:
            from memlint.project.resolve import Resolver

            self._resolver = Resolver()
        return self._resolver


class _Opened:
    """A target, and its tables once they are wanted."""

    def __init__(self, target: Target) -> None:
        self.target = target
        tables = [each.tables for _, each in target.versions if each.tables]
        assumed = " assumed" if target.assumed else ""
        tables += [f"and {each}" for each in target.others]
        tables += [f"open {each}" for each in target.open]
        self.key = f"{target}{assumed}{''.join(f' {each}' for each in tables)}"

    @cached_property
    def api(self) -> Api:
        from memlint.api.lookup import Api

        return Api(self.target)


def may_pin(source: Source) -> bool:
    """True if the script itself may name versions; nearly all do not."""
    if b"/// script" in source.data or (source.is_notebook and b"install" in source.raw):
        return True
    words = (b"subprocess", b"os.system", b"# MAGIC ", b"get_ipython")
    return b"install" in source.data and (
        source.masked != "" or any(word in source.data for word in words)
    )


def named_in(source: Source) -> frozenset[str]:
    """Return the libraries that a script's text names, and transformers beside trl."""
    from memlint.api.tables import PACKAGES

    found = {name for name in PACKAGES if name.encode() in source.data}
    return frozenset(found | {"transformers"} if "trl" in found else found)


def _coarse_to_fine(targets: list[Target]) -> list[Target]:
    """Return the first, the last, then what lies between, each time in the middle of a gap."""
    order = [0, len(targets) - 1] if len(targets) > 1 else list(range(len(targets)))
    gaps = [(0, len(targets) - 1)]
    for low, high in gaps:
        middle = (low + high) // 2
        if middle > low:
            order.append(middle)
            gaps += [(low, middle), (middle, high)]
    return [targets[number] for number in order]
