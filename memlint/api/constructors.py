"""Signatures of constructors and methods, along a method resolution order."""

from collections.abc import Sequence
from typing import Any

from memlint.api.classes import PLAIN_BASES, WITHOUT_CONSTRUCTOR
from memlint.api.records import parameters, signature_of, with_forwarded
from memlint.api.releases import Releases
from memlint.api.signatures import Signature
from memlint.api.tables import Entry, holds


def constructor(releases: Releases, order: Sequence[str]) -> Signature | None:
    """That of the class whose order is given; None where the tables do not say."""
    for position, owner in enumerate(order):
        record, release = releases.at(owner)
        if record is None:
            # A base outside the tables may have a constructor of its own.
            return Signature({}) if owner in WITHOUT_CONSTRUCTOR else None
        init = record.get("init")
        if init is not None and holds(init.get("at", ""), release):
            own, hands_on = _read(init, release)
            rest = order[position + 1 :]
            return with_forwarded(own, constructor(releases, rest)) if hands_on and rest else own
        if "dataclass" in record and holds(record["dataclass"], release):
            return _of_fields(releases, order[position:])
    return Signature({}) if order else None


def _of_fields(releases: Releases, order: Sequence[str]) -> Signature:
    """Return the constructor of a data class, from its fields and those of its bases."""
    fields: dict[str, list[Any]] = {}
    unknown_base = False
    for base in reversed(order):
        record, release = releases.at(base)
        if record is None:
            unknown_base |= base not in PLAIN_BASES
        elif "fields" in record and holds(record.get("dataclass", ""), release):
            fields.update(parameters(record["fields"], release))
    own = signature_of({n: facts for n, facts in fields.items() if "n" not in str(facts[0])})
    # A base that is not described may have fields of its own.
    return own._replace(accepts_any=True) if unknown_base else own


def method(
    releases: Releases,
    order: Sequence[str],
    name: str,
    forwarded: tuple[str, Signature | None] | None = None,
) -> Signature | None:
    """That of the method of the first class that has it; None where none has.

    forwarded: the class whose method of that name hands its keywords to another function, and
    that function's signature.
    """
    for position, owner in enumerate(order):
        record, release = releases.at(owner)
        facts = record.get("methods", {}).get(name) if record is not None else None
        if facts is None or not holds(facts.get("at", ""), release):
            continue
        signature, hands_on = _read(facts, release)
        if hands_on:
            base = method(releases, order[position + 1 :], name, forwarded)
            signature = with_forwarded(signature, base)
        if forwarded is not None and owner == forwarded[0]:
            signature = with_forwarded(signature, forwarded[1], keep_open=True)
        return signature
    return None


def _read(facts: Entry, release: int) -> tuple[Signature, bool]:
    """Return the signature of a callable itself, and whether it hands keywords on to its base's."""
    own = parameters(facts, release)
    return signature_of(own), any(">" in str(each[0]) for each in own.values())
