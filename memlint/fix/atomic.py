"""Replace a file's content so that no reader, crash or full disk ever sees half of it.

The bytes go to a temporary file in the same directory, which then takes the file's name. A symbolic
link stays a link: its target is replaced. Mode, owner and extended attributes stay. A hard link is
not kept: writing through it could leave half a file, and caches that share files by hard links must
not change. ``other_names`` counts them, so that users are told.
"""

import contextlib
import os
import stat
import sys
import tempfile
from pathlib import Path


def other_names(path: Path | str) -> int:
    """How many other names (hard links) the file has: they keep the content that it has now."""
    try:
        return max(0, os.stat(path).st_nlink - 1)
    except OSError:
        return 0


def put(path: str, data: bytes) -> None:
    """Write ``data`` to ``path``, which is made where it is not there; a pipe or a device is
    written to.

    Raises OSError; no half of a file stays.
    """
    if os.path.exists(path) and not os.path.isfile(path):
        with open(path, "wb") as file:
            file.write(data)
        return
    is_new = not os.path.lexists(path)
    if is_new:
        open(path, "xb").close()
    try:
        write_atomically(path, data)
    except BaseException:
        if is_new:
            os.unlink(path)
        raise


def write_atomically(path: Path | str, data: bytes) -> None:
    """Put ``data`` in the place of the content of ``path``, an existing file.

    Raises OSError, with the file as it was and nothing left beside it, where that fails; a file
    that may not be written is not replaced either.
    """
    target = Path(os.path.realpath(path))
    status = target.stat()
    if not stat.S_ISREG(status.st_mode):
        raise OSError(f"{target} is not a regular file")
    if not os.access(target, os.W_OK):
        raise PermissionError(f"{target} is read-only")
    name = ""
    try:
        # A name of at most 255 bytes: the file's own may be as long already.
        prefix = f".{os.fsdecode(os.fsencode(target.name)[:200])}."
        handle, name = tempfile.mkstemp(prefix=prefix, suffix=".memlint", dir=target.parent)
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            _copy_attributes(target, status, name)
            os.fsync(file.fileno())
        os.replace(name, target)
    except BaseException:
        if name:
            with contextlib.suppress(OSError):
                os.unlink(name)
        raise
    _sync_directory(target.parent)


def _copy_attributes(target: Path, status: os.stat_result, name: str) -> None:
    """Owner, extended attributes and mode, as far as the system has and permits them."""
    if sys.platform != "win32" and hasattr(os, "chown"):
        with contextlib.suppress(PermissionError):
            os.chown(name, status.st_uid, status.st_gid)
    if sys.platform == "linux" and hasattr(os, "listxattr"):
        with contextlib.suppress(OSError):
            for attribute in os.listxattr(target):
                with contextlib.suppress(OSError):
                    os.setxattr(name, attribute, os.getxattr(target, attribute))
    os.chmod(name, stat.S_IMODE(status.st_mode))


def _sync_directory(directory: Path) -> None:
    """Make the new name last; file systems that cannot are left to their own ways."""
    with contextlib.suppress(OSError):
        handle = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
