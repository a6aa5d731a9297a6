"""The shipped tables and one release more, read from the files that a user has installed.

The added release has a table of its own with one release in it. Records are joined one by one as
they are asked for: what the shipped table says up to "the newest release" ends there, and what the
added one says holds from then on. So the histories of both are one.
"""

import os
from collections.abc import Iterator, Mapping
from functools import cache, cached_property
from typing import Any

from memlint.api.tables import Entry, Table, spans, table
from memlint.source.bounded import read_regular

LIMIT_BYTES = 32 << 20
_RANGES = ("at", "open", "dataclass", "deprecated")
_SPREAD = ("names", "unread", "attributes", "bases", "home", "same", "order", "settled")
_CALLABLES = ("fields", "init", "function")


class ExtendedTable(Table):
    """``base`` with the one release of ``added`` behind its own."""

    def __init__(self, base: Table, added: Table) -> None:
        super().__init__(base.name, base._data)
        self._base = base
        self._added = added

    @cached_property
    def days(self) -> Mapping[str, str]:
        return {**self._base.days, **self._added.days}

    def modules_with(self, word: str) -> Iterator[str]:
        yield from dict.fromkeys((*self._base.modules_with(word), *self._added.modules_with(word)))

    def names(self) -> list[str]:
        return sorted({*self._base.names(), *self._added.names()})

    def _find(self, name: bytes) -> Entry | None:
        old = self._base.record(name.decode())
        new = self._added.record(name.decode())
        if old is None and new is None:
            return None
        number = len(self._base.releases)
        before, after = f"0-{number - 1}", f"{number}-"
        if name == b"transformers families":
            return _joined_families(old or {}, new or {}, before, after)
        ended = _ended(old, before) if old is not None else {}
        begun = _begun(new, after) if new is not None else {}
        if old is not None and new is not None and ("function" in old) != ("function" in new):
            return begun  # a function took the place of a class, or the other way round
        joined: Entry = _joined(ended, begun)
        return joined


# Files in the cache are never changed, only replaced by others under other names.
@cache
def extended_table(name: str, folder: str) -> Table:
    """Return the shipped table ``name`` with the release whose tables are in ``folder``.

    Where ``folder`` has none of that name (or it is damaged), the shipped one alone.
    """
    base = table(name)
    added = read_added(name, folder)
    return base if added is None else ExtendedTable(base, added)


def read_added(name: str, folder: str) -> Table | None:
    """Return the table ``name`` in ``folder``; None where it is not there or not whole."""
    try:
        data = read_regular(os.path.join(folder, f"{name}.table"), LIMIT_BYTES)
        if not data.startswith(b"!\t{") or not data.endswith(b"}\n"):
            return None
        added = Table(name, data)
        return added if len(added.releases) == 1 else None
    except (OSError, ValueError):
        return None


def _joined_families(old: Entry, new: Entry, before: str, after: str) -> Entry:
    """Base class -> range -> the names of the classes that have it."""
    found = {family: _closed(words, before) for family, words in old.items()}
    for family, words in new.items():
        found.setdefault(family, {}).update(dict.fromkeys([after], *words.values()))
    return found


def _ended(record: Entry, before: str) -> dict[str, Any]:
    """Return ``record`` of releases up to the last of ``before``."""
    last = int(before.partition("-")[2])
    within = _limited(str(record.get("at", "")), before)
    found: dict[str, Any] = {}
    for key, value in record.items():
        if key in _RANGES:
            found[key] = _limited(value, within, last)
        elif key in _SPREAD:
            found[key] = _closed(value, within)
        elif key in _CALLABLES:
            found[key] = _ended_callable(value, within)
        elif key == "methods":
            found[key] = {name: _ended_callable(facts, within) for name, facts in value.items()}
        else:
            found[key] = value
    return found


def _ended_callable(facts: Mapping[str, Any], within: str) -> dict[str, Any]:
    own = _limited(facts.get("at", ""), within)
    found: dict[str, Any] = {"at": own}
    found["p"] = {name: _closed(history, own) for name, history in facts["p"].items()}
    if "order" in facts:
        found["order"] = _closed(facts["order"], own)
    if "deprecated" in facts:
        found["deprecated"] = _limited(facts["deprecated"], own)
    return found


def _closed(history: Mapping[str, Any], within: str) -> dict[str, Any]:
    return {_limited(text, within): value for text, value in history.items()}


def _limited(text: str, within: str, last: int | None = None) -> str:
    """Return the range ``text`` without an open end; the empty one is ``within``."""
    if not text:
        return within
    if last is None:
        last = max(high for _, high in spans(within))
    return ",".join(f"{low}-{min(high, last)}" for low, high in spans(text))


def _begun(record: Entry, after: str) -> dict[str, Any]:
    """Return ``record`` of a single release, which begins at ``after``."""
    found: dict[str, Any] = {"at": after}
    for key, value in record.items():
        if key in _RANGES:
            found[key] = after
        elif key in _SPREAD:
            found[key] = dict.fromkeys([after], *value.values()) if value else {}
        elif key in _CALLABLES:
            found[key] = _begun_callable(value, after)
        elif key == "methods":
            found[key] = {name: _begun_callable(facts, after) for name, facts in value.items()}
        else:
            found[key] = value
    return found


def _begun_callable(facts: Mapping[str, Any], after: str) -> dict[str, Any]:
    found: dict[str, Any] = {
        "at": after,
        "p": {name: dict.fromkeys([after], *each.values()) for name, each in facts["p"].items()},
        "order": {after: " ".join(facts["p"])},
    }
    if "deprecated" in facts:
        found["deprecated"] = after
    return found


def _joined(old: Any, new: Any) -> Any:
    """Both: ranges one behind the other, mappings key by key."""
    if isinstance(old, str) and isinstance(new, str):
        return f"{old},{new}"
    if isinstance(old, dict) and isinstance(new, dict):
        keys = dict.fromkeys((*old, *new))
        return {
            key: _joined(old[key], new[key])
            if key in old and key in new
            else old.get(key, new.get(key))
            for key in keys
        }
    return new
