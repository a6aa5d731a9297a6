"""Frozen records that cost nothing to define.

A dataclass writes its methods as text and compiles them when its class is made: half a millisecond
each, and a command that runs at every commit makes some fifty of them before it reads a line. A
named tuple costs a fifth of that, but equals any other tuple of the same values. ``Plain`` has one
set of methods for all its subclasses and a named tuple's ``_fields`` and ``_replace``; making an
instance takes a microsecond longer than a dataclass's.
"""

from __future__ import annotations

from typing import Any, ClassVar, Self, dataclass_transform


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
