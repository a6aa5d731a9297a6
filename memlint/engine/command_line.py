"""Settings that a launch command gives to the script that it starts.

They are appended to the script's text as a dict, so that each has a place like any other setting:
option names to strings (``'1e-5'``), lists of strings, True (an option without a value) or None (a
value that nobody can tell). Parsers of the script take theirs; no rule sees the dict itself.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable

from memlint.engine.values import UNKNOWN, Constant, Provenance, Value
from memlint.source.patterns import lazy_pattern

_TRUE = frozenset({"true", "yes", "t", "y", "1"})
_FALSE = frozenset({"false", "no", "f", "n", "0"})
_INTEGER = lazy_pattern(r"[+-]?\d{1,18}", re.ASCII)
_NUMBER = lazy_pattern(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_TEXT = lazy_pattern(r"[\w./ :+-]*", re.ASCII)


class CommandLine:
    """The dict of one command. takes: whether a class of a library has, or had, an option.
    complete: the script gets nothing else, so that defaults of other options hold."""

    def __init__(
        self, node: ast.Dict, takes: Callable[[str, str], bool], *, complete: bool = False
    ) -> None:
        self.node = node
        self.takes = takes
        self.complete = complete
        self._given: dict[str, ast.expr] = {
            key.value: value
            for key, value in zip(node.keys, node.values, strict=True)
            if isinstance(key, ast.Constant) and isinstance(key.value, str)
        }

    @property
    def names(self) -> Iterable[str]:
        """The options that the command gives."""
        return self._given.keys()

    def value(self, name: str, kind: str) -> Value | None:
        """The value of an option; None where the command does not give it.

        kind: ``int``, ``float``, ``str``, ``bool``, or empty where the type is not known.
        """
        node = self._given.get(name)
        if node is None:
            return None
        if not isinstance(node, ast.Constant):
            return UNKNOWN
        text = node.value
        if text is True:
            return (
                Constant(True, node, Provenance.COMMAND_LINE) if kind in ("bool", "") else UNKNOWN
            )
        if not isinstance(text, str):
            return UNKNOWN
        value = _converted(text, kind)
        return UNKNOWN if value is None else Constant(value, node, Provenance.COMMAND_LINE)


def _converted(text: str, kind: str) -> object:
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


def kind_of_annotation(annotation: str) -> str:
    """The type in an annotation: ``int`` of ``Optional[int]`` and ``int | None``."""
    words = set(re.findall(r"\w+", annotation)) - {"Optional", "None", "typing", "Union"}
    (kind,) = words if len(words) == 1 else ("?",)
    return kind if kind in ("int", "float", "str", "bool") else "?"
