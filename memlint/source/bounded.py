"""Read files, each to a limit: no other module of memlint opens what it did not make itself.

A repository from elsewhere decides what lies under the names of configuration, ignore lists,
requirements, lock files and caches. A named pipe would block for ever, ``/dev/zero`` would fill the
memory. Only regular files up to a limit are read; of what a user names, pipes too.
"""

import codecs
import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from mmap import ACCESS_READ, mmap
from typing import Any, BinaryIO

LIMIT = 8 << 20
_FLAGS = (
    os.O_RDONLY
    | getattr(os, "O_BINARY", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_NONBLOCK", 0)  # a pipe opens at once, without a writer
    | getattr(os, "O_NOCTTY", 0)
)
_ENCODINGS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}


def read_regular(path: str, limit: int = LIMIT) -> bytes:
    """Return the content of a regular file of at most ``limit`` bytes; links are followed.

    Raises OSError for everything else: a folder, a pipe, a device, a larger file. Never blocks.
    """
    # Some devices act when they are opened.
    _require_regular(os.stat(path).st_mode, path)
    file = os.open(path, _FLAGS)
    try:
        _require_regular(os.fstat(file).st_mode, path)
        data = b"".join(_parts(file, limit + 1))
    finally:
        os.close(file)
    return _require_small(data, limit, path)


@contextmanager
def mapped(path: str) -> Iterator[mmap]:
    """Yield a regular file that the user named, of any size, as memory that is read by need.

    Raises OSError for everything else, and for an empty file.
    """
    file = os.open(path, _FLAGS)
    try:
        status = os.fstat(file)
        _require_regular(status.st_mode, path)
        if not status.st_size:
            raise OSError(errno.EINVAL, "is empty", path)
        with mmap(file, 0, access=ACCESS_READ) as data:
            yield data
    finally:
        os.close(file)


def read_named(path: str, limit: int = LIMIT) -> tuple[bytes, os.stat_result]:
    """Return content and status of a file that the user named; a pipe is read to its end.

    Raises OSError for a folder, for a pipe that nobody writes to, for more than ``limit`` bytes.
    """
    file = os.open(path, _FLAGS)
    try:
        status = os.fstat(file)
        size = status.st_size
        if size > limit:
            _require_small(b"", limit, path, size)
        if stat.S_ISREG(status.st_mode):
            data = os.read(file, size + 1)
            if len(data) != size:  # a growing file, or a read that was cut short
                data += b"".join(_parts(file, limit + 1 - len(data)))
        else:
            data = b"".join(_parts(file, limit + 1))
            if not data and stat.S_ISFIFO(status.st_mode):
                raise OSError(errno.EPIPE, "is a pipe that nobody writes to", path)
    finally:
        os.close(file)
    return _require_small(data, limit, path), status


def read_stream(stream: BinaryIO, limit: int = LIMIT) -> bytes:
    """Return all of standard input; raises OSError beyond ``limit`` bytes."""
    return _require_small(stream.read(limit + 1), limit, "standard input")


def _parts(file: int, limit: int) -> Iterator[bytes]:
    """Yield data to the end or the limit; wait for the writer of a pipe."""
    while limit > 0:
        try:
            part = os.read(file, min(limit, 1 << 20))
        except BlockingIOError:
            import select

            select.select([file], [], [])
            continue
        if not part:
            return
        yield part
        limit -= len(part)


def _require_small(data: bytes, limit: int, path: str, size: int = 0) -> bytes:
    if max(len(data), size) > limit:
        raise OSError(errno.EFBIG, f"is larger than {limit:,} bytes", path)
    return data


def parse_json(text: str | bytes) -> Any:
    """Parse JSON. Raise ValueError for invalid text, deep nesting, or too many digits."""
    import json

    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def read_regular_text(path: str, limit: int = LIMIT) -> str:
    """Return ``read_regular`` as text: UTF-8, or what a byte order mark says (UTF-8, UTF-16).

    What cannot be decoded becomes U+FFFD. Newlines are ``\\n``. Raises OSError as it does.
    """
    data = read_regular(path, limit)
    encoding = "utf-8"
    for mark, name in _ENCODINGS.items():
        if data.startswith(mark):
            data, encoding = data[len(mark) :], name
            break
    text = data.decode(encoding, "replace")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _require_regular(mode: int, path: str) -> None:
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, "is a directory", path)
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "is not a regular file", path)
