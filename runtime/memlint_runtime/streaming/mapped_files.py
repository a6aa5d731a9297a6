"""Files that tensors are mapped from: what is written to them changes, or ends, the process.

A mapping shows what is written into its file, and reading beyond the end of a file that became
shorter kills the process (SIGBUS). A file that was deleted or replaced by another is none of this:
the mapping keeps the former one. Linux alone tells what is mapped; elsewhere nothing is checked.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterable
from pathlib import Path

__all__ = ["MappedFiles"]

_MAPS = Path("/proc/self/maps")


class MappedFiles:
    """The files behind some addresses, as they were when these were named."""

    def __init__(self) -> None:
        self._known: dict[str, os.stat_result] = {}

    def watch(self, addresses: Iterable[int]) -> None:
        """Watch the files that are mapped at `addresses` as well."""
        mappings = _mappings()
        starts = [mapping[0] for mapping in mappings]
        for address in addresses:
            start, stop, inode, path = mappings[bisect_right(starts, address) - 1]
            state = _state(path) if start <= address < stop else None
            if state is not None and state.st_ino == inode:
                self._known.setdefault(path, state)

    def check(self) -> None:
        """Raise RuntimeError where a file was written to since."""
        for path, then in self._known.items():
            now = _state(path)
            if now is None or (now.st_dev, now.st_ino) != (then.st_dev, then.st_ino):
                continue
            if (now.st_size, now.st_mtime_ns) != (then.st_size, then.st_mtime_ns):
                raise RuntimeError(
                    f"{path}, from which the model's weights stream, was written to: it had "
                    f"{then.st_size} bytes and has {now.st_size}. Load the model again; save "
                    "checkpoints to another folder, or take store='host'"
                )


def _mappings() -> list[tuple[int, int, int, str]]:
    """First address, end, inode and path of what is mapped, by address; none at 0."""
    rows = [(0, 0, 0, "")]
    try:
        lines = _MAPS.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return rows
    for line in lines:
        fields = line.split(maxsplit=5)
        if len(fields) == 6 and fields[5].startswith("/"):
            start, stop = (int(end, 16) for end in fields[0].split("-"))
            rows.append((start, stop, int(fields[4]), fields[5]))
    return sorted(rows)


def _state(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except OSError:
        return None
