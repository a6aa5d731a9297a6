"""What a table's record says at one release: parameters, defaults, ranges of releases."""

from collections.abc import Mapping
from typing import Any

from memlint.api.signatures import REQUIRED, Expression, History, Kind, Parameter, Signature
from memlint.api.tables import Entry, Table, holds, pick, spans


def parameters(facts: Mapping[str, Any], release: int) -> dict[str, list[Any]]:
    """Name -> ``[flags]`` or ``[flags, default]`` in the order of ``release``."""
    found: dict[str, list[Any]] = {}
    for name, histories in facts["p"].items():
        value = pick(histories, release)
        if value is not None:
            found[name] = value
    if "order" in facts:
        order = pick(facts["order"], release)
        if order is not None:
            return {name: found[name] for name in order.split()}
    return found


def signature_of(facts: Mapping[str, list[Any]]) -> Signature:
    result: dict[str, Parameter] = {}
    accepts_any = accepts_more = False
    for name, value in facts.items():
        flags: str = value[0]
        if "**" in flags:
            accepts_any = True
        elif "*" in flags:
            accepts_more = True
        else:
            kind = Kind.POSITIONAL
            if "k" in flags:
                kind = Kind.KEYWORD
            elif "p" in flags:
                kind = Kind.POSITIONAL_ONLY
            default = _default(value[1]) if len(value) > 1 else REQUIRED
            result[name] = Parameter(name, default, kind, "d" in flags, "i" in flags)
    return Signature(result, accepts_any, accepts_more)


def _default(value: Any) -> object:
    match value:
        case {"e": str(text)} if len(value) == 1:
            return Expression(text)
        case {"t": list(parts)} if len(value) == 1:
            return tuple(_default(part) for part in parts)
        case list():
            return [_default(part) for part in value]
        case dict():
            return {key: _default(part) for key, part in value.items()}
        case _:
            return value


def with_forwarded(own: Signature, base: Signature | None, *, keep_open: bool = False) -> Signature:
    """Return ``own`` joined to ``base``, which takes its ``**kwargs``."""
    if base is None:
        return own
    added = {
        name: parameter._replace(kind=Kind.KEYWORD)
        for name, parameter in base.parameters.items()
        if name not in own.parameters
    }
    return Signature({**own.parameters, **added}, base.accepts_any or keep_open, own.accepts_more)


def nearest_release(text: str, release: int, count: int) -> int:
    """Return ``release``, or the newest release in the range ``text`` where it is not in it."""
    if holds(text, release):
        return release
    return min(max(high for _, high in spans(text)), count - 1)


def names_in(module: Entry, release: int) -> dict[str, str]:
    """Name -> where it leads, for the names that a module offers in ``release``."""
    offered: dict[str, str] = {}
    for text, words in module["names"].items():
        if holds(text, release):
            for word in words.split():
                name, _, leads = word.partition("=")
                offered[name] = leads
    return offered


def is_dynamic(record: Entry, release: int, name: str) -> bool:
    """True if a module may have ``name`` in ``release`` though its source does not show it."""
    if "open" in record and holds(record["open"], release):
        return True
    return any(
        name in words.split()
        for text, words in record.get("unread", {}).items()
        if holds(text, release)
    )


def newest_lead(record: Entry, name: str) -> str | None:
    """Return where ``name`` led in the newest release in which the module offered it."""
    best: tuple[int, str] | None = None
    for text, words in record["names"].items():
        if name not in words:
            continue
        for word in words.split():
            own, _, leads = word.partition("=")
            if own == name:
                last = max(high for _, high in spans(text or record["at"]))
                if best is None or last > best[0]:
                    best = last, leads
    return best[1] if best is not None else None


def linearize(lists: list[list[str]]) -> list[str]:
    """C3 linearization; where it fails, the first candidate is taken."""
    result: list[str] = []
    lists = [part for part in lists if part]
    while lists:
        candidate = next(
            (part[0] for part in lists if not any(part[0] in other[1:] for other in lists)),
            lists[0][0],
        )
        result.append(candidate)
        lists = [rest for part in lists if (rest := [name for name in part if name != candidate])]
    return result


def parameter_ranges(
    record: Entry, method: str | None, parameter: str
) -> tuple[list[str], list[str]] | None:
    """Ranges in which ``parameter`` is there, and in which it is deprecated."""
    if method is not None:
        groups = [record.get("methods", {}).get(method)]
    else:
        groups = [record.get("function"), record.get("fields"), record.get("init")]
    present: list[str] = []
    deprecated: list[str] = []
    for facts in groups:
        if facts is None:
            continue
        within = facts.get("at", record["at"])
        for text, value in facts["p"].get(parameter, {}).items():
            present.append(text or within)
            if "d" in value[0]:
                deprecated.append(text or within)
    return (present, deprecated) if present else None


def history_of(known: Table, package: str, present: list[str], deprecated: list[str]) -> History:
    newest_release = len(known.releases) - 1
    intervals = sorted(
        (low, min(high, newest_release)) for text in present for low, high in spans(text)
    )
    joined: list[tuple[int, int]] = []
    for low, high in intervals:
        if joined and low <= joined[-1][1] + 1:
            joined[-1] = joined[-1][0], max(high, joined[-1][1])
        else:
            joined.append((low, high))

    def named(low: int, high: int) -> tuple[str | None, str | None]:
        return (
            known.minor(low) if low else None,
            known.minor(high + 1) if high < newest_release else None,
        )

    warned = [
        low
        for text in deprecated
        for low, high in spans(text)
        if min(high, newest_release) == joined[-1][1]  # what no longer warns was never going
    ]
    return History(
        package=package,
        since=named(*joined[0])[0],
        until=named(*joined[-1])[1],
        deprecated_since=known.minor(min(warned)) if warned else None,
        ranges=tuple(named(low, high) for low, high in joined),
    )
