"""Hand-written training loops, as they are written."""

from __future__ import annotations

from collections import defaultdict

from memlint.engine.name_uses import Loop as LoopNode
from memlint.engine.nodes import Node, holder_of
from memlint.flow.evaluated import query
from memlint.script.called import Call
from memlint.script.calls import Host
from memlint.source.record import NamedTuple


class Loop(NamedTuple):
    """A hand-written training loop: the innermost loop around a ``backward``.

    node: the ``for`` or ``while``. backward: the calls that run the backward pass in it.
    function: the function that holds it, None at module level.
    """

    node: LoopNode
    backward: tuple[Call, ...]
    function: Node | None


@query
def loops_of(script: Host) -> tuple[Loop, ...]:
    """Hand-written training loops."""
    inside: dict[LoopNode, list[Call]] = defaultdict(list)
    for call in script.method_calls("backward"):
        loops = script.flow.loops_around(call.node)
        if loops and holder_of(call.node) is not None:
            inside[loops[0]].append(call)
    return tuple(Loop(node, tuple(calls), script.function(node)) for node, calls in inside.items())
