"""Losses of several forward passes that wait for one backward pass, with the graphs of all.

Where the one loss is a sum or a mean of theirs, a backward pass in each turn adds up the same
gradients, and frees the turn's graph.
"""

from memlint.engine.growth import Store, names_in, scaled_terms, starts_of
from memlint.engine.name_uses import Loop
from memlint.engine.nodes import CallNode, Definition, Expression, Node
from memlint.flow.callables import KEEPS_GRAPH
from memlint.script.calls import Host
from memlint.script.forward_passes import Forward
from memlint.script.reads import forward_of, gets_cache

_MOST = 20  # parts of a sum that are looked at


def waits_for_backward(script: Host, kept: str, value: Expression, loop: Loop | Definition) -> bool:
    """True if each turn of a loop adds ``value``, of language models' passes of its own, to what is
    ``kept``, and one backward pass behind the loop certainly runs through their sum or mean."""
    if isinstance(loop, Definition) or any(loop in one.loops for one in script.backward_passes):
        return False
    forwards = [forward_of(script, one) for one in script.tensors(value)]
    own = all(one is not None and _is_of_turn(script, one, kept, loop) for one in forwards)
    behind = (one.node for one in script.backward_passes if _is_behind(script, one.node, loop))
    return bool(forwards) and own and any(_starts_from(script, one, kept, loop) for one in behind)


def _is_of_turn(script: Host, forward: Forward, kept: str, loop: Loop) -> bool:
    """True if a pass trains on what a turn of the loop makes itself."""
    carried = script.flow.carried(loop) - {kept}
    within = loop in script.flow.loops_around(forward.node)
    trains = forward.in_training_step and forward.gradients is True and not forward.own
    alone = carried.isdisjoint(name.id for name in names_in(forward.node))
    return within and trains and alone and bool(forward.facts.load) and not gets_cache(forward)


def _is_behind(script: Host, node: Node, loop: Loop) -> bool:
    outside = loop not in script.flow.loops_around(node)
    return outside and script.flow.scope(node) is script.flow.scope(loop) and (
        script.is_before(loop, node) is True
    )  # fmt: skip


def _starts_from(script: Host, backward: CallNode, kept: str, loop: Loop) -> bool:
    """True if a backward pass starts from a sum of what a loop kept, scaled or not."""
    parts = [part for one in starts_of(backward) for part in scaled_terms(one, KEEPS_GRAPH)]
    for part in parts:  # grows meanwhile
        behind = [one for one in script.flow.definitions(part) if _is_behind(script, one, loop)]
        if script.text(part) == kept and not behind:
            return True
        stores = [one for one in behind if isinstance(one, Store) and len(parts) < _MOST]
        values = [one.value for one in stores if one.value is not None]
        parts += [part for one in values for part in scaled_terms(one, KEEPS_GRAPH)]
    return False
