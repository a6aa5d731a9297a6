"""Versions that are installed in an environment, read off the names of its metadata folders.

Nothing of the environment is run: a folder ``trl-0.12.2.dist-info`` says all. A name that is not
strictly a version is passed over: these names are printed.

Which environment is the user's is another question. A hook of pre-commit runs in an environment of
its own, to which ``VIRTUAL_ENV`` and the head of ``PATH`` then point.
"""

import os
import re
import sys
from collections.abc import Iterable, Mapping

from memlint.api.tables import NAMED
from memlint.api.versions import is_version

_METADATA = (
    rf"(?i)(?P<name>{'|'.join(NAMED)})-(?P<version>\d[^-]*?)(?:-py[\d.]+)?\.(?:dist|egg)-info"
)
_PYTHONS = ("python", "python3", "python.exe")
# Hooks live in ``~/.cache/pre-commit/repo1x2y3z/py_env-python3.11``.
_HOOK_NAMES = ("py_env-", "python-")
# Without one of these an environment is no training environment and says nothing.
_EVIDENCE = frozenset({"trl", "transformers", "torch"})
# Few of an environment's folders are worth a look with the pattern.
_BEGINNINGS = tuple(f"{name}-" for name in NAMED)


def installed(folders: Iterable[str | os.PathLike[str]]) -> Mapping[str, str]:
    """Package -> version, of the distributions in ``folders`` (``site-packages``)."""
    return {package: version for package, (version, _) in distributions(folders).items()}


def distributions(folders: Iterable[str | os.PathLike[str]]) -> Mapping[str, tuple[str, str]]:
    """Package -> version and metadata folder, of the distributions in ``folders``; the first folder
    that has one decides. Empty where none of trl, transformers and torch is among them."""
    found: dict[str, tuple[str, str]] = {}
    for folder in folders:
        here: dict[str, tuple[str, str]] = {}
        try:
            names = os.listdir(folder)
        except OSError:
            continue
        for name in names:
            if name.endswith("-info") and name.lower().startswith(_BEGINNINGS):
                match = re.fullmatch(_METADATA, name)
                if match is not None and is_version(match["version"]):
                    metadata = os.path.join(folder, name)
                    here[match["name"].lower()] = match["version"], metadata
        for name, distribution in here.items():
            found.setdefault(name, distribution)
    return found if _EVIDENCE & found.keys() else {}


def is_hook(environ: Mapping[str, str]) -> bool:
    """True if pre-commit (or prek, which stands in for it) runs us in an environment of its own."""
    places = (environ.get("VIRTUAL_ENV", ""), sys.prefix)
    return any(_is_of_hook(place, environ) for place in places if place)


def active_environments(environ: Mapping[str, str]) -> list[str]:
    """Return the user's environments that are active, the surest first; those of hooks left out."""
    named = [environ.get(name, "") for name in ("VIRTUAL_ENV", "CONDA_PREFIX")]
    return [place for place in named if place and not _is_of_hook(place, environ)]


def environments_on_path(environ: Mapping[str, str]) -> list[str]:
    """Return the environments whose ``python`` is on ``PATH``, in order, without those of hooks."""
    found: list[str] = []
    for folder in environ.get("PATH", "").split(os.pathsep)[:100]:
        base, name = os.path.split(folder.rstrip("/\\"))
        if name.lower() not in ("bin", "scripts") or not os.path.isabs(folder):
            continue
        if any(os.path.exists(os.path.join(folder, each)) for each in _PYTHONS):
            found.append(base)
    return [place for place in dict.fromkeys(found) if not _is_of_hook(place, environ)]


def _is_of_hook(place: str, environ: Mapping[str, str]) -> bool:
    """True if ``place`` is an environment that pre-commit or prek made for a hook."""
    place = os.path.abspath(place)
    for name in ("PRE_COMMIT_HOME", "PREK_HOME"):
        home = environ.get(name)
        if home and place.startswith(os.path.join(os.path.abspath(home), "")):
            return True
    *parents, last = place.replace("\\", "/").split("/")
    return last.startswith(_HOOK_NAMES) and (
        bool({"pre-commit", "prek"} & set(parents)) or last.startswith("py_env-")
    )


def site_folders(environment: str | os.PathLike[str]) -> list[str]:
    """Return the ``site-packages`` of a virtual or conda environment."""
    found: list[str] = []
    for library in ("lib", "lib64"):
        base = os.path.join(environment, library)
        try:
            names = sorted(os.listdir(base))
        except OSError:
            continue
        found.extend(
            os.path.join(base, name, packages)
            for name in names
            if name.startswith(("python3", "pypy3"))
            for packages in ("site-packages", "dist-packages")  # Debian calls them so
        )
    windows = os.path.join(environment, "Lib", "site-packages")
    if not found and os.path.isdir(windows):
        found.append(windows)
    return found
