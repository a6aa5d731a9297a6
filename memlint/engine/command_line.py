"""Settings that a launch command gives to the script that it starts: its parsers take theirs."""

import ast
import re
from collections.abc import Callable, Mapping
from typing import Any

from memlint.engine.project import put
from memlint.engine.values import UNKNOWN, Constant, Provenance, Sequence, Value
from memlint.source import Place, Span
from memlint.source.patterns import lazy_pattern
from memlint.source.record import NamedTuple

_TRUE = frozenset({"true", "yes", "t", "y", "1"})
_FALSE = frozenset({"false", "no", "f", "n", "0"})
_INTEGER = lazy_pattern(r"[+-]?\d{1,18}", re.ASCII)
_NUMBER = lazy_pattern(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_TEXT = lazy_pattern(r"[\w./ :+-]*", re.ASCII)


# What begins the name of a variable of the environment.
VARIABLE = "$"


class Given(NamedTuple):
    """A setting that a script is given from outside.

    value: a string (``1e-5``), several, or True for an option without a value; a list or mapping of
    a file; all else stands for a value that nobody can tell. place, name: where the value and the
    option's name are written.
    """

    value: object = None
    place: Place = Place(Span(0, 0))
    name: Place = Place(Span(0, 0))


class CommandLine:
    """What one command gives.

    takes: whether a class of a library has, or had, an option; accepts: whether it has. complete:
    the script gets nothing else, so that defaults of other options hold.

    ``node`` holds all settings, as a dict in ``module`` would that is handed to the script.
    """

    def __init__(
        self,
        settings: Mapping[str, Given],
        takes: Callable[[str, str], bool],
        accepts: Callable[[str, str], bool],
        *,
        complete: bool = False,
    ) -> None:
        self.takes = takes
        self.accepts = accepts
        self.complete = complete
        self._values: dict[str, ast.Constant] = {}
        # What a file gives that no command line can.
        self.data = {
            name: given.value
            for name, given in settings.items()
            if isinstance(given.value, Mapping | list)
        }
        names: list[ast.expr | None] = []
        for order, (name, given) in enumerate(settings.items(), start=1):
            told: Any = given.value if isinstance(given.value, str | bool | tuple) else None
            key, value = ast.Constant(name), ast.Constant(told)
            put(key, given.name, order)
            put(value, given.place, order)
            names.append(key)
            self._values[name] = value
        self.node = ast.Dict(names, [*self._values.values()])
        statement = ast.Assign([ast.Name("command_line", ast.Store())], self.node)
        for node in (self.node, statement, *statement.targets):
            put(node, Place(Span(0, 0), settings), 0)
        self.module = ast.Module([statement], [])

    @property
    def names(self) -> list[str]:
        """The options that the command gives."""
        return [name for name in self._values if not name.startswith(VARIABLE)]

    def value(self, name: str, kind: str) -> Value | None:
        """The value of an option; None where the command does not give it.

        kind: ``int``, ``float``, ``str``, ``bool``, or empty where the type is not known.
        """
        node = self._values.get(name)
        if node is None:
            return None
        text = node.value
        if text is True:
            return (
                Constant(True, node, Provenance.COMMAND_LINE) if kind in ("bool", "") else UNKNOWN
            )
        if isinstance(text, tuple) and kind == "":
            return Sequence(tuple(Constant(one, node) for one in text), "list", node)
        if not isinstance(text, str):
            return UNKNOWN
        value = converted(text, kind)
        return UNKNOWN if value is None else Constant(value, node, Provenance.COMMAND_LINE)


def converted(text: str, kind: str) -> object:
    """What a parser of transformers makes of ``text``; None where nobody can tell."""
    low = text.lower()
    match kind:
        case "str":
            return text
        case "bool":
            return True if low in _TRUE else False if low in _FALSE else None
        case "int":
            return int(text) if _INTEGER.fullmatch(text) else None
        case "float":
            return float(text) if _NUMBER.fullmatch(text) else None
    if low in ("true", "false"):
        return low == "true"
    if _INTEGER.fullmatch(text):
        return int(text)
    if _NUMBER.fullmatch(text):
        return float(text)
    return text if _TEXT.fullmatch(text) else None


def settled(given: CommandLine | None, default: Value) -> Value:
    """The default of an option that the command does not give: certain where all is known."""
    if given is None or not given.complete or not isinstance(default, Constant):
        return default
    return Constant(default.value, default.node, Provenance.SETTLED)


def processes_of(launched: int | None, node: ast.expr | None) -> Constant:
    """The number of processes by the launch command; by default one, which whoever starts the
    script may change."""
    if launched is None:
        return Constant(1, node, Provenance.ENVIRONMENT)
    return Constant(launched, node, Provenance.COMMAND_LINE)


def kind_of_annotation(annotation: ast.expr) -> str:
    """The type in an annotation: ``int`` of ``Optional[int]`` and ``int | None``."""
    words = set(re.findall(r"\w+", ast.unparse(annotation)))
    words -= {"Optional", "None", "typing", "Union"}
    (kind,) = words if len(words) == 1 else ("?",)
    return kind if kind in ("int", "float", "str", "bool") else "?"
