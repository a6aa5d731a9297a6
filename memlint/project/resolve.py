"""Finds the versions that a script is meant for.

For each library by itself, the first that tells: its own source tree, where the script stands in
it; the file nearest to the script, going up to the root of its repository (in one folder: lock
files, requirement files, ``environment.yml``, ``pyproject.toml``, ``setup.cfg``, ``setup.py``); the
project's environment (``.venv`` or ``venv`` on the same way up, ``VIRTUAL_ENV``, ``CONDA_PREFIX``);
what is installed beside this program; and at last the newest release known, which is then said to
be assumed.

A pin decides. A range (``trl>=0.8``) means what the environment has, if the range admits it, else
the newest release that it admits. Cost: one listing a folder and the files that it reads; folders
are remembered by the ``Resolver``.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence

from memlint.api.tables import PACKAGES
from memlint.api.target import Resolved, Target, choose, placed
from memlint.api.versions import exact, parse_version, satisfies
from memlint.project.checkouts import own_version
from memlint.project.environments import installed, site_folders
from memlint.project.manifests import declared, manifests

_REPOSITORY = frozenset({".git", ".hg", ".jj", ".svn"})
_PROJECT = frozenset({"pyproject.toml", "setup.py", "setup.cfg"})
_ENVIRONMENTS = (".venv", "venv")


class Resolver:
    """Resolves the targets of many scripts.

    environ, path: the process's environment variables and import path, unless given.
    """

    def __init__(
        self, environ: Mapping[str, str] | None = None, path: Sequence[str] | None = None
    ) -> None:
        self._environ = os.environ if environ is None else environ
        self._path = sys.path if path is None else path
        self._targets: dict[str, Target] = {}
        self._listed: dict[str, frozenset[str]] = {}
        self._declared: dict[str, dict[str, tuple[str, str]]] = {}
        self._installed: dict[str, Mapping[str, str]] = {}

    def resolve(self, folder: str | os.PathLike[str]) -> Target:
        """The target of scripts in ``folder``."""
        start = os.path.abspath(folder)
        known = self._targets.get(start)
        if known is None:
            known = self._targets[start] = self._resolve(start)
        return known

    def _resolve(self, start: str) -> Target:
        way = self._way_up(start)
        found: dict[str, Resolved] = {}
        has = self._environment(way)
        own = self._own(way)
        for package in PACKAGES:
            resolved = own.get(package) or self._told(package, way, has)
            if resolved is None and package in has:
                version, where = has[package]
                resolved = placed(package, version, where)
            if resolved is not None:
                found[package] = resolved
        return Target.of(found)

    def _own(self, way: list[str]) -> Mapping[str, Resolved]:
        """The libraries whose own source trees the folders of ``way`` are."""
        found: dict[str, Resolved] = {}
        for folder in way:
            told = own_version(folder, self._names(folder))
            if told is not None and _readable(told[1]):
                package, version, source = told
                resolved = placed(package, version, source)
                note = resolved.note or f"this is {package} itself"
                found.setdefault(package, Resolved(version, source, note=note))
        return found

    def _told(
        self, package: str, way: list[str], has: Mapping[str, tuple[str, str]]
    ) -> Resolved | None:
        """What the nearest file that names a version of ``package`` means."""
        for folder in way:
            told = self._manifests(folder).get(package)
            if told is None:
                continue
            specifier, source = told
            if exact(specifier) is None and package in has:
                version, where = has[package]
                if satisfies(version, specifier):
                    resolved = placed(package, version, where)
                    note = resolved.note or f"admitted by {specifier} in {source}"
                    return Resolved(resolved.version, resolved.source, note=note)
            return choose(package, specifier, source)
        return None

    def _manifests(self, folder: str) -> dict[str, tuple[str, str]]:
        """Package -> specifier and file, of the manifests in ``folder``."""
        known = self._declared.get(folder)
        if known is None:
            known = {}
            for name in manifests(list(self._names(folder))):
                path = os.path.join(folder, name)
                for package, specifier in declared(path).items():
                    if _readable(specifier):
                        known.setdefault(package, (specifier, path))
            self._declared[folder] = known
        return known

    def _environment(self, way: list[str]) -> Mapping[str, tuple[str, str]]:
        """Package -> version and environment, of what is installed where the project runs."""
        places = [
            os.path.join(folder, name)
            for folder in way
            for name in _ENVIRONMENTS
            if name in self._names(folder)
        ]
        places.extend(
            self._environ[name]
            for name in ("VIRTUAL_ENV", "CONDA_PREFIX")
            if self._environ.get(name)
        )
        found: dict[str, tuple[str, str]] = {}
        for place in places:
            for package, version in self._in(place, site_folders(place)).items():
                found.setdefault(package, (version, place))
        for package, version in self._in("", [part for part in self._path if part]).items():
            found.setdefault(package, (version, "installed beside memlint"))
        return found

    def _in(self, place: str, folders: list[str]) -> Mapping[str, str]:
        if place not in self._installed:
            self._installed[place] = {
                package: version
                for package, version in installed(folders).items()
                if _readable(version)
            }
        return self._installed[place]

    def _way_up(self, start: str) -> list[str]:
        """Folders from ``start`` to the root of the repository; without one, to that of the
        project; without that, ``start`` alone, so that no stranger's file decides."""
        folders = [start]
        while (parent := os.path.dirname(folders[-1])) != folders[-1]:
            folders.append(parent)
        for markers in (_REPOSITORY, _PROJECT):
            for position, folder in enumerate(folders):
                if markers & self._names(folder):
                    return folders[: position + 1]
        return [start]

    def _names(self, folder: str) -> frozenset[str]:
        if folder not in self._listed:
            try:
                self._listed[folder] = frozenset(os.listdir(folder))
            except OSError:
                self._listed[folder] = frozenset()
        return self._listed[folder]


def _readable(text: str) -> bool:
    """Whether a version can be told from ``text``."""
    version = exact(text) or text.lstrip("=<>~!^ ").split(",")[0].strip()
    try:
        parse_version(version)
    except ValueError:
        return False
    return True
