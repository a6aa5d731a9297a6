"""Finds the versions that a script is meant for.

For each library by itself, the first that says it:

1. the script's own pins (see ``own_pins``);
2. the library's own source tree, where the script stands in it;
3. the file nearest to the script, going up to the root of its repository, or without one to the
   working folder (in one folder: lock files, requirement files, ``environment.yml``,
   ``pyproject.toml``, ``setup.cfg``, ``setup.py``, Dockerfiles, shell scripts that agree);
4. the user's environment: ``.venv`` or ``venv`` on the same way up, ``VIRTUAL_ENV``,
   ``CONDA_PREFIX``, what is installed beside this program, the ``python`` on ``PATH``. Environments
   of hooks are not the user's, and one without trl, transformers and torch says nothing;
5. the newest release known, which is then reported as assumed.

A pin decides. A range (``trl>=0.8``) means what the environment has, if the range admits it, else
the newest release that it admits. A commit may be of any release: only an environment with a
version in development says which. Cost: one listing a folder and the files that it reads; folders
are remembered by the ``Resolver``.
"""

import os
import sys
from collections.abc import Mapping, Sequence

from memlint.api.tables import PACKAGES
from memlint.api.target_versions import Resolved, Target, choose, is_newer, placed
from memlint.api.versions import FINAL, exact, is_version, parse_version, satisfies
from memlint.project.checkouts import own_version
from memlint.project.environments import (
    active_environments,
    distributions,
    environments_on_path,
    is_hook,
    site_folders,
)
from memlint.project.manifests import REQUIREMENTS, SHELL, declared, manifests
from memlint.project.requirements import COMMIT
from memlint.source.kept import kept
from memlint.source.record import NamedTuple

_REPOSITORY = frozenset({".git", ".hg", ".jj", ".svn"})
_PROJECT = frozenset({"pyproject.toml", "setup.py", "setup.cfg"})
_ENVIRONMENTS = (".venv", "venv")


class _Installed(NamedTuple):
    """A library in an environment: its version, where the environment is, its metadata folder."""

    version: str
    place: str
    metadata: str


Pins = Mapping[str, str]
"""Package -> specifier."""


class Resolver:
    """Resolves the targets of many scripts.

    environ, path: the process's environment variables and import path, unless given.
    """

    def __init__(
        self, environ: Mapping[str, str] | None = None, path: Sequence[str] | None = None
    ) -> None:
        self._environ = os.environ if environ is None else environ
        self._path = sys.path if path is None else path
        self._targets: dict[tuple[str, tuple[tuple[str, str], ...]], Target] = {}
        # Libraries and files against whose pins another file of the folder speaks.
        self._disputed: set[tuple[str, str]] = set()

    def resolve(self, folder: str | os.PathLike[str], own: Pins | None = None) -> Target:
        """Return the target of scripts in ``folder``; ``own``: the pins of the script itself."""
        start = os.path.abspath(folder)
        key = start, tuple(sorted((own or {}).items()))
        known = self._targets.get(key)
        if known is None:
            known = self._targets[key] = self._resolve(start, own or {})
        return known

    @kept
    def release(self, folder: str | os.PathLike[str], program: str) -> str | None:
        """Return a recipe program's release for the recipes in ``folder``; None if it is open."""
        folders = self._way_up(os.path.abspath(folder))
        installed = self._environment(folders).get(program)
        declared = self._nearest(program, folders)
        if declared is None or declared[0].startswith(COMMIT):
            return installed.version if installed is not None else None
        if installed is not None and satisfies(installed.version, declared[0]):
            return installed.version
        return choose(program, *declared).version

    def _resolve(self, start: str, own: Pins) -> Target:
        folders = self._way_up(start)
        found: dict[str, Resolved] = {}
        commits: dict[str, str] = {}
        environment = self._environment(folders)
        checkouts = self._checkouts(folders)
        for package in PACKAGES:
            declared = self._nearest(package, folders)
            if package in own:
                declared = own[package], "the script itself"
            elif package in checkouts:
                found[package] = checkouts[package]
                continue
            is_commit = declared is not None and declared[0].startswith(COMMIT)
            installed = environment.get(package)
            if declared is not None and not is_commit:
                resolved = self._meant(package, *declared, environment)
                is_open = (package, declared[1]) in self._disputed
                found[package] = resolved._replace(is_open=is_open)
            elif installed is not None and not (is_commit and _is_released(installed)):
                found[package] = self._placed(package, installed)
            elif declared is not None:
                commits[package] = f"{declared[1]} names a commit"
        target = Target.of(found).with_commits(commits)
        return _without_environment(target) if is_hook(self._environ) else target

    def _checkouts(self, folders: list[str]) -> Mapping[str, Resolved]:
        """Return the libraries whose own source trees the ``folders`` are."""
        found: dict[str, Resolved] = {}
        for folder in folders:
            own = own_version(folder, self._names(folder))
            if own is not None and is_version(own[1]):
                package, version, source = own
                resolved = placed(package, version, source)
                if is_newer(package, version) and package not in found:
                    from memlint.api.installed import tables_of_source

                    tables = tables_of_source(package, version, folder)
                    resolved = _read_from(resolved, tables)
                note = "; ".join(filter(None, (f"this is {package} itself", resolved.note)))
                found.setdefault(package, resolved._replace(note=note))
        return found

    def _nearest(self, package: str, folders: list[str]) -> tuple[str, str] | None:
        """Specifier and file of the nearest file that names a version of ``package``."""
        for folder in folders:
            declared = self._manifests(folder).get(package)
            if declared is not None:
                return declared
        return None

    def _meant(
        self, package: str, specifier: str, source: str, environment: Mapping[str, _Installed]
    ) -> Resolved:
        """Return the version that ``specifier`` means where ``environment`` is installed."""
        installed = environment.get(package)
        pinned = exact(specifier)
        if installed is not None and pinned is None and satisfies(installed.version, specifier):
            resolved = self._placed(package, installed)
            note = f"admitted by {specifier} in {source}"
            return resolved._replace(note="; ".join(filter(None, (note, resolved.note))))
        if (
            installed is not None
            and pinned is not None
            and is_newer(package, pinned)
            and satisfies(installed.version, f"=={pinned}")
        ):
            return self._placed(package, installed)._replace(source=source)
        return choose(package, specifier, source)

    @kept
    def _placed(self, package: str, installed: _Installed) -> Resolved:
        """Return the installed version, read from its own files if it is newer than the tables."""
        if not is_newer(package, installed.version):
            return placed(package, installed.version, installed.place)
        from memlint.api.installed import tables_of

        found = placed(package, installed.version, installed.place)
        return _read_from(found, tables_of(package, installed.version, installed.metadata))

    @kept
    def _manifests(self, folder: str) -> dict[str, tuple[str, str]]:
        """Package -> specifier and file, of the manifests in ``folder``."""
        found: dict[str, tuple[str, str]] = {}
        names = list(self._names(folder))
        for inner in {REQUIREMENTS, "docs", "config", "configs"}.intersection(names):
            paths = (f"{inner}/{name}" for name in self._names(os.path.join(folder, inner)))
            names += [one for one in paths if REQUIREMENTS in one]
        shells: dict[str, dict[str, str]] = {}
        for name in manifests(names):
            path = os.path.join(folder, name)
            for package, specifier in declared(path).items():
                if name.endswith(SHELL):
                    shells.setdefault(package, {})[specifier] = path
                else:
                    found.setdefault(package, (specifier, path))
        for package, said in shells.items():
            if len(said) == 1:  # else they install for different purposes
                found.setdefault(package, next(iter(said.items())))
        trl = found.get("trl")
        if trl is not None and exact(trl[0]):  # what it runs with stands beside it
            beside = declared(trl[1]).items()
            for name, pin in beside:
                version = exact(pin)
                if version is not None:
                    if not satisfies(version, found[name][0]):
                        self._disputed.add((name, trl[1]))
                    found[name] = pin, trl[1]
        return found

    def _environment(self, folders: list[str]) -> Mapping[str, _Installed]:
        """Return what is installed in the project's environment."""
        places = [
            os.path.join(folder, name)
            for folder in folders
            for name in _ENVIRONMENTS
            if name in self._names(folder)
        ]
        places += active_environments(self._environ)
        found: dict[str, _Installed] = {}
        for place in (*places, "", *environments_on_path(self._environ)):
            for package, installed in self._in(place).items():
                found.setdefault(package, installed)
        return found

    @kept
    def _in(self, place: str) -> Mapping[str, _Installed]:
        """Return what is installed in ``place``; if it is empty, what memlint can import."""
        folders = site_folders(place) if place else [part for part in self._path if part]
        shown = place or "installed beside memlint"
        return {
            package: _Installed(version, shown, metadata)
            for package, (version, metadata) in distributions(folders).items()
        }

    def _way_up(self, start: str) -> list[str]:
        """Folders from ``start`` to the root of the repository; without one, to that of the
        project; without that, to the working folder, or from elsewhere to the nearest that names
        what it requires; above that a stranger's file would decide."""
        folders = [start]
        while (parent := os.path.dirname(folders[-1])) != folders[-1]:
            folders.append(parent)
        for markers in (_REPOSITORY, _PROJECT):
            for position, folder in enumerate(folders):
                if markers & self._names(folder):
                    return folders[: position + 1]
        here, home = os.path.abspath(os.curdir), os.path.expanduser("~")
        if here not in folders:
            inside = (each for each in folders if "requirements.txt" in self._names(each))
            here = next(inside, start)
        return folders[: folders.index(here) + 1] if here != home else [start]

    @kept
    def _names(self, folder: str) -> frozenset[str]:
        try:
            return frozenset(os.listdir(folder))
        except OSError:
            return frozenset()


def _is_released(installed: _Installed) -> bool:
    return parse_version(installed.version).stage == FINAL


def _read_from(resolved: Resolved, tables: str | None) -> Resolved:
    """Return ``resolved``, which is newer than the shipped tables, with those of its own files."""
    if tables is None:
        return resolved._replace(note=f"{resolved.note}, since its files could not be read")
    note = "newer than the tables: read from its installed files"
    return resolved._replace(note=note, tables=tables)


def _without_environment(target: Target) -> Target:
    """Return ``target`` of a hook, with a note that no environment was found on what is assumed."""
    return Target(
        tuple(
            (name, each._replace(note="no environment but the hook's has it"))
            if each.assumed
            else (name, each)
            for name, each in target.versions
        ),
        target.named,
    )
