"""Histories: since when and until when something is there, over all releases known."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from memlint.api.classes import Classes
from memlint.api.knowledge.defaults import FORWARDED
from memlint.api.knowledge.warned import WARNED
from memlint.api.records import history_of, parameter_ranges
from memlint.api.signatures import History
from memlint.api.tables import PACKAGES, Entry
from memlint.api.target import Target
from memlint.api.versions import parse_version

_ALIASED_MODULES = frozenset({"tokenization_utils", "tokenization_utils_fast"})


class Histories(Classes):
    """What one target has, had and will have."""

    def __init__(self, target: Target | None = None) -> None:
        super().__init__(target)
        self._existing: dict[str, bool | None] = {}

    def exists(self, qualname: str) -> bool | None:
        """Whether ``qualname`` can be imported (or, for a class's attribute, read) at the target.

        None where the tables do not say: another package, or a module whose names cannot be read
        off its source.
        """
        if qualname not in self._existing:
            self._existing[qualname] = self._exists(qualname)
        return self._existing[qualname]

    def _exists(self, qualname: str) -> bool | None:
        package = qualname.partition(".")[0]
        if package not in PACKAGES:
            return None
        module, rest = self._split(qualname)
        if not rest:
            return True
        first, _, more = rest.partition(".")
        record = self._module(module)
        assert record is not None
        release = self._release(package)
        names = self._names(module, release)
        if names is None or first not in names:
            if self._dynamic(record, release, first) or self._stands_in(package, first, names):
                return None
            return False
        if not more:
            return True
        known = self.canonical(f"{module}.{first}")
        if known.partition(".")[0] not in PACKAGES:
            return None
        attributes = self.attributes(known)
        if "." in more:
            return None
        if attributes is None:
            return False if self._is_gone(self._attribute_history(known, more)) else None
        return more in attributes

    def _stands_in(self, package: str, name: str, names: Mapping[str, str] | None) -> bool:
        """Whether transformers 5 may answer for a name that its modules do not have: tokenizers
        and image processors by their old names, modules by aliases (utils/import_utils.py)."""
        if package != "transformers" or self.version(package).minor < (5, 0):
            return False
        if name in _ALIASED_MODULES or name.endswith(("Tokenizer", "TokenizerFast")):
            return True
        return name.endswith("ImageProcessorFast") and name[:-4] in (names or {})

    def history(self, qualname: str, parameter: str | None = None) -> History | None:
        """Since and until when ``qualname``, or its ``parameter``, is there in all releases known.

        ``qualname`` may be an attribute or method of a class too.
        A parameter is looked for in the class, then in its bases; the answer's ``package`` says
        whose versions it speaks of.
        """
        name = self.canonical(qualname)
        if parameter is None:
            owner, _, attribute = name.rpartition(".")
            return (
                self._name_history(qualname)
                or self._name_history(name)
                or (self._attribute_history(owner, attribute) if owner else None)
            )
        found = self._parameter_history(name, parameter)
        if found is None or found.deprecated_since is not None:
            return found
        warned = self._warned_since(name, parameter)
        return found if warned is None else found._replace(deprecated_since=warned)

    def _parameter_history(self, name: str, parameter: str) -> History | None:
        gone: History | None = None
        here: History | None = None
        for owner, record, method in self._owners(name):
            package = owner.partition(".")[0]
            found = parameter_ranges(record, method, parameter)
            if found:
                history = history_of(self._table(package), package, *found)
                if self._is_gone(history):
                    # An override that came and went says nothing of the field that it overrode.
                    gone = gone or history
                else:
                    # The deepest base has had it longest.
                    here = history
        return here or gone

    def _warned_since(self, name: str, parameter: str) -> str | None:
        """Since when a use of ``parameter`` warns, where no signature shows it."""
        for line in WARNED:
            if line.parameter == parameter and not line.values and self.is_about(name, line.owner):
                return line.since
        return None

    def _owners(self, name: str) -> Iterator[tuple[str, Entry, str | None]]:
        """Records that may hold a parameter of ``name``: owner, record, method."""
        record = self._record(name)
        if record is not None:
            for owner in self._order(name):
                found, _ = self._at(owner)
                if found is not None:
                    yield owner, found, None
            return
        owner, _, method = name.rpartition(".")
        for class_name in self._order(owner) if owner else ():
            found, _ = self._at(class_name)
            if found is not None:
                yield class_name, found, method
        forwarded = FORWARDED.get(method) if owner else None
        if forwarded is not None and self.is_a(owner, forwarded.owner):
            yield from self._owners(forwarded.to)

    def _is_gone(self, history: History | None) -> bool:
        """Whether the target has outlived what ``history`` tells of."""
        if history is None or history.package not in PACKAGES:
            return False
        minor = self._table(history.package).minor(self._release(history.package))
        here = parse_version(minor)
        return not any(
            (since is None or parse_version(since) <= here)
            and (until is None or here < parse_version(until))
            for since, until in history.ranges
        ) and any(until is not None and parse_version(until) <= here for _, until in history.ranges)

    def _attribute_history(self, owner: str, attribute: str) -> History | None:
        """History of an attribute, in the package of the nearest class that ever had it."""
        package = ""
        present: list[str] = []
        deprecated: list[str] = []
        for class_name in self._order(self.canonical(owner)):
            home = class_name.partition(".")[0]
            record = self._record(class_name)
            if record is None or "bases" not in record or (package and home != package):
                continue
            found: list[str] = []
            method = record.get("methods", {}).get(attribute)
            if method is not None:
                found.append(method.get("at", record["at"]))
                if "deprecated" in method:
                    deprecated.append(method["deprecated"])
            for text, words in record.get("attributes", {}).items():
                if attribute in words.split():
                    found.append(text or record["at"])
            fields = record.get("fields", {}).get("p", {}).get(attribute, {})
            found.extend(text or record["at"] for text in fields)
            if found:
                package = home
                present.extend(found)
        if not present:
            return None
        return history_of(self._table(package), package, present, deprecated)

    def _name_history(self, qualname: str) -> History | None:
        package = qualname.partition(".")[0]
        if package not in PACKAGES:
            return None
        module, _, name = qualname.rpartition(".")
        record = self._module(qualname)
        if record is not None:
            return history_of(self._table(package), package, [record["at"]], [])
        record = self._module(module) if module else None
        if record is None:
            return None
        present = [
            text or record["at"]
            for text, words in record["names"].items()
            if any(word.partition("=")[0] == name for word in words.split())
        ]
        if not present:
            return None
        own = self._record(self.canonical(qualname))
        facts = (own or {}).get("function", own or {})
        deprecated = [facts["deprecated"]] if "deprecated" in facts else []
        return history_of(self._table(package), package, present, deprecated)
