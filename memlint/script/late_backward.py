"""Losses of several forward passes that wait for one backward pass, with the graphs of all.

Where the one loss is a sum or a mean of theirs, a backward pass in each turn adds up the same
gradients, and frees the turn's graph.
"""

from __future__ import annotations

import ast

from memlint.engine.growth import names_in, starts_of
from memlint.engine.name_uses import Loop
from memlint.engine.nodes import Definition, Expression
from memlint.engine.tensors import Tensor
from memlint.engine.values import options
from memlint.script.calls import Host
from memlint.script.reads import forward_of, gets_cache

_JOINS = frozenset({"stack", "cat", "concat", "sum", "mean", "scale"})
_DEPTH = 4


def waits_for_backward(script: Host, kept: str, value: Expression, loop: Loop | Definition) -> bool:
    """True if each turn of a loop adds ``value``, of language models' passes of its own, to what is
    ``kept``, and one backward pass behind the loop certainly runs through their sum or mean."""
    if isinstance(loop, Definition) or any(loop in one.loops for one in script.backward_passes):
        return False
    carried = script.flow.carried(loop) - {kept}
    forwards = [forward_of(script, one) for one in script.tensors(value)]
    if not forwards or any(
        one is None
        or one.own
        or not (one.in_training_step and one.facts.load and one.gradients is True)
        or gets_cache(one)
        or loop not in script.flow.loops_around(one.node)
        or any(name.id in carried for name in names_in(one.node))
        for one in forwards
    ):
        return False
    return any(
        _is_sum_of(script, start, kept, loop, _DEPTH)
        for backward in script.backward_passes
        if script.flow.scope(backward.node) is script.flow.scope(loop)
        and script.is_before(loop, backward.node) is True
        for start in starts_of(backward.node)
    )


def _is_sum_of(script: Host, node: Expression, kept: str, loop: Loop, depth: int) -> bool:
    """True if an expression is a sum or a mean of what is kept, scaled or not."""
    match node:
        case ast.Name(id=name):
            stores = script.flow.definitions(node)
            within = any(loop in script.flow.loops_around(one) for one in stores)
            if name == kept and (within or not stores or not script.is_before(loop, stores[0])):
                return True
            values = [one.value for one in stores if isinstance(one, ast.Assign)]
            alone = depth > 0 and len(stores) == len(values) == 1
            return alone and _is_sum_of(script, values[0], kept, loop, depth - 1)
        case ast.Attribute() if script.text(node) == kept:
            return True
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            return _is_sum_of(script, inner, kept, loop, depth)
        case ast.BinOp(op=ast.Mult() | ast.Div(), left=left, right=right):
            plain = not any(isinstance(one, Tensor) for one in options(script.value(right)))
            return plain and _is_sum_of(script, left, kept, loop, depth)
        case ast.Call(func=ast.Attribute(attr="mean" | "sum") as method, args=[]):
            return _is_sum_of(script, method.value, kept, loop, depth)
        case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name), args=[inner, *_]):
            return name in _JOINS and _is_sum_of(script, inner, kept, loop, depth)
    return False
