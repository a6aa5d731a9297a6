"""What takes the place of something that the target does not have, as data for rules.

A rule turns a successor into edits; the text a fix puts into a script comes from ``source``
templates for ``str.format`` in which ``{value}`` stands for the expression that is there now.
Every kind has ``note``, a sentence for people, and ``safe``: what the model learns stays the same,
up to floating-point noise. Named tuples, since they are made at every start.
"""

from memlint.source.record import NamedTuple


class Rename(NamedTuple):
    """The keyword (or attribute) is called ``parameter``; ``source`` is its value."""

    parameter: str
    source: str = "{value}"
    note: str = ""
    safe: bool = True


class Move(NamedTuple):
    """The trainer's keyword is the field ``parameter`` of its config (``args=``)."""

    parameter: str
    source: str = "{value}"
    note: str = ""
    safe: bool = True


class Build(NamedTuple):
    """The keyword becomes ``parameter=source``; ``imports`` are qualified names that it uses.

    merge: keywords of the same call that go into the same expression, as ``name={value}`` parts.
    """

    parameter: str
    source: str
    imports: tuple[str, ...] = ()
    merge: tuple[str, ...] = ()
    note: str = ""
    safe: bool = True


class Remove(NamedTuple):
    """The keyword (or statement) goes: it has no effect, or is what happens anyway."""

    note: str = ""
    safe: bool = True


class Replace(NamedTuple):
    """The class, function, method or attribute is ``qualname`` now.

    arguments: old keyword -> new keyword; None for one that goes.
    written: keywords that keep an old default, written out where the call does not give them.
    A method that became a call of the object itself is ``...__call__``.
    """

    qualname: str
    arguments: tuple[tuple[str, str | None], ...] = ()
    written: tuple[tuple[str, str], ...] = ()
    note: str = ""
    safe: bool = True


class Inline(NamedTuple):
    """The whole call becomes the expression ``source``; ``imports`` are what it uses."""

    source: str
    imports: tuple[str, ...] = ()
    note: str = ""
    safe: bool = True


class Environment(NamedTuple):
    """The keyword goes, and before the call ``os.environ[variable] = str(value)`` is set."""

    variable: str
    note: str = ""
    safe: bool = True


class Runtime(NamedTuple):
    """The keyword goes, and ``function`` of our runtime does its work on a trainer's class.

    source: what stands for ``argument`` then, with ``{trainer}`` for what it is now and ``{value}``
        for the keyword's value.
    """

    function: str
    argument: str
    source: str
    note: str = ""
    safe: bool = True


class Advice(NamedTuple):
    """Nothing that a fix may do; the note says what the user must."""

    note: str
    safe: bool = True


Successor = Rename | Move | Build | Remove | Replace | Inline | Environment | Runtime | Advice
