"""Replace a file's content so that no reader, crash or full disk ever sees half of it.

The bytes go to a temporary file in the same directory, which then takes the file's name. A symbolic
link stays a link: its target is replaced. The mode stays. A hard link is not kept: the other names
go on naming the old content.
"""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from pathlib import Path


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
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".memlint", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            with contextlib.suppress(PermissionError):
                os.chown(name, status.st_uid, status.st_gid)
            os.chmod(name, stat.S_IMODE(status.st_mode))
            os.fsync(file.fileno())
        os.replace(name, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise
    _sync_directory(target.parent)


def _sync_directory(directory: Path) -> None:
    """Make the new name last; file systems that cannot are left to their own ways."""
    with contextlib.suppress(OSError):
        handle = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
