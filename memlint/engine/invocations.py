"""One evaluation of one call, as the interpreter met it."""

from __future__ import annotations

import ast

from memlint.engine.values import Binding, Object, Value, first_object


class Invocation:
    """A call as it was evaluated once.

    name: qualified name of the callee; ``?.method`` for a method of something unknown.
    arguments: positional values, in order.
    keywords: by name, those of splatted dicts included.
    open_arguments, open_keywords: an argument list of unknown length was splatted in.
    receiver: the object whose method is called.
    contexts: qualified names of the ``with`` items and decorators it runs under.
    gradients: whether autograd records then; None where that is not known.
    conditional: whether some undecided condition guards it. in_loop: whether a loop repeats it.
    loops: the loops around it, outermost first, those of callers included.
    order: number of the evaluation; later calls have larger numbers.
    candidates: the qualified names of which one is called, where several may be.
    snapshots: for each argument that is an object, its bindings when the call was made.
    """

    __slots__ = (
        "arguments",
        "candidates",
        "conditional",
        "contexts",
        "function",
        "gradients",
        "in_loop",
        "is_partial",
        "keywords",
        "loops",
        "name",
        "node",
        "open_arguments",
        "open_keywords",
        "order",
        "receiver",
        "snapshots",
        "subclass",
    )

    def __init__(
        self,
        node: ast.Call,
        name: str,
        order: int,
        *,
        receiver: Value | None = None,
        contexts: tuple[str, ...] = (),
        gradients: bool | None = True,
        conditional: bool = False,
        in_loop: bool = False,
        function: ast.AST | None = None,
        loops: tuple[ast.AST, ...] = (),
    ) -> None:
        self.node = node
        self.name = name
        self.order = order
        self.arguments: tuple[Value, ...] = ()
        self.keywords: dict[str, Binding] = {}
        self.open_arguments = False
        self.open_keywords = False
        self.receiver = receiver
        self.contexts = contexts
        self.gradients = gradients
        self.conditional = conditional
        self.in_loop = in_loop
        self.function = function
        self.loops = loops
        self.snapshots: dict[int, dict[str, Binding]] = {}
        self.subclass: ast.ClassDef | None = None
        self.candidates: tuple[str, ...] = ()
        self.is_partial = False

    def __repr__(self) -> str:
        return f"<{self.name} line {self.node.lineno}>"

    def snapshot(self, thing: Object) -> dict[str, Binding] | None:
        """The bindings of an argument as they were when the call was made."""
        return self.snapshots.get(id(thing))

    @property
    def first_object(self) -> Object | None:
        """The object that a call is about: its first argument, by position or by name."""
        given = self.arguments[:1] or [binding.value for binding in self.keywords.values()][:1]
        return first_object(given)

    @property
    def receiver_object(self) -> Object | None:
        """The object whose method is called."""
        return first_object((self.receiver,)) if self.receiver is not None else None
