"""Read files that nobody named: configuration, ignore lists, requirements, lock files, caches.

A repository from elsewhere decides what lies under these names. A named pipe would block for ever,
``/dev/zero`` would fill the memory. Only regular files up to a limit are read.
"""

from __future__ import annotations

import codecs
import errno
import os
import stat

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
    """The content of a regular file of at most ``limit`` bytes; links are followed.

    Raises OSError for everything else: a folder, a pipe, a device, a larger file. Never blocks.
    """
    # Some devices act when they are opened.
    _require_regular(os.stat(path).st_mode, path)
    file = os.open(path, _FLAGS)
    try:
        _require_regular(os.fstat(file).st_mode, path)
        parts: list[bytes] = []
        wanted = limit + 1
        while wanted and (part := os.read(file, min(wanted, 1 << 20))):
            parts.append(part)
            wanted -= len(part)
    finally:
        os.close(file)
    if not wanted:
        raise OSError(errno.EFBIG, f"is larger than {limit:,} bytes", path)
    return b"".join(parts)


def read_regular_text(path: str, limit: int = LIMIT) -> str:
    """``read_regular`` as text: UTF-8, or what a byte order mark says (UTF-8, UTF-16).

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
