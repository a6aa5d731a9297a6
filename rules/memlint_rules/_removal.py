"""How a finding speaks of what the target no longer has."""

from __future__ import annotations

from memlint.rule import Applicability, Fix, History, Script


def without(what: str, history: History | None) -> Fix:
    """Advice where nothing is known to take a thing's place."""
    stay = f", or stay below {history.package} {history.until}" if history and history.until else ""
    return Fix(f"Do without {what}{stay}", (), Applicability.DISPLAY)


def since(script: Script, history: History | None) -> str:
    """Since when it is gone; nothing where the target is older than what it lacks."""
    if history is None or not history.is_over(script.api.target.version(history.package).version):
        return ""
    return f" (gone since {history.package} {history.until})"


def fitness(safe: bool) -> Applicability:
    return Applicability.SAFE if safe else Applicability.UNSAFE
