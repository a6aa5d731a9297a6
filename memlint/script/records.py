"""One evaluation of one call, as the interpreter met it."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from memlint.script.values import UNKNOWN, Object, Slot, Value


@dataclass(eq=False, slots=True)
class Record:
    """A call as it was evaluated once.

    name: qualified name of the callee; ``?.method`` for a method of something unknown.
    arguments: positional values, in order.
    keywords: by name, those of splatted dicts included.
    open_arguments, open_keywords: an argument list of unknown length was splatted in.
    receiver: the object whose method is called.
    contexts: qualified names of the ``with`` items and decorators it runs under.
    conditional: whether some undecided condition guards it. in_loop: whether a loop repeats it.
    order: number of the evaluation; later calls have larger numbers.
    snapshots: for each argument that is an object, its slots when the call was made.
    """

    node: ast.Call
    name: str
    order: int
    arguments: tuple[Value, ...] = ()
    keywords: dict[str, Slot] = field(default_factory=dict)
    open_arguments: bool = False
    open_keywords: bool = False
    receiver: Value | None = None
    contexts: tuple[str, ...] = ()
    conditional: bool = False
    in_loop: bool = False
    function: ast.AST | None = None
    result: Value = UNKNOWN
    snapshots: dict[int, dict[str, Slot]] = field(default_factory=dict)
    subclass: ast.ClassDef | None = None

    def __repr__(self) -> str:
        return f"<{self.name} line {self.node.lineno}>"

    def snapshot(self, thing: Object) -> dict[str, Slot] | None:
        """The slots of an argument as they were when the call was made."""
        return self.snapshots.get(id(thing))
