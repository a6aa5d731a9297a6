"""What the script model knows of an expression's value.

The domain of the abstract interpreter: constants that remember where they are written, qualified
names, objects made by calls, functions and classes of the script itself, and honest ignorance.
A value that may be several things is a ``Choice``; what cannot be followed is ``Unknown``.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from memlint.script.records import Record


class Origin(StrEnum):
    """By which route a value reaches its use."""

    LITERAL = "literal"
    ARGPARSE = "argparse default"
    CLICK = "option default"
    PARAMETER = "parameter default"
    FIELD = "dataclass field"
    PARSED_FIELD = "dataclass field that a command line can set"
    LIBRARY = "library default"


class Value:
    """Base of all abstract values."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Constant(Value):
    """A Python literal. ``node`` is the expression where it is written, None where ambiguous."""

    value: object
    node: ast.expr | None = field(default=None, compare=False)
    origin: Origin = field(default=Origin.LITERAL, compare=False)


@dataclass(frozen=True, slots=True)
class Symbol(Value):
    """Something imported or built in, by qualified name: ``torch.bfloat16``."""

    name: str
    node: ast.expr | None = field(default=None, compare=False)
    origin: Origin = field(default=Origin.LITERAL, compare=False)


@dataclass(frozen=True, slots=True)
class Sequence(Value):
    """A list, tuple or set display. ``open`` means that it may hold more."""

    items: tuple[Value, ...]
    kind: str
    node: ast.expr | None = field(default=None, compare=False)
    open: bool = False


@dataclass(eq=False, slots=True)
class Object(Value):
    """Something with identity: made by a call, or a dict. Its slots live in the state.

    type: qualified name of its class as far as it is known (``dict`` for dictionaries).
    made_by: the call that made it.
    base: the object that it wraps (``get_peft_model(model)`` wraps ``model``) or copies.
    cls: the script's own class that it is an instance of.
    """

    type: str | None = None
    made_by: Record | None = None
    base: Object | None = None
    cls: Class | None = None
    node: ast.AST | None = None
    names: dict[str, list[Slot]] = field(default_factory=dict)
    # Slots that are not named here may exist too (a ``**`` of something unknown).
    open: bool = False
    # A command line or a file fills it in.
    fed_by_parser: bool = False

    def __repr__(self) -> str:
        return f"<{self.type or 'object'}>"


@dataclass(eq=False, slots=True)
class Function(Value):
    """A function of the script. ``bound``: its ``self``; ``scope``: where it was defined."""

    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
    scope: int
    bound: Value | None = None
    owner: Class | None = None
    options: tuple[Record, ...] = ()


@dataclass(eq=False, slots=True)
class Class(Value):
    """A class of the script. ``scope`` holds its class attributes; ``bases`` as evaluated."""

    node: ast.ClassDef
    scope: int
    bases: tuple[Value, ...]
    is_dataclass: bool = False


@dataclass(eq=False, slots=True)
class Partial(Value):
    """``functools.partial`` of something, with the call that made it."""

    callee: Value
    made_by: Record


@dataclass(frozen=True, slots=True)
class Choice(Value):
    """One of several values, depending on the path."""

    options: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Unknown(Value):
    """Not followed."""


@dataclass(frozen=True, slots=True)
class Absent(Value):
    """No such key, attribute or binding."""


UNKNOWN = Unknown()
ABSENT = Absent()


class How(StrEnum):
    """In which form a setting stands in the script."""

    KEYWORD = "keyword"
    POSITIONAL = "positional"
    ITEM = "item of a dict display"
    SUBSCRIPT = "subscript assignment"
    ATTRIBUTE = "attribute assignment"
    FIELD = "dataclass field"
    ARGPARSE = "add_argument"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Slot:
    """A value under a name, and what holds it.

    owner: the call, dict display, assignment statement or field where the name stands; None where
    several paths set it in different places.
    """

    value: Value
    how: How = How.OTHER
    owner: ast.AST | None = None


_NOTHING = Slot(ABSENT)


def options(value: Value) -> tuple[Value, ...]:
    """The values that ``value`` may be."""
    return value.options if isinstance(value, Choice) else (value,)


def same(left: Value, right: Value) -> bool:
    """Whether two values are certainly the same (``True`` is not ``1`` here)."""
    if left is right:
        return True
    if isinstance(left, Constant) and isinstance(right, Constant):
        return type(left.value) is type(right.value) and left.value == right.value
    return type(left) is type(right) and left == right


def merge(values: Iterable[Value]) -> Value:
    """What is known when any of ``values`` may be the case."""
    values = tuple(values)
    if len(values) == 1:
        return values[0]
    found: list[Value] = []
    for value in values:
        for option in options(value):
            for index, other in enumerate(found):
                if same(option, other):
                    found[index] = _merge_same(other, option)
                    break
            else:
                found.append(option)
    if len(found) == 1:
        return found[0]
    if not found or len(found) > 6:
        return UNKNOWN
    return Choice(tuple(found))


def _merge_same(left: Value, right: Value) -> Value:
    """Two equal values; the place is kept only where both name the same one."""
    if isinstance(left, Constant) and isinstance(right, Constant) and left.node is not right.node:
        return Constant(left.value, None, left.origin)
    if isinstance(left, Symbol) and isinstance(right, Symbol) and left.node is not right.node:
        return Symbol(left.name, None, left.origin)
    return left


def merge_slots(slots: Iterable[Slot | None]) -> Slot:
    """``merge`` for slots; None stands for a path on which the name is not set."""
    found = [slot if slot is not None else _NOTHING for slot in slots]
    first = found[0]
    if all(slot is first for slot in found):
        return first
    value = merge(slot.value for slot in found)
    held = [slot for slot in found if slot.value is not ABSENT]
    if held and all(slot.owner is held[0].owner for slot in held):
        return Slot(value, held[0].how, held[0].owner)
    return Slot(value)


def truth(value: Value) -> bool | None:
    """Whether a condition is decided by what is written in the script, and how.

    Defaults of command lines decide nothing: the user can change them from outside.
    """
    match value:
        case Constant(value=constant, origin=Origin.LITERAL | Origin.PARAMETER | Origin.FIELD):
            return bool(constant)
        case Function() | Class():
            return True
        case Sequence(items=items, open=False):
            return bool(items)
        case _:
            return None
