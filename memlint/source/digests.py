"""Digests of files: whether what a result relied on is still the same."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from memlint.source.bounded import read_regular

if TYPE_CHECKING:
    from hashlib import blake2b
else:
    try:
        from _blake2 import blake2b  # hashlib's own, without loading OpenSSL for it (3 ms)
    except ImportError:
        from hashlib import blake2b

__all__ = ["blake2b", "digest_of"]


def digest_of(path: str) -> str:
    """Return a digest of a file's content, of a folder's names; empty for what cannot be read.

    Hidden names of a folder do not count: memlint's own cache is one.
    """
    try:
        return blake2b(read_regular(path), digest_size=16).hexdigest()
    except IsADirectoryError:
        return _digest_of_names(path)
    except OSError:
        return ""


def _digest_of_names(folder: str) -> str:
    try:
        names = sorted(name for name in os.listdir(folder) if not name.startswith("."))
    except OSError:
        return ""
    return blake2b("\0".join(names).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
