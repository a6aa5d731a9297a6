"""Writes a snapshot of very many events, as Python's pickler would, without holding them.

    python -m tests.memlint.profile.many_events FILE [EVENTS]

Training steps as ``recorded.steps`` has them, the last over and over: each event is a dictionary of
its own with a list of frames of its own, the frames themselves are shared, as torch's are.
"""

from __future__ import annotations

import pickle
import struct
import sys
from collections.abc import Iterator
from itertools import chain, cycle, islice
from pathlib import Path
from typing import Any, BinaryIO

from . import recorded

_BATCH = 1000  # events that are appended at once, as by Python's pickler
_EVENTS = 5_000_000


class Writer:
    """Writes instructions of protocol 4; what was written before is fetched by its number."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._numbers: dict[Any, int] = {}
        self._next = 0

    def write(self, *parts: bytes) -> None:
        self._file.write(b"".join(parts))

    def number(self, key: Any = None) -> None:
        """Remember what was written last; ``key``: to find it again."""
        self._file.write(pickle.MEMOIZE)
        if key is not None:
            self._numbers[key] = self._next
        self._next += 1

    def known(self, key: Any) -> bool:
        """Fetch what was written before, if it was."""
        number = self._numbers.get(key)
        if number is not None:
            small = number < 256
            self.write(pickle.BINGET if small else pickle.LONG_BINGET,
                       bytes([number]) if small else struct.pack("<I", number))  # fmt: skip
        return number is not None

    def value(self, value: str | int) -> None:
        if isinstance(value, int):
            size = (value.bit_length() + 8) // 8
            self.write(pickle.LONG1, bytes([size]), value.to_bytes(size, "little", signed=True))
        elif not self.known(value):
            text = value.encode()
            self.write(pickle.SHORT_BINUNICODE, bytes([len(text)]), text)
            self.number(value)

    def pairs(self, pairs: dict[str, Any], key: Any = None) -> None:
        """Write a dictionary of texts, numbers and lists of frames."""
        self.write(pickle.EMPTY_DICT)
        self.number(key)
        self.write(pickle.MARK)
        for name, value in pairs.items():
            self.value(name)
            if isinstance(value, list):
                self.frames(value)
            else:
                self.value(value)
        self.write(pickle.SETITEMS)

    def frames(self, frames: list[dict[str, Any]]) -> None:
        self.write(pickle.EMPTY_LIST)
        self.number()
        self.write(pickle.MARK)
        for frame in frames:
            if not self.known(id(frame)):
                self.pairs(frame, id(frame))
        self.write(pickle.APPENDS)


def events(count: int) -> Iterator[dict[str, Any]]:
    """Yield ``count`` events: a model is loaded, takes a step, and then one like it for ever."""
    first = recorded.steps(2).events
    again = recorded.steps(3).events[len(first) :]
    for index, event in enumerate(islice(chain(first, cycle(again)), count)):
        yield {**event, "time_us": index}


def write(path: Path, count: int = _EVENTS) -> None:
    """Write the snapshot: one GPU that holds nothing at the end."""
    with path.open("wb") as file:
        writer = Writer(file)
        writer.write(pickle.PROTO, b"\x04", pickle.EMPTY_DICT)
        writer.number()
        writer.write(pickle.MARK)
        writer.value("segments")
        writer.frames([])
        writer.value("device_traces")
        writer.write(pickle.EMPTY_LIST)
        writer.number()
        writer.write(pickle.EMPTY_LIST)
        writer.number()
        for index, event in enumerate(events(count)):
            if index % _BATCH == 0:
                writer.write(pickle.APPENDS if index else b"", pickle.MARK)
            writer.pairs(event)
        writer.write(pickle.APPENDS, pickle.APPEND, pickle.SETITEMS, pickle.STOP)


if __name__ == "__main__":
    write(Path(sys.argv[1]), *map(int, sys.argv[2:]))
