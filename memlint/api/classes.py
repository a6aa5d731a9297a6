"""Classes: their bases as they are written, and what their instances have."""

from collections.abc import Sequence

from memlint.api.records import parameters
from memlint.api.releases import Releases
from memlint.api.tables import holds, pick

# Bases outside the tables whose constructor takes nothing.
WITHOUT_CONSTRUCTOR = frozenset(
    {"abc.ABC", "ABC", "typing.Generic", "Generic", "typing.Protocol", "Protocol"}
)
# Bases outside the tables that add nothing an instance is asked for.
PLAIN_BASES = WITHOUT_CONSTRUCTOR | {
    *("dict", "list", "str", "collections.OrderedDict", "collections.UserDict"),
    *("collections.abc.MutableMapping", "enum.Enum"),
}


def written_bases(releases: Releases, name: str) -> Sequence[str]:
    """Return the direct bases of a class, as its source names them."""
    record, release = releases.at(name)
    if record is not None and "bases" in record:
        written: str = pick(record["bases"], release) or ""
        return written.split()
    return _family(releases, name)


def _family(releases: Releases, name: str) -> Sequence[str]:
    """A model class's ancestors with records: those at the target, else those of some release."""
    package, _, short = name.partition(".")
    if package != "transformers" or not short or "." in short:
        return []
    families = releases.table(package).record("transformers families") or {}
    release = releases.number(package)
    nearest: str | None = None
    for family, words_by_range in families.items():
        for text, words in words_by_range.items():
            if short not in words.split():
                continue
            if holds(text, release):
                return str(family).split(",")
            nearest = family
    return nearest.split(",") if nearest is not None else []


def attributes(releases: Releases, order: Sequence[str]) -> frozenset[str] | None:
    """Methods, fields and attributes that instances of the class have; None where that cannot be
    known (``__getattr__``, a base outside the tables)."""
    names: set[str] = set()
    for name in order:
        record, release = releases.at(name)
        if record is None or "bases" not in record:
            if name in PLAIN_BASES:
                continue
            return None
        if "open" in record and holds(record["open"], release):
            return None
        if "fields" in record:
            names.update(parameters(record["fields"], release))
        for method, facts in record.get("methods", {}).items():
            if holds(facts.get("at", ""), release):
                names.add(method)
        for text, words in record.get("attributes", {}).items():
            if holds(text, release):
                names.update(words.split())
    return frozenset(names) if names else None
