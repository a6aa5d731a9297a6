"""Frozen records that cost nothing to define.

A dataclass writes its methods as text and compiles them when its class is made: half a millisecond
each, and a command that runs at every commit makes some fifty of them before it reads a line. A
named tuple of ``typing`` costs a fifth of that: it checks the types and compiles a constructor.

``Record`` has one set of methods for all its subclasses and a named tuple's ``_fields`` and
``_replace``; ``NamedTuple`` is that of ``typing`` at a tenth of its price: instances equal any
other tuple of the same values. ``slotted`` is for what changes after it is made. All make instances
as fast as if their constructors were written out: one is compiled for each number of fields, and
each class has a copy with its own names.
"""

from collections.abc import Iterable
from functools import cache
from operator import itemgetter
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar, dataclass_transform
from typing import NamedTuple as NamedTuple


@dataclass_transform(frozen_default=True)
class Record:
    """Base of records: fields are the annotated names, defaults their values in the class body."""

    _fields: ClassVar[tuple[str, ...]] = ()
    _read: ClassVar[Any]

    def __init_subclass__(cls) -> None:
        cls._fields = fields = (*cls._fields, *cls.__annotations__)
        cls._read = itemgetter(*fields) if fields else None
        given = [hasattr(cls, name) for name in fields]
        assert given == sorted(given), f"{cls.__name__}: fields without a default come first"
        defaults = tuple(getattr(cls, name) for name in fields[given.count(False) :])
        made = _method("__init__", cls.__name__, fields, defaults)
        cls.__init__ = made  # type: ignore[method-assign]

    def _replace(self, **changes: Any) -> Self:
        """Return the same record with other values for some fields."""
        held = self.__dict__
        values = [changes.pop(name) if name in changes else held[name] for name in self._fields]
        # What is left is no field: the constructor says so.
        return type(self)(*values, **changes)

    def _values(self) -> tuple[object, ...]:
        """Return the fields' values: cached properties stand in ``__dict__`` too."""
        held = self.__dict__
        if len(self._fields) < 2:
            return tuple(map(held.__getitem__, self._fields))
        values: tuple[object, ...] = self._read(held)
        return values

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen: use _replace({name}=...)")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen")

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self._values() == other._values()

    def __hash__(self) -> int:
        return hash((type(self), *self._values()))

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in self._fields)
        return f"{type(self).__name__}({fields})"


Class = TypeVar("Class", bound=type)
Kind = TypeVar("Kind")


def new(kind: type[Kind]) -> Kind:
    """Return what stands in the body of a ``slotted`` class for a new ``dict`` or ``list``."""
    return kind  # type: ignore[return-value]


@dataclass_transform(eq_default=False)
def slotted(cls: Class) -> Class:
    """Give a class slots for its annotated names, and a constructor that takes them. What is
    ``new(dict)`` or ``new(list)`` in each instance, the constructor does not take."""
    fields = tuple(cls.__annotations__)
    body = {name: value for name, value in vars(cls).items() if name not in _OF_INSTANCES}
    defaults = {name: body.pop(name) for name in fields if name in body}
    fresh: dict[str, type] = {
        name: one for name, one in defaults.items() if one is dict or one is list
    }
    given = tuple(name for name in fields if name not in fresh)
    values = tuple(defaults[name] for name in given if name in defaults)
    made = _method("__init__", cls.__name__, given, values, fresh)
    body |= {"__slots__": fields, "__init__": made}
    return type(cls)(cls.__name__, cls.__bases__, body)


# What a class without slots has for its instances.
_OF_INSTANCES = ("__dict__", "__weakref__")


class _Tuple(tuple[Any, ...]):
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
        body |= {
            "__slots__": (),
            "__match_args__": fields,
            "__new__": _method("__new__", name, fields, tuple(defaults.values())),
            "_fields": fields,
            "_field_defaults": defaults,
        }
        return type(name, (_Tuple,), body)


@cache
def _template(name: str, count: int, fresh: tuple[type, ...]) -> CodeType:
    """Return the code of a constructor of ``count`` fields, whatever they are called. fresh: of
    what the fields behind them are, which get a new one each."""
    names = [f"_{index}" for index in range(count)]
    if name == "__new__":
        body = f"return new(self, ({''.join(f'{each}, ' for each in names)}))"
    elif name == "set":
        news = [
            f"self._{count + i} = {'{}' if one is dict else '[]'}" for i, one in enumerate(fresh)
        ]
        body = "; ".join([*(f"self.{each} = {each}" for each in names), *news])
    else:
        body = "; ".join(["held = self.__dict__", *(f"held['{each}'] = {each}" for each in names)])
    made: dict[str, Any] = {}
    exec(f"def made({', '.join(['self', *names])}): {body}", made)
    code: CodeType = made["made"].__code__
    return code


def _method(
    name: str,
    owner: str,
    fields: tuple[str, ...],
    defaults: tuple[Any, ...],
    fresh: dict[str, type] | None = None,
) -> FunctionType:
    """Return the constructor of a record: ``__new__`` of a named tuple, ``__init__`` of another,
    which sets slots where ``fresh`` is given."""
    fresh_names = tuple(fresh or ())
    kind = name if fresh is None else "set"
    code = _template(kind, len(fields), tuple(fresh.values()) if fresh else ())
    own = {f"_{index}": field for index, field in enumerate((*fields, *fresh_names))}
    code = code.replace(
        co_varnames=tuple(own.get(each, each) for each in code.co_varnames),
        co_consts=tuple(own.get(each, each) for each in code.co_consts),
        co_names=tuple(own.get(each, each) for each in code.co_names),
        co_name=name,
        co_qualname=f"{owner}.{name}",
    )
    return FunctionType(code, {"new": tuple.__new__}, name, defaults)


def _getter(index: int) -> Any:
    """Return a property that reads one field."""
    try:
        from _collections import _tuplegetter  # type: ignore[import-not-found]
    except ImportError:  # an interpreter without it
        return property(itemgetter(index))
    return _tuplegetter(index, None)


if not TYPE_CHECKING:

    class NamedTuple(metaclass=_Definition):
        """``typing.NamedTuple``, defined at a tenth of its price."""
