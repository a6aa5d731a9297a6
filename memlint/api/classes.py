"""Classes: their bases from package to package, and what their instances have.

Each package is read at its own version, so that an ``SFTConfig`` of trl 0.15 stands on the
``TrainingArguments`` that the user has.
"""

from __future__ import annotations

from memlint.api.names import Names
from memlint.api.records import linearize, nearest_release, parameters
from memlint.api.tables import holds, pick
from memlint.api.target import Target

# Bases outside the tables whose constructor takes nothing.
WITHOUT_CONSTRUCTOR = frozenset(
    {"abc.ABC", "ABC", "typing.Generic", "Generic", "typing.Protocol", "Protocol"}
)
# Bases outside the tables that add nothing an instance is asked for.
PLAIN_BASES = WITHOUT_CONSTRUCTOR | {
    "dict",
    "list",
    "str",
    "collections.OrderedDict",
    "collections.UserDict",
    "collections.abc.MutableMapping",
    "enum.Enum",
}


class Classes(Names):
    """The classes of one target."""

    def __init__(self, target: Target | None = None) -> None:
        super().__init__(target)
        self._orders: dict[str, tuple[str, ...]] = {}
        self._attributes: dict[str, frozenset[str] | None] = {}
        self._about: dict[tuple[str, str], bool] = {}

    def bases(self, qualname: str) -> tuple[str, ...]:
        """Canonical names of all base classes, nearest first. A class that the target does not
        have is answered for by the newest release that has it."""
        return self._order(self.canonical(qualname))[1:]

    def is_a(self, qualname: str, *ancestors: str) -> bool:
        """Whether ``qualname`` is one of ``ancestors`` or a subclass of one."""
        order = self._order(self.canonical(qualname))
        return any(self.canonical(ancestor) in order for ancestor in ancestors)

    def is_about(self, name: str, owner: str) -> bool:
        """Whether what is known of ``owner`` holds for ``name``: the same, a subclass of it, or the
        same method of a subclass."""
        if name == owner:
            return True
        key = (name, owner)
        if key not in self._about:
            self._about[key] = self._is_about(name, owner)
        return self._about[key]

    def _is_about(self, name: str, owner: str) -> bool:
        class_name, _, member = name.rpartition(".")
        owner_class, _, owner_member = owner.rpartition(".")
        if member == owner_member and "." in owner_class and self.is_a(class_name, owner_class):
            return True
        return self.is_a(name, owner)

    def attributes(self, qualname: str) -> frozenset[str] | None:
        """Methods, fields and attributes that instances of the class have at the target; None
        where that cannot be known (``__getattr__``, a base outside the tables)."""
        name = self.canonical(qualname)
        if name not in self._attributes:
            self._attributes[name] = self._read_attributes(name)
        return self._attributes[name]

    def _read_attributes(self, qualname: str) -> frozenset[str] | None:
        order = self._order(qualname)
        found: set[str] = set()
        for name in order:
            record, release = self._at(name)
            if record is None or "bases" not in record:
                if name in PLAIN_BASES:
                    continue
                return None
            if "open" in record and holds(record["open"], release):
                return None
            if "fields" in record:
                found.update(parameters(record["fields"], release))
            for method, facts in record.get("methods", {}).items():
                if holds(facts.get("at", ""), release):
                    found.add(method)
            for text, names in record.get("attributes", {}).items():
                if holds(text, release):
                    found.update(names.split())
        return frozenset(found) if found else None

    def _order(self, name: str) -> tuple[str, ...]:
        """Method resolution order, ``name`` first."""
        if name not in self._orders:
            self._orders[name] = (name,)  # a cycle ends here
            self._orders[name] = tuple(self._linearized(name))
        return self._orders[name]

    def _linearized(self, name: str) -> list[str]:
        bases = self._direct_bases(name)
        return [name, *linearize([list(self._order(base)) for base in bases] + [list(bases)])]

    def _direct_bases(self, name: str) -> tuple[str, ...]:
        same = self._other_name(name)
        if same is not None and same != name:
            return (same,)
        record, release = self._at(name)
        if record is not None and "bases" in record:
            written: str = pick(record["bases"], release) or ""
            return tuple(self.canonical(base) for base in written.split())
        return tuple(self.canonical(base) for base in self._family(name))

    def _other_name(self, name: str) -> str | None:
        """The class that ``name`` is another name of at the target."""
        record = self._record(name)
        if record is None or "same" not in record:
            return None
        package = name.partition(".")[0]
        releases = len(self._table(package).releases)
        release = nearest_release(record["at"], self._release(package), releases)
        same: str | None = pick(record["same"], release)
        return same

    def _family(self, name: str) -> list[str]:
        """The described ancestors of a model's class, which has no record of its own: those at the
        target, else those of some release."""
        package, _, short = name.partition(".")
        if package != "transformers" or not short or "." in short:
            return []
        families = self._table(package).record("transformers families") or {}
        release = self._release(package)
        nearest: str | None = None
        for family, words_by_range in families.items():
            for text, words in words_by_range.items():
                if short not in words.split():
                    continue
                if holds(text, release):
                    return str(family).split(",")
                nearest = family
        return nearest.split(",") if nearest is not None else []
