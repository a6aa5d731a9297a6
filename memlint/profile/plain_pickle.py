"""Read a pickle of plain data, and hand on what it repeats millions of times.

A pickle is a program: the unpickler may import and call anything. This one is Python's own with
only the instructions for numbers, texts, lists, tuples and dictionaries; any other ends it, so
that nothing runs. Batches of events leave as they come: a list of five million needs no memory.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping
from typing import Any

# Of what is not handed on: a snapshot has a dictionary for every block and every frame.
MOST_OBJECTS = 20_000_000
_PLAIN = (
    *("PROTO", "FRAME", "STOP", "MARK", "NONE", "NEWTRUE", "NEWFALSE"),
    *("BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT"),
    *("SHORT_BINUNICODE", "BINUNICODE", "SHORT_BINBYTES", "BINBYTES"),
    *("EMPTY_TUPLE", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3", "EMPTY_LIST", "EMPTY_DICT"),
    *("APPEND", "APPENDS", "SETITEM", "SETITEMS"),
    *("MEMOIZE", "BINPUT", "LONG_BINPUT", "BINGET", "LONG_BINGET"),
)
_DAMAGED = (EOFError, IndexError, ValueError, TypeError, AttributeError, KeyError, OverflowError)
_Instruction = Callable[[Any], None]


class PickleError(ValueError):
    """The bytes are no pickle of plain data."""


class _Memo(list[Any]):
    """What is remembered, by number: a dictionary of numbers takes ten times as much."""

    def __setitem__(self, index: Any, value: Any) -> None:
        if index == len(self):
            self.append(value)
        else:
            super().__setitem__(index, value)


class PlainPickle(pickle._Unpickler):
    """One pass over a pickle.

    taken: gets each batch and the list that it is appended to, and returns the part of it that is
    kept, and what stands for an object from then on, by ``id``.
    """

    def __init__(
        self,
        file: Any,
        taken: Callable[[list[Any], Any], tuple[list[Any], Mapping[int, Any]]],
    ) -> None:
        super().__init__(file)
        self.memo: Any = _Memo()
        self.taken = taken
        self.objects = 0
        self.remembered: list[int] = []

    def read_all(self) -> Any:
        """Return the object.

        Raises PickleError for other instructions, broken data, and more than ``MOST_OBJECTS``.
        """
        try:
            return self.load()
        except pickle.UnpicklingError as error:
            raise PickleError(str(error)) from None
        except _DAMAGED as error:
            named = error.args[0] if isinstance(error, KeyError) and error.args else None
            if named in _OTHERS:
                raise PickleError(f"it holds {_OTHERS[named]}, which no snapshot has") from None
            raise PickleError(f"it breaks off, or is damaged ({error!r})") from None

    def count(self) -> None:
        self.objects += 1
        if self.objects > MOST_OBJECTS:
            raise PickleError(f"it holds more than {MOST_OBJECTS:,} lists and dictionaries")

    def pop_mark(self) -> Any:
        self.began = self.remembered.pop()
        return super().pop_mark()  # type: ignore[misc]

    def extend(self, values: list[Any], began: int) -> None:
        """Append a batch to the list on the stack; ``began``: what was remembered before it."""
        target = self.stack[-1]  # type: ignore[attr-defined]
        if type(target) is not list:
            raise TypeError("it appends to something that is no list")
        kept, replaced = self.taken(values, target)
        for index in range(began, len(self.memo)) if replaced else ():
            self.memo[index] = replaced.get(id(self.memo[index]), self.memo[index])
        self.objects -= len(replaced)
        target.extend(kept)


def _mark(reader: Any) -> None:
    reader.remembered.append(len(reader.memo))
    reader.load_mark()


def _container(load: _Instruction) -> _Instruction:
    def counted(reader: Any) -> None:
        reader.count()
        load(reader)

    return counted


def _append(reader: Any) -> None:
    reader.extend([reader.stack.pop()], max(len(reader.memo) - 8, 0))


def _appends(reader: Any) -> None:
    reader.extend(reader.pop_mark(), reader.began)


_LOADS: Mapping[int, _Instruction] = pickle._Unpickler.dispatch
_CODES = [getattr(pickle, name)[0] for name in _PLAIN]
PlainPickle.dispatch = {code: _LOADS[code] for code in _CODES} | {
    pickle.MARK[0]: _mark,
    pickle.APPEND[0]: _append,
    pickle.APPENDS[0]: _appends,
    pickle.EMPTY_LIST[0]: _container(_LOADS[pickle.EMPTY_LIST[0]]),
    pickle.EMPTY_DICT[0]: _container(_LOADS[pickle.EMPTY_DICT[0]]),
}
_OTHERS = {
    code: load.__name__.removeprefix("load_")
    for code, load in _LOADS.items()
    if code not in PlainPickle.dispatch
}
