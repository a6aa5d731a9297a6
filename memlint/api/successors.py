"""What takes the place of something that the target does not have, as data for rules.

A rule turns a successor into edits; the text a fix puts into a script comes from ``source``
templates in which ``{value}`` stands for the expression that is there now. ``note`` is a sentence
for people, ``origin`` where the knowledge comes from.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class UnsetType(Enum):
    """The value of a parameter whose value is not known."""

    UNSET = "unset"


Unset = UnsetType.UNSET


@dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    """What all successors carry.

    safe: what the model learns stays the same, up to floating-point noise.
    """

    note: str = ""
    origin: str = ""
    safe: bool = True


@dataclass(frozen=True, slots=True)
class Rename(Base):
    """The keyword is called ``parameter``; ``source`` is its value where that changes too."""

    parameter: str
    source: str = "{value}"


@dataclass(frozen=True, slots=True)
class Move(Base):
    """The trainer's keyword is the field ``parameter`` of its config (``args=``)."""

    parameter: str
    source: str = "{value}"


@dataclass(frozen=True, slots=True)
class Build(Base):
    """The keyword becomes ``parameter=source``; ``imports`` are qualified names that it uses.

    merge: keywords of the same call that go into the same expression, as ``name={value}`` parts.
    """

    parameter: str
    source: str
    imports: tuple[str, ...] = ()
    merge: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Remove(Base):
    """The keyword (or statement) goes: it has no effect, or is what happens anyway."""


@dataclass(frozen=True, slots=True)
class Replace(Base):
    """The class, function, method or attribute is ``qualname`` now.

    arguments: old keyword -> new keyword; None for one that goes.
    written: keywords that keep an old default, written out where the call does not give them.
    A method that became a call of the object itself is ``...__call__``.
    """

    qualname: str
    arguments: tuple[tuple[str, str | None], ...] = ()
    written: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Inline(Base):
    """The whole call becomes the expression ``source``; ``imports`` are what it uses."""

    source: str
    imports: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Environment(Base):
    """The keyword goes, and before the call ``os.environ[variable] = str(value)`` is set."""

    variable: str


@dataclass(frozen=True, slots=True)
class Runtime(Base):
    """The keyword goes, and ``function`` of our runtime does its work on a trainer's argument.

    source: what stands for ``argument`` then, with ``{dataset}`` for what it is now,
        ``{tokenizer}`` for the trainer's processing class and ``{value}`` for the keyword's value.
    """

    function: str
    argument: str
    source: str


@dataclass(frozen=True, slots=True)
class Advice(Base):
    """Nothing that a fix may do; the note says what the user must."""


Successor = Rename | Move | Build | Remove | Replace | Inline | Environment | Runtime | Advice
