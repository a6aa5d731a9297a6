"""Keeps a thread, and the programs that it starts from then on, from writing but in some folders.

That is Landlock of Linux 5.19 and later, which asks for no administrator. The kernel refuses, so
that shells, programs and libraries in C are kept, too. Modes and times of files may still change.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import struct
import sys
from collections.abc import Iterable

# System calls, the same on each processor, and an option of ``prctl``.
_CREATE, _ADD, _RESTRICT, _NO_NEW_PRIVILEGES = 444, 445, 446, 38
_ABI = 2  # the first one that lets files move between folders
_WRITES, _OF_FILES, _TRUNCATES = 0x7FF2, 0x4002, 0x4000  # rights; the last one came with the third


def version() -> int:
    """Return which Landlock the kernel has; 0 for none that is enough."""
    if not sys.platform.startswith("linux"):
        return 0
    found: int = ctypes.CDLL(None).syscall(_CREATE, None, ctypes.c_size_t(0), 1)
    return found if found >= _ABI else 0


def write_only_below(paths: Iterable[str]) -> None:
    """Keep this thread to files and folders that are there, and what lies below them."""
    if not (found := version()):
        return
    kernel = ctypes.CDLL(None)
    rights = _WRITES if found > _ABI else _WRITES & ~_TRUNCATES
    rules = kernel.syscall(_CREATE, struct.pack("=Q", rights), ctypes.c_size_t(8), 0)
    for path in paths:
        with contextlib.suppress(OSError):  # it is gone, or closed to this user
            opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
            allowed = rights if os.path.isdir(path) else rights & _OF_FILES
            kernel.syscall(_ADD, rules, 1, struct.pack("=Qi", allowed, opened), 0)
            os.close(opened)
    kernel.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    kernel.syscall(_RESTRICT, rules, 0)
    os.close(rules)
