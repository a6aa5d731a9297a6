"""Facts of many releases as one record that says in which releases each of them holds.

Releases are numbered from 0, oldest first. A range reads ``3-17,20-``: open to the right where a
fact holds in the newest release, so that a new release changes only what it changes. The empty
range means every release that the record itself is in.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any

from memlint.api.extract.declarations import ClassFacts, FunctionFacts, Parameter
from memlint.api.tables import spans


def ranges(numbers: Iterable[int], newest: int) -> str:
    """Write ``[3, 4, 5, 9, 10]`` with newest 10 as ``3-5,9-``."""
    parts: list[str] = []
    run: list[int] = []
    for number in [*sorted(numbers), None]:
        if run and number != run[-1] + 1:
            if run[-1] == newest:
                parts.append(f"{run[0]}-")
            else:
                parts.append(f"{run[0]}" if len(run) == 1 else f"{run[0]}-{run[-1]}")
            run = []
        if number is not None:
            run.append(number)
    return ",".join(parts)


def covered(text: str, newest: int) -> set[int]:
    """Return the releases that a range names: ``3-5,9-`` with newest 10 is ``{3, 4, 5, 9, 10}``; no
    release at all for the empty range."""
    return {
        number
        for low, high in (spans(text) if text else ())
        for number in range(low, min(high, newest) + 1)
    }


class Encoder:
    """Encodes histories over releases ``0..newest``."""

    def __init__(self, newest: int) -> None:
        self.newest = newest

    def spread(self, values: Mapping[int, Any], within: Iterable[int]) -> dict[str, Any]:
        """Range -> value, equal values joined. ``within``: the releases the record is in."""
        groups: dict[str, list[int]] = defaultdict(list)
        for number in sorted(values):
            groups[json.dumps(values[number], sort_keys=True)].append(number)
        everywhere = set(within)
        result: dict[str, Any] = {}
        for text, numbers in groups.items():
            key = "" if set(numbers) == everywhere else ranges(numbers, self.newest)
            result[key] = json.loads(text)
        return result

    def members(self, sets: Mapping[int, Iterable[str]], within: Iterable[int]) -> dict[str, Any]:
        """Range -> words that hold there, joined by blanks."""
        holds: dict[str, list[int]] = defaultdict(list)
        for number, words in sorted(sets.items()):
            for word in words:
                holds[word].append(number)
        everywhere = set(within)
        groups: dict[str, list[str]] = defaultdict(list)
        for word, numbers in holds.items():
            key = "" if set(numbers) == everywhere else ranges(numbers, self.newest)
            groups[key].append(word)
        return {key: " ".join(sorted(words)) for key, words in sorted(groups.items())}

    def parameters(
        self, lists: Mapping[int, Mapping[str, Parameter]], within: Iterable[int]
    ) -> dict[str, Any]:
        """Parameters with their histories, in an order that holds for every release.

        Where no single order does, ``order`` gives the odd releases theirs.
        """
        within = list(within)
        merged = merge_orders([list(lists[number]) for number in sorted(lists)])
        histories: dict[str, Any] = {}
        for name in merged:
            values: dict[int, Any] = {
                number: list(parameters[name])
                for number, parameters in lists.items()
                if name in parameters
            }
            histories[name] = self.spread(values, within)
        result: dict[str, Any] = {"p": histories}
        odd: dict[int, Any] = {}
        for number, parameters in lists.items():
            actual = list(parameters)
            if actual != [name for name in merged if name in parameters]:
                odd[number] = " ".join(actual)
        if odd:
            result["order"] = self.spread(odd, within)
        return result

    def function(self, facts: Mapping[int, FunctionFacts], within: Iterable[int]) -> dict[str, Any]:
        """History of a function or method within a record."""
        result: dict[str, Any] = {}
        own = sorted(facts)
        if set(own) != set(within):
            result["at"] = ranges(own, self.newest)
        result.update(
            self.parameters({number: fact.parameters for number, fact in facts.items()}, own)
        )
        warned = [number for number in own if facts[number].deprecated]
        if warned:
            result["deprecated"] = ranges(warned, self.newest)
        return result

    def class_(self, facts: Mapping[int, ClassFacts]) -> dict[str, Any]:
        """History of a class."""
        result: dict[str, Any] = {
            "at": ranges(facts, self.newest),
            "bases": self.spread({n: " ".join(each.bases) for n, each in facts.items()}, facts),
        }
        for key, is_so in _MARKS.items():
            holding = [n for n, each in facts.items() if is_so(each)]
            if holding:
                result[key] = ranges(holding, self.newest)
        fields = {n: each.fields for n, each in facts.items() if each.is_dataclass}
        if any(fields.values()):
            result["fields"] = self.parameters(fields, facts)
        constructors = {n: c for n, each in facts.items() if (c := each.constructor) is not None}
        if constructors:
            result["init"] = self.function(constructors, facts)
        methods = self._methods(facts)
        if methods:
            result["methods"] = methods
        attributes = {n: each.plain_attributes for n, each in facts.items()}
        if any(attributes.values()):
            result["attributes"] = self.members(attributes, facts)
        return result | self._settled(facts)

    def _settled(self, facts: Mapping[int, ClassFacts]) -> dict[str, Any]:
        settled = {n: each.settled for n, each in facts.items()}
        return {"settled": self.spread(settled, facts)} if any(settled.values()) else {}

    def _methods(self, facts: Mapping[int, ClassFacts]) -> dict[str, Any]:
        found: dict[str, dict[int, FunctionFacts]] = defaultdict(dict)
        for number, each in facts.items():
            for name, method in each.methods.items():
                found[name][number] = method
        return {name: self.function(found[name], facts) for name in sorted(found)}


_MARKS: Mapping[str, Callable[[ClassFacts], bool]] = {
    "dataclass": attrgetter("is_dataclass"),
    "open": attrgetter("is_open"),
    "deprecated": attrgetter("deprecated"),
}


def merge_orders(orders: Sequence[Sequence[str]]) -> list[str]:
    """One order of all names, newest releases deciding; an older name follows its neighbour."""
    merged: list[str] = []
    for order in reversed(orders):
        for position, name in enumerate(order):
            if name in merged:
                continue
            before = next((n for n in reversed(order[:position]) if n in merged), None)
            merged.insert(merged.index(before) + 1 if before is not None else 0, name)
    return merged
