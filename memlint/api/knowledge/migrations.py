"""The forms in which knowledge is written down: named tuples, made in no time at import."""

from collections.abc import Iterator

from memlint.api.successors import Advice, Build, Environment, Remove, Rename, Replace, Successor
from memlint.source.record import NamedTuple


class Migration(NamedTuple):
    """What takes the place of ``parameter`` of ``owner`` (and its subclasses), or of ``owner``.

    owner: canonical name of a class, a function, or a class's method or attribute.
    parameter: None where ``owner`` itself is gone.
    replacement: what it is; of several lines the first that the target can take is the answer.
    values: where not empty, only for these literal values.
    since, until: minor versions of ``owner``'s package between which the line holds.
    """

    owner: str
    parameter: str | None
    replacement: Successor
    values: tuple[object, ...] = ()
    since: str = ""
    until: str = ""


def rows_of(table: str) -> Iterator[Migration]:
    """Yield the lines of a table of ``rows`` that say what to do: ``use`` another option, ``now``
    another name, ``remove`` it (``unsafely``), set the ``environment``, give ``option = source``,
    or ``advice``; then a note. Raise ValueError for a row that says nothing.
    """
    for owner, parameter, values, since, until, (then, *note) in rows(table):
        successor = _successor(then, *note)
        yield Migration(owner, parameter or None, successor, values, since, until)


# Owner, its parameter (empty: the owner itself), values, from and until which release; the rest.
Row = tuple[str, str, tuple[object, ...], str, str, list[str]]


def rows(table: str) -> Iterator[Row]:
    """Yield the rows of a table, one for each owner and option.

    A line at the margin names owners, those below it their options: ``a b = True since 5.0 until
    5.2``, or with a dot an owner that is gone itself; bars part what else a row says. Lines that go
    on are indented further; comments are left out.
    """
    owners: list[str] = []
    for line in whole_lines(table):
        if line[0] != " ":
            owners = line.split()
            continue
        what, *rest = line.split(" | ")
        what, _, until = what.partition(" until ")
        what, _, since = what.partition(" since ")
        names, _, written = what.partition(" = ")
        values = tuple(_VALUES.get(each, each.strip('"')) for each in written.split(", ") if each)
        for name in names.split():
            if "." in name:
                yield name, "", values, since, until, rest
            else:
                yield from ((owner, name, values, since, until, rest) for owner in owners)


_VALUES = {"True": True, "False": False, "None": None}


def whole_lines(table: str) -> list[str]:
    """Return the lines with those that go on, and without comments."""
    whole: list[str] = []
    for line in table.split("\n"):
        text = line.partition("# ")[0].rstrip()
        if text[:4] == "    ":
            whole[-1] += f" {text.lstrip()}"
        elif text:
            whole.append(text)
    return whole


def _successor(then: str, note: str = "") -> Successor:
    parameter, _, source = then.partition(" = ")
    verb, _, name = then.partition(" ")
    match verb:
        case "use":
            return Rename(name, note=note)
        case "now":
            return Replace(name, note=note)
        case "remove":
            return Remove(note, safe=name != "unsafely")
        case "environment":
            return Environment(name, note=note)
        case "advice":
            return Advice(note)
    if not source:
        raise ValueError(f"nothing takes the place of it: {then!r}")
    return Build(parameter, source, note=note)


class Warned(NamedTuple):
    """Giving ``parameter`` to ``owner`` warns, which its own code does not show.

    values: where not empty, only these literal values warn.
    silent_values, silent_beside: these values do not warn, nor does any beside these options.
    """

    owner: str
    parameter: str
    values: tuple[object, ...]
    since: str
    until: str
    silent_values: tuple[object, ...] = ()
    silent_beside: tuple[str, ...] = ()


class Ignored(NamedTuple):
    """``parameter`` of ``owner`` is accepted and does nothing.

    values: where not empty, only these literal values are without effect.
    harmless: a leftover that never saved memory here, worth a hint only.
    """

    owner: str
    parameter: str
    values: tuple[object, ...]
    since: str
    until: str
    note: str
    harmless: bool = False
