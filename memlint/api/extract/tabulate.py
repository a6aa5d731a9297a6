"""From the readings of a package's releases to its tables: one line a module, class or function.

A line is the name, a tab and a JSON object; lines are sorted, so that one is found by bisection
and only it is decoded. The first line, under the name of an exclamation mark, lists
the releases and the day of each.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from memlint.api.extract.build import SCOPES, Reading
from memlint.api.extract.history import Encoder, covered, ranges

Facts = TypeVar("Facts")


def encode(
    package: str, versions: list[str], days: list[str], readings: list[Reading]
) -> dict[str, bytes]:
    """Table name -> bytes, from the readings of the releases in order; ``days`` of release."""
    histories = _Histories(readings)
    released = {"!": dict(zip(versions, days, strict=True))}
    main: dict[str, Any] = {**released, **dict(histories.classes())}
    for name, record in histories.functions():
        # Where the same path was a class in some releases, the constructor's record stands.
        main.setdefault(name, record)
    for name, meant in histories.of(lambda reading: reading.aliases):
        main[name] = histories.with_alias(main.get(name, {"at": ""}), meant)
    families = histories.families(package)
    if families:
        main["transformers families"] = families
    outlined: dict[str, Any] = dict(released)
    outline = SCOPES[package].outline
    for module, record in histories.modules():
        (outlined if outline.fullmatch(module) else main)[f"{module}:"] = record
    tables = {f"{package}.table": lines(main)}
    if len(outlined) > 1:
        tables[f"{package}_models.table"] = lines(outlined)
    return tables


class _Histories:
    """The readings of all releases, numbered from the oldest, and the records made of them."""

    def __init__(self, readings: list[Reading]) -> None:
        self._readings = readings
        self._newest = len(readings) - 1
        self._encoder = Encoder(self._newest)

    def of(
        self, facts_of: Callable[[Reading], Mapping[str, Facts]]
    ) -> Iterator[tuple[str, dict[int, Facts]]]:
        """Yield each name that some release has, in order, with what each release says of it."""
        facts = [facts_of(reading) for reading in self._readings]
        for name in sorted({name for known in facts for name in known}):
            yield name, {n: known[name] for n, known in enumerate(facts) if name in known}

    def modules(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the names that each module offers, and True if these are all."""
        for module, names in self.of(lambda reading: reading.names):
            offered = {
                n: [f"{name}={known}" if known else name for name, known in targets.items()]
                for n, targets in names.items()
            }
            record: dict[str, Any] = {
                "at": ranges(names, self._newest),
                "names": self._encoder.members(offered, names),
            }
            is_open = [n for n in names if module in self._readings[n].open_modules]
            if is_open:
                record["open"] = ranges(is_open, self._newest)
            unread = {n: self._readings[n].unread.get(module, []) for n in names}
            if any(unread.values()):
                record["unread"] = self._encoder.members(unread, names)
            yield module, record

    def families(self, package: str) -> dict[str, Any]:
        """Return the ancestors that classes of outlined modules have in common -> the classes."""
        at = [n for n, reading in enumerate(self._readings) if package in reading.names]
        groups: dict[str, dict[int, list[str]]] = {}
        for n in at:
            for name, family in self._readings[n].families.items():
                groups.setdefault(family, {}).setdefault(n, []).append(name)
        return {family: self._encoder.members(groups[family], at) for family in sorted(groups)}

    def classes(self) -> Iterator[tuple[str, dict[str, Any]]]:
        for name, facts in self.of(lambda reading: reading.classes):
            yield name, self._homed(self._encoder.class_(facts), name, facts)

    def functions(self) -> Iterator[tuple[str, dict[str, Any]]]:
        for name, facts in self.of(lambda reading: reading.functions):
            record = {
                "at": ranges(facts, self._newest),
                "function": self._encoder.function(facts, facts),
            }
            yield name, self._homed(record, name, facts)

    def _homed(self, record: dict[str, Any], name: str, at: Iterable[int]) -> dict[str, Any]:
        """Return ``record`` with the defining module, where the name does not tell it."""
        homes = {n: self._readings[n].homes[name] for n in at}
        if any(home != name.rpartition(".")[0] for home in homes.values()):
            record["home"] = self._encoder.spread(homes, homes)
        return record

    def with_alias(self, record: dict[str, Any], meant: Mapping[int, str]) -> dict[str, Any]:
        """Return ``record`` with the name that its name is an alias of, and the releases."""
        if "function" in record:
            return record
        at = covered(record["at"], self._newest) | set(meant)
        return record | {"at": ranges(at, self._newest), "same": self._encoder.spread(meant, at)}


def lines(records: Mapping[str, Any]) -> bytes:
    """Return a table: one line a record, sorted."""
    return b"".join(
        f"{name}\t{json.dumps(records[name], separators=(',', ':'))}\n".encode()
        for name in sorted(records, key=str.encode)
    )
