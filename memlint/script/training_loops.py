"""Hand-written training loops, as they are written."""

from __future__ import annotations

import ast
from collections import defaultdict
from typing import TYPE_CHECKING

from memlint.script.calls import Call
from memlint.source.record import NamedTuple

if TYPE_CHECKING:
    from memlint.script.model import Script


class Loop(NamedTuple):
    """A hand-written training loop: the innermost loop around a ``backward``.

    node: the ``for`` or ``while``. backward: the calls that run the backward pass in it.
    function: the function that holds it, None at module level.
    """

    node: ast.For | ast.AsyncFor | ast.While
    backward: tuple[Call, ...]
    function: ast.AST | None


def loops_of(script: Script) -> tuple[Loop, ...]:
    """Hand-written training loops."""
    inside: dict[ast.AST, list[Call]] = defaultdict(list)
    for call in script.method_calls("backward"):
        if not isinstance(call.node.func, ast.Attribute):
            continue
        for around in script.ancestors(call.node):
            if isinstance(around, ast.For | ast.AsyncFor | ast.While):
                inside[around].append(call)
                break
            if isinstance(around, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                break
    return tuple(
        Loop(node, tuple(calls), script.function(node))
        for node, calls in inside.items()
        if isinstance(node, ast.For | ast.AsyncFor | ast.While)
    )
