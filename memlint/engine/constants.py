"""The Python value of an abstract one, where there is one."""

from typing import Final

from memlint.engine.values import Constant, Object, OneOf, Sequence, Symbol, Value


class _Sentinel:
    """A value that is not a value."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return self._name

    def __bool__(self) -> bool:
        raise TypeError(f"{self._name} is neither true nor false: compare with `is`")


# The model cannot tell the value. Never a fault, never overwritten.
UNSURE: Final = _Sentinel("UNSURE")
# The setting is not given and the library has no default for it that we know.
MISSING: Final = _Sentinel("MISSING")


def unified(value: Value) -> Value:
    """Objects that one expression made in different runs are one object to the reader."""
    if isinstance(value, OneOf):
        nodes = {id(one.node) if isinstance(one, Object) else None for one in value.options}
        if len(nodes) == 1 and None not in nodes:
            return value.options[0]
    return value


def python_value(value: Value) -> object:
    """A constant's Python value, a list of them, a Symbol or Object itself, or UNSURE."""
    match value:
        case Constant(value=constant):
            return constant
        case Symbol() | Object():
            return value
        case Sequence(items=items, open=False, kind=kind):
            inner = [python_value(item) for item in items]
            if any(item is UNSURE for item in inner):
                return UNSURE
            return tuple(inner) if kind == "tuple" else inner
        case OneOf():
            one = unified(value)
            return UNSURE if one is value else one
        case _:
            return UNSURE
