"""Reads the shipped tables: one line a module, class or function, found by bisection.

A table is mapped (up to two MB), and only the lines that are asked for are read and decoded: some
twenty comparisons and one small JSON object each. The format is that of
``memlint.api.extract.history``.
"""

import json
import os
from collections.abc import Iterator, Mapping
from functools import cache, cached_property
from mmap import ACCESS_READ, mmap
from typing import Any

from memlint.api.versions import Version, parse_version

PACKAGES = ("trl", "transformers", "peft", "accelerate", "datasets", "torch")
# Programs that read recipes: their tables hold the keys of these.
PROGRAMS = ("torchtune", "llamafactory", "axolotl")
# All that a project may name a version of.
NAMED = (*PACKAGES, *PROGRAMS)

Entry = Mapping[str, Any]


def holds(text: str, release: int) -> bool:
    """True if release number ``release`` lies in the range ``text`` (``3-17,20-``)."""
    return not text or any(low <= release <= high for low, high in spans(text))


# A few thousand different texts stand in the shipped tables.
@cache
def spans(text: str) -> tuple[tuple[int, int], ...]:
    """Return the closed intervals of a range; an open one ends beyond any release."""
    found = []
    for part in text.split(","):
        low, dash, high = part.partition("-")
        found.append((int(low), (int(high) if high else 10**6) if dash else int(low)))
    return tuple(found)


def pick(histories: Mapping[str, Any], release: int) -> Any:
    """Return the value that holds in ``release``; None where none does."""
    for text, value in histories.items():
        if holds(text, release):
            return value
    return None


class Table:
    """One table. ``name`` is that of the file, without suffix."""

    def __init__(self, name: str, data: bytes | mmap) -> None:
        self.name = name
        self._data = data
        self._decoded: dict[str, Entry | None] = {}

    @cached_property
    def days(self) -> Mapping[str, str]:
        """Version -> day of release (``2026-10-15``), oldest version first."""
        line = self._data[: self._data.find(b"\n")]
        days: dict[str, str] = json.loads(line.partition(b"\t")[2])
        return days

    @cached_property
    def releases(self) -> tuple[str, ...]:
        """Versions of the releases described, oldest first."""
        return tuple(self.days)

    @cached_property
    def _versions(self) -> list[Version]:
        return [parse_version(text) for text in self.releases]

    def release(self, version: str) -> int:
        """Number of the release that stands for ``version``: that of the same minor version, else
        the nearest older one, else the oldest."""
        minor = parse_version(version).minor
        number = 0
        for candidate, known in enumerate(self._versions):
            if known.minor <= minor:
                number = candidate
        return number

    def minor(self, release: int) -> str:
        """Return ``4.41`` for the release ``4.41.2``."""
        return ".".join(self.releases[release].split(".")[:2])

    def record(self, name: str) -> Entry | None:
        """Return the record called ``name``."""
        if name in self._decoded:
            return self._decoded[name]
        self._decoded[name] = found = self._find(name.encode())
        return found

    def _find(self, name: bytes) -> Entry | None:
        data = self._data
        low, high = 0, len(data)
        while low < high:
            middle = (low + high) // 2
            start = data.rfind(b"\n", low, middle) + 1 or low
            end = data.find(b"\t", start)
            key = data[start:end]
            if key == name:
                stop = data.find(b"\n", end)
                record: Entry = json.loads(data[end + 1 : stop])
                return record
            if key < name:
                low = data.find(b"\n", end) + 1
            else:
                high = start
        return None

    def modules_with(self, word: str) -> Iterator[str]:
        """Modules whose record names ``word``, in any release, without decoding the others."""
        data, sought = self._data, word.encode()
        at = data.find(sought)
        while at >= 0:
            end = at + len(sought)
            if data[at - 1] in b'" ' and data[end] in b'" =':
                start = data.rfind(b"\n", 0, at) + 1
                key = data[start : data.find(b"\t", start)]
                if key.endswith(b":"):
                    yield key[:-1].decode()
                end = data.find(b"\n", end)
            at = data.find(sought, end)

    def names(self) -> list[str]:
        """Return all record names, for tests and tools."""
        return [line.partition(b"\t")[0].decode() for line in self._data[:].splitlines()][1:]


# Shipped files do not change while we run: keeping what was read is no state.
@cache
def table(name: str) -> Table:
    """Return the shipped table ``name``. Raises FileNotFoundError where there is none."""
    path = os.path.join(os.path.dirname(__file__), "data", f"{name}.table")
    with open(path, "rb") as file:
        return Table(name, mmap(file.fileno(), 0, access=ACCESS_READ))
