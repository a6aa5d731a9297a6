"""Frozen records that cost nothing to define.

A dataclass writes its methods as text and compiles them when its class is made: half a millisecond
each, and a command that runs at every commit makes some fifty of them before it reads a line. A
named tuple of ``typing`` costs a fifth of that: it checks the types and compiles a constructor.

``Plain`` has one set of methods for all its subclasses and a named tuple's ``_fields`` and
``_replace``; making an instance takes a microsecond longer than a dataclass's. ``NamedTuple`` is
that of ``typing`` at a tenth of its price: instances are made and read as fast as those, and equal
any other tuple of the same values.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from operator import itemgetter
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, ClassVar, Self, dataclass_transform

if TYPE_CHECKING:
    from typing import NamedTuple as NamedTuple


@dataclass_transform(frozen_default=True)
class Plain:
    """Base of records: fields are the annotated names, defaults their values in the class body."""

    _fields: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls) -> None:
        cls._fields = (*cls._fields, *cls.__annotations__)

    def __init__(self, *values: Any, **named: Any) -> None:
        fields = self._fields
        if len(values) > len(fields):
            raise TypeError(
                f"{type(self).__name__} takes at most {len(fields)} values, got {len(values)}"
            )
        held = self.__dict__
        held.update(zip(fields, values, strict=False))
        for name in fields[len(values) :]:
            if name in named:
                held[name] = named.pop(name)
            else:
                try:
                    held[name] = getattr(type(self), name)
                except AttributeError:
                    raise TypeError(f"{type(self).__name__} lacks a value for {name!r}") from None
        if named:
            raise TypeError(f"{type(self).__name__} takes no {next(iter(named))!r}, or once only")

    def _replace(self, **changes: Any) -> Self:
        """The same record with other values for some fields."""
        return type(self)(**{**self.__dict__, **changes})

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen: use _replace({name}=...)")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen")

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self._fields)

    def __hash__(self) -> int:
        return hash((type(self), *(getattr(self, name) for name in self._fields)))

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in self._fields)
        return f"{type(self).__name__}({fields})"


class _Tuple(tuple[Any, ...]):
    """What all named tuples have in common."""

    __slots__ = ()
    _fields: ClassVar[tuple[str, ...]] = ()
    _field_defaults: ClassVar[dict[str, Any]] = {}

    @classmethod
    def _make(cls, values: Iterable[Any]) -> Self:
        return tuple.__new__(cls, values)

    def _replace(self, **changes: Any) -> Self:
        made = self._make(map(changes.pop, self._fields, self))
        if changes:
            raise ValueError(f"{type(self).__name__} has no fields {list(changes)}")
        return made

    def _asdict(self) -> dict[str, Any]:
        return dict(zip(self._fields, self, strict=True))

    def __getnewargs__(self) -> tuple[Any, ...]:
        return tuple(self)

    def __repr__(self) -> str:
        fields = ", ".join(
            f"{name}={value!r}" for name, value in zip(self._fields, self, strict=True)
        )
        return f"{type(self).__name__}({fields})"


class _Definition(type):
    """Turns a class body with annotated fields into a tuple with their names."""

    def __new__(cls, name: str, bases: tuple[type, ...], body: dict[str, Any]) -> type:
        if not bases:
            return super().__new__(cls, name, bases, body)
        fields = tuple(body.get("__annotations__", ()))
        defaults = {field: body[field] for field in fields if field in body}
        last = fields[len(fields) - len(defaults) :]
        assert tuple(defaults) == last, f"{name}: fields without a default come first"
        for index, field in enumerate(fields):
            body[field] = _getter(index)
        code = _constructor(len(fields)).replace(
            co_varnames=("_cls", *fields), co_name="__new__", co_qualname=f"{name}.__new__"
        )
        body |= {
            "__slots__": (),
            "__match_args__": fields,
            "__new__": FunctionType(
                code, {"new": tuple.__new__}, "__new__", tuple(defaults.values())
            ),
            "_fields": fields,
            "_field_defaults": defaults,
        }
        return type(name, (_Tuple,), body)


@cache
def _constructor(count: int) -> CodeType:
    """The code of a constructor with so many parameters, whatever they are called."""
    names = "".join(f"_{index}, " for index in range(count))
    function = eval(f"lambda _cls, {names}: new(_cls, ({names}))")
    assert isinstance(function, FunctionType)
    return function.__code__


def _getter(index: int) -> Any:
    """A property that reads one field."""
    try:
        from _collections import _tuplegetter  # type: ignore[import-not-found]
    except ImportError:  # an interpreter without it
        return property(itemgetter(index))
    return _tuplegetter(index, None)


if not TYPE_CHECKING:

    class NamedTuple(metaclass=_Definition):
        """``typing.NamedTuple``, defined at a tenth of its price."""
