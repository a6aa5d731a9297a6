"""Where a project begins: the folder that something marks as one."""

import os
from collections.abc import Iterator

_MARKS = (".git", "pyproject.toml", "setup.py", "setup.cfg", "requirements.txt", "uv.lock")


def is_root(folder: str) -> bool:
    """True if a folder is marked as that of a project."""
    return any(os.path.exists(os.path.join(folder, mark)) for mark in _MARKS)


def folders_above(folder: str) -> Iterator[str]:
    """Yield a folder and those above it, nearest first."""
    while True:
        yield folder
        above = os.path.dirname(folder)
        if above == folder:
            return
        folder = above


def repository_of(folder: str) -> str | None:
    """Return the nearest folder, of one and those above it, that git keeps; None without one."""
    held = (one for one in folders_above(folder) if os.path.exists(os.path.join(one, ".git")))
    return next(held, None)
