"""How a finding speaks of what the target no longer has."""

from __future__ import annotations

from memlint.rule import Applicability, Fix, History, Script


def without(script: Script, what: str, history: History | None) -> Fix:
    """Advice where nothing is known to take a thing's place."""
    other = other_releases(script, history)
    return Fix(f"Do without {what}{other}", (), Applicability.DISPLAY)


def other_releases(script: Script, history: History | None) -> str:
    """Which releases have it, seen from the target; empty where none does."""
    if history is None:
        return ""
    version = script.api.target.version(history.package).version
    coming = history.next_since(version)
    if coming is not None:
        return f", or take {history.package} {coming} or newer"
    gone = history.last_until(version)
    return f", or stay below {history.package} {gone}" if gone is not None else ""


def since(script: Script, history: History | None) -> str:
    """Since when it is gone; nothing where the target is older than what it lacks."""
    if history is None or not history.is_over(script.api.target.version(history.package).version):
        return ""
    return f" (gone since {history.package} {history.until})"


def fitness(safe: bool) -> Applicability:
    return Applicability.SAFE if safe else Applicability.UNSAFE
