"""How a finding speaks of what the target no longer has."""

from __future__ import annotations

from memlint.rule import Applicability, Fix, History, Script


def without(script: Script, what: str, history: History | None) -> Fix:
    """Advice where nothing is known to take a thing's place."""
    return Fix(f"Do without {what}{_other_version(script, history)}", (), Applicability.DISPLAY)


def _other_version(script: Script, history: History | None) -> str:
    """The versions that have it: older ones where it is gone, newer ones where it is to come."""
    if history is None:
        return ""
    if history.is_over(script.api.target.version(history.package).version):
        return f", or stay below {history.package} {history.until}"
    return f", or take {history.package} {history.since} or newer" if history.since else ""


def since(script: Script, history: History | None) -> str:
    """Since when it is gone; nothing where the target is older than what it lacks."""
    if history is None or not history.is_over(script.api.target.version(history.package).version):
        return ""
    return f" (gone since {history.package} {history.until})"


def fitness(safe: bool) -> Applicability:
    return Applicability.SAFE if safe else Applicability.UNSAFE
