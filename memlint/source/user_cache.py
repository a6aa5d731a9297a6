"""What belongs to the user, not to a repository: the folder of caches, and a secret in it.

The secret signs what is kept inside a project, where anybody who writes to the repository can put a
file. So it must be something that a repository cannot bring along.
"""

import contextlib
import os
import stat
import sys
from collections.abc import Mapping

from memlint.source.bounded import read_regular

_NAME = "cache.key"
_BYTES = 32


def cache_folder(environ: Mapping[str, str], platform: str = sys.platform) -> str | None:
    """Return the folder of this user's caches; None if there is no home folder."""
    named = environ.get("LOCALAPPDATA" if platform == "win32" else "XDG_CACHE_HOME", "")
    if os.path.isabs(named):
        return os.path.join(named, "memlint")
    home = os.path.expanduser("~")
    if not os.path.isabs(home):
        return None
    parts = ("Library", "Caches") if platform == "darwin" else (".cache",)
    return os.path.join(home, *parts, "memlint")


def secret(root: str) -> bytes | None:
    """Return the user's random bytes, drawn at first use; None if they cannot be kept, or would
    lie within ``root``, a folder that may come from elsewhere."""
    folder = cache_folder(os.environ)
    if folder is None or _is_within(folder, root):
        return None
    path = os.path.join(folder, _NAME)
    return _read(path) or _make(folder, path)


def _is_within(folder: str, root: str) -> bool:
    real = os.path.realpath(root)
    if real == os.path.realpath(os.path.expanduser("~")):
        return False  # the home itself is no repository from elsewhere
    return os.path.realpath(folder).startswith(os.path.join(real, ""))


def _read(path: str) -> bytes | None:
    try:
        status = os.lstat(path)
        if not stat.S_ISREG(status.st_mode) or not _is_private(status):
            return None
        found = read_regular(path, _BYTES)
    except OSError:
        return None
    return found if len(found) == _BYTES else None


def _is_private(status: os.stat_result) -> bool:
    """True if the user alone can read and write it, as far as the system has such modes."""
    if os.name == "nt" or not hasattr(os, "getuid"):
        return True
    return status.st_uid == os.getuid() and not status.st_mode & 0o077


def _make(folder: str, path: str) -> bytes | None:
    temporary = f"{path}.{os.getpid()}"
    fresh = os.urandom(_BYTES)
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
        file = os.open(temporary, flags, 0o600)
        try:
            os.write(file, fresh)
        finally:
            os.close(file)
        os.replace(temporary, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        return None
    return fresh
