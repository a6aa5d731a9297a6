"""The forms in which knowledge is written down: named tuples, made in no time at import."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memlint.source.record import NamedTuple

if TYPE_CHECKING:
    from memlint.api.successors import Successor


class Migration(NamedTuple):
    """What takes the place of ``parameter`` of ``owner`` (and its subclasses), or of ``owner``.

    owner: canonical name of a class, a function, or a class's method or attribute.
    parameter: None where ``owner`` itself is gone.
    replacements: in order of preference; the first that the target can take is the answer.
    values: where not empty, only for these literal values.
    since, until: minor versions of ``owner``'s package between which the line holds.
    """

    owner: str
    parameter: str | None
    replacements: tuple[Successor, ...]
    values: tuple[object, ...] = ()
    since: str = ""
    until: str = ""


class Warned(NamedTuple):
    """Giving ``parameter`` to ``owner`` warns, which its own code does not show.

    values: where not empty, only these literal values warn.
    silent_values, silent_beside: these values do not warn, nor does any beside these options.
    """

    owner: str
    parameter: str
    package: str
    since: str
    until: str
    origin: str
    values: tuple[object, ...] = ()
    silent_values: tuple[object, ...] = ()
    silent_beside: tuple[str, ...] = ()


class Ignored(NamedTuple):
    """``parameter`` of ``owner`` is accepted and does nothing.

    harmless: a leftover that never saved memory here, worth a hint only.
    values: where not empty, only these literal values are without effect.
    """

    owner: str
    parameter: str
    package: str
    since: str
    until: str
    note: str
    origin: str
    harmless: bool = False
    values: tuple[object, ...] = ()
