"""Digests of files: whether what a result relied on is still the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memlint.source.bounded import read_regular

if TYPE_CHECKING:
    from hashlib import blake2b
else:
    try:
        from _blake2 import blake2b  # hashlib's own, without loading OpenSSL for it (3 ms)
    except ImportError:
        from hashlib import blake2b


def digest_of(path: str) -> str:
    """A digest of a file's content; empty where there is no such file, or none that can be read."""
    try:
        return blake2b(read_regular(path), digest_size=16).hexdigest()
    except OSError:
        return ""
