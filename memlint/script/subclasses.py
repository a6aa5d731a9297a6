"""Subclasses of the script that hand on what they do not take themselves."""

from __future__ import annotations

from memlint.engine.definitions import keywords_kept
from memlint.script.called import Call


def kept_by_subclass(call: Call) -> frozenset[str] | None:
    """The keywords that the constructor of the script's own class takes, where all others certainly
    reach the library's; None where that is not certain, or no such class is made."""
    cls = call.subclass
    # The base is the library's class itself.
    direct = cls is not None and bool(cls.bases) and call.script.name(cls.bases[0]) == call.name
    return keywords_kept(cls) if cls is not None and direct else None
