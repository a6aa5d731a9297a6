"""Combinations of options that a library refuses, as data for rules.

Named tuples, since they are made wherever the table of them is read.
"""

from __future__ import annotations

from memlint.source.record import NamedTuple


class Given(NamedTuple):
    """Anything but None and False."""

    def holds(self, value: object) -> bool:
        return value is not None and value is not False


class Among(NamedTuple):
    """One of ``values``; 1 is not True here."""

    values: tuple[object, ...]

    def holds(self, value: object) -> bool:
        return any(type(value) is type(one) and value == one for one in self.values)


class Outside(NamedTuple):
    """None of ``values``."""

    values: tuple[object, ...]

    def holds(self, value: object) -> bool:
        return not Among(self.values).holds(value)


Condition = Given | Among | Outside


class Refusal(NamedTuple):
    """``owner`` and its subclasses refuse ``options`` together.

    options: name and what its value is, all together.
    since, until: minor versions of ``owner``'s package between which it is refused.
    drop: the option that goes, where one certainly does. change: name and source of the one that
        is set otherwise. Either changes what is trained unless ``safe``.
    advice: what to do where neither is known.
    """

    owner: str
    options: tuple[tuple[str, Condition], ...]
    message: str
    source: str
    since: str = ""
    until: str = ""
    drop: str = ""
    change: tuple[str, str] = ("", "")
    advice: str = ""
    safe: bool = False
