"""Read a pickle of plain data, and hand on what it repeats millions of times.

A pickle is a program: an unpickler may import and call anything. This one takes a pickle apart as
``pickletools`` does, and knows only the instructions for numbers, texts, lists, tuples and
dictionaries; any other ends it, so that nothing runs. Batches of events leave as they come: a list
of five million needs no memory.
"""

from __future__ import annotations

import pickletools
from collections.abc import Callable, Mapping
from typing import Any

# Of what is not handed on: a snapshot has a dictionary for every block and every frame.
MOST_OBJECTS = 20_000_000
AS_WRITTEN = "as torch.cuda.memory._dump_snapshot writes it"
_MOST_MARKS = 100  # at one time: what is read again is little
_MOST_KEY = 2**60  # numbers below it have hashes of their own, as texts have
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False, "EMPTY_TUPLE": ()}
_VALUES = {"BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT", "SHORT_BINUNICODE", "BINUNICODE",
           "SHORT_BINBYTES", "BINBYTES"}  # fmt: skip
_CONTAINERS = {"EMPTY_LIST": list, "EMPTY_DICT": dict}
# How much they take from the stack; 0: what stands there since the mark.
_TAKING = {"TUPLE": 0, "TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3, "APPEND": 1, "APPENDS": 0,
           "SETITEM": 2, "SETITEMS": 0}  # fmt: skip
_Taken = Callable[[list[Any], Any], tuple[list[Any], Mapping[int, Any]]]
_DAMAGED = (EOFError, IndexError, ValueError, TypeError, AttributeError, KeyError, OverflowError)


class PickleError(Exception):
    """The bytes are no pickle of plain data."""


class PlainPickle:
    """One pass over a pickle.

    taken: gets each batch and the list that it is appended to, and returns the part of it that is
    kept, and what stands for an object from then on, by ``id``.
    """

    def __init__(self, file: Any, taken: _Taken) -> None:
        self.file, self.taken, self.objects = file, taken, 0
        self.stack: list[Any] = []
        # What is remembered, by number; by mark, how much was on the stack and remembered there.
        self.memo: list[Any] = []
        self.marks: list[tuple[int, int]] = []

    def read_all(self) -> Any:
        """Return the object.

        Raises PickleError for other instructions, broken data, and more than ``MOST_OBJECTS``.
        """
        at = 0
        try:
            for opcode, value, place in pickletools.genops(self.file):
                at = place or 0
                self._do(opcode.name, value)
            return self.stack.pop()
        except _DAMAGED:
            told = f"it is damaged at byte {at:,}, or of another program"
            if not self.file.read(1):
                told = f"it breaks off at byte {self.file.tell():,}"
            raise PickleError(f"{told}; expected a pickle {AS_WRITTEN}") from None

    def _do(self, name: str, value: Any) -> None:
        stack = self.stack
        if name in _VALUES:
            stack.append(value)
        elif name in ("BINGET", "LONG_BINGET"):
            stack.append(self.memo[value])
        elif name in ("MEMOIZE", "BINPUT", "LONG_BINPUT"):
            at = len(self.memo) if value is None else value
            self.memo[at : at + 1] = [stack[-1]]
        elif name in _CONSTANTS:
            stack.append(_CONSTANTS[name])
        elif name in _CONTAINERS:
            self.objects += 1
            if self.objects > MOST_OBJECTS:
                raise PickleError(f"it holds more than {MOST_OBJECTS:,} lists and dictionaries")
            stack.append(_CONTAINERS[name]())
        elif name == "MARK":
            self.marks.append((len(stack), len(self.memo)))
            if len(self.marks) > _MOST_MARKS:
                raise PickleError("it is nested deeper than any snapshot")
        elif name in _TAKING:
            self._fill(name)
        elif name not in ("PROTO", "FRAME", "STOP"):
            raise PickleError(f"it holds the instruction {name.lower()}, which no snapshot has")

    def _fill(self, name: str) -> None:
        """Put what stands on the stack into a tuple, a list or a dictionary."""
        stack, memo = self.stack, self.memo
        at, began = len(stack) - _TAKING[name], max(len(memo) - 8, 0)
        if not _TAKING[name]:
            at, began = self.marks.pop()
        values = stack[max(at, 0) :]
        del stack[max(at, 0) :]
        if name.startswith("TUPLE"):
            stack.append(tuple(values))
        elif name.startswith("SETITEM"):
            for key in values[::2]:
                if type(key) is not str and not (type(key) is int and abs(key) < _MOST_KEY):
                    raise PickleError("it holds a key that is no text, which no snapshot has")
            stack[-1].update(zip(values[::2], values[1::2], strict=True))
        else:
            kept, replaced = self.taken(values, stack[-1])
            for index in range(began, len(memo)) if replaced else ():
                memo[index] = replaced.get(id(memo[index]), memo[index])
            self.objects -= len(replaced)
            stack[-1].extend(kept)
