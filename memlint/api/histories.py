"""Histories: since when and until when something is there, over all releases known."""

from collections.abc import Iterable, Sequence

from memlint.api.records import history_of, parameter_ranges
from memlint.api.releases import Releases
from memlint.api.signatures import History
from memlint.api.tables import PACKAGES, Entry
from memlint.api.versions import parse_version

# A class or function, its record, and which of its methods may hold a parameter; None: itself.
Owner = tuple[str, Entry, str | None]


def is_gone(releases: Releases, history: History | None) -> bool:
    """True if the target has outlived what ``history`` tells of."""
    if history is None or history.package not in PACKAGES:
        return False
    here = releases.minor(history.package)
    return not any(
        (since is None or parse_version(since) <= here)
        and (until is None or here < parse_version(until))
        for since, until in history.ranges
    ) and any(until is not None and parse_version(until) <= here for _, until in history.ranges)


def parameter_history(
    releases: Releases, owners: Iterable[Owner], parameter: str
) -> History | None:
    """History of a parameter. owners: the class and its bases, nearest first."""
    gone: History | None = None
    here: History | None = None
    for owner, record, method in owners:
        package = owner.partition(".")[0]
        ranges = parameter_ranges(record, method, parameter)
        if ranges:
            history = history_of(releases.table(package), package, *ranges)
            if is_gone(releases, history):
                # An override that came and went says nothing of the field that it overrode.
                gone = gone or history
            else:
                # The deepest base has had it longest.
                here = history
    return here or gone


def attribute_history(releases: Releases, order: Sequence[str], attribute: str) -> History | None:
    """History of an attribute, in the package of the nearest class that ever had it."""
    package = ""
    present: list[str] = []
    deprecated: list[str] = []
    for class_name in order:
        home = class_name.partition(".")[0]
        record = releases.record(class_name)
        if record is None or "bases" not in record or (package and home != package):
            continue
        own: list[str] = []
        method = record.get("methods", {}).get(attribute)
        if method is not None:
            own.append(method.get("at", record["at"]))
            if "deprecated" in method:
                deprecated.append(method["deprecated"])
        for text, words in record.get("attributes", {}).items():
            if attribute in words.split():
                own.append(text or record["at"])
        fields = record.get("fields", {}).get("p", {}).get(attribute, {})
        own.extend(text or record["at"] for text in fields)
        if own:
            package = home
            present.extend(own)
    if not present:
        return None
    return history_of(releases.table(package), package, present, deprecated)


def name_history(releases: Releases, qualname: str, canonical: str) -> History | None:
    """History of a module, or of a name in the module that ``qualname`` imports it from.

    canonical: the name by which its deprecation is known.
    """
    package = qualname.partition(".")[0]
    if package not in PACKAGES:
        return None
    table = releases.table(package)
    module, _, name = qualname.rpartition(".")
    record = releases.module(qualname)
    if record is not None:
        return history_of(table, package, [record["at"]], [])
    record = releases.module(module) if module else None
    if record is None:
        return None
    present = [
        text or record["at"]
        for text, words in record["names"].items()
        if any(word.partition("=")[0] == name for word in words.split())
    ]
    if not present:
        return None
    own = releases.record(canonical)
    facts = (own or {}).get("function", own or {})
    deprecated = [facts["deprecated"]] if "deprecated" in facts else []
    return history_of(table, package, present, deprecated)
