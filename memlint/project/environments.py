"""Versions that are installed in an environment, read off the names of its metadata folders.

Nothing of the environment is run: a folder ``trl-0.12.2.dist-info`` tells all.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping

from memlint.api.tables import PACKAGES

_METADATA = (
    rf"(?i)(?P<name>{'|'.join(PACKAGES)})-(?P<version>\d[^-]*?)(?:-py[\d.]+)?\.(?:dist|egg)-info"
)
# Few of an environment's folders are worth a look with the pattern.
_BEGINNINGS = tuple(f"{name}-" for name in PACKAGES)


def installed(folders: Iterable[str | os.PathLike[str]]) -> Mapping[str, str]:
    """Package -> version, of the distributions in ``folders`` (``site-packages``); the first
    folder that has one decides."""
    found: dict[str, str] = {}
    for folder in folders:
        here: dict[str, str] = {}
        try:
            names = os.listdir(folder)
        except OSError:
            continue
        for name in names:
            if name.endswith("-info") and name.lower().startswith(_BEGINNINGS):
                match = re.fullmatch(_METADATA, name)
                if match is not None:
                    here[match["name"].lower()] = match["version"]
        for name, version in here.items():
            found.setdefault(name, version)
    return found


def site_folders(environment: str | os.PathLike[str]) -> list[str]:
    """The ``site-packages`` of a virtual or conda environment."""
    found: list[str] = []
    for library in ("lib", "lib64"):
        base = os.path.join(environment, library)
        try:
            names = sorted(os.listdir(base))
        except OSError:
            continue
        found.extend(
            os.path.join(base, name, "site-packages")
            for name in names
            if name.startswith(("python3", "pypy3"))
        )
    windows = os.path.join(environment, "Lib", "site-packages")
    if not found and os.path.isdir(windows):
        found.append(windows)
    return found
