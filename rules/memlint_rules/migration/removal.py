"""How a finding speaks of what the target no longer has."""

from collections.abc import Iterable

from memlint.rule import Fix, History, Script, advise


def without(script: Script, what: str, history: History | None) -> Fix:
    """Return advice where nothing is known to take a thing's place."""
    return advise(f"Do without {what}{other_releases(script, history)}")


def other_releases(script: Script, history: History | None) -> str:
    """Return which releases have it, seen from the target; empty where none does."""
    if history is None:
        return ""
    version = script.api.target.version(history.package).version
    coming = history.next_since(version)
    if coming is not None:
        return f", or take {history.package} {coming} or newer"
    gone = history.last_until(version)
    return f", or stay below {history.package} {gone}" if gone is not None else ""


def since(script: Script, history: History | None) -> str:
    """Return since when it is gone; empty where the target is older than what it lacks."""
    if history is None or not history.is_over(script.api.target.version(history.package).version):
        return ""
    return f" (gone since {history.package} {history.until})"


def told(note: str) -> Fix:
    """Return a note of the tables as advice."""
    return advise(note[:1].upper() + note[1:])


def not_taken(script: Script, name: str, what: str) -> str:
    """Return that a class or a function does not take ``what`` at the target."""
    return f"`{name.rpartition('.')[2]}` of {script.api.at_target(name)} does not take `{what}`"


def nearest(name: str, offered: Iterable[str], alike: float = 0.85) -> str | None:
    """Return the name that was meant, where ``name`` looks like a misspelling of it."""
    import difflib

    return next(iter(difflib.get_close_matches(name, list(offered), n=1, cutoff=alike)), None)


def meant(name: str) -> Fix:
    """Return the advice to write what a misspelling looks like."""
    return advise(f"Write {name}, if that was meant")
