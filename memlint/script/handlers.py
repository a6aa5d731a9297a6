"""Where a script goes on after an error of a training step: handlers, and contexts that suppress.

Anomaly detection ends a backward pass with ``RuntimeError``. Where that is caught, it decides which
steps are trained.
"""

from __future__ import annotations

from collections.abc import Iterable

from memlint.engine.guards import survivable
from memlint.engine.nodes import Node, called_name, calls_in
from memlint.engine.project import is_elsewhere
from memlint.flow.evaluated import query
from memlint.script.calls import Host
from memlint.script.forward_passes import forwards_of

# Methods that run a backward pass, or a whole training.
_TRAINING = frozenset({"train", "fit", "training_step", "manual_backward"})


@query
def survives_failed_steps(script: Host) -> bool:
    """True if the script may go on where a step of its training ends in a ``RuntimeError``; what
    another file does about one is not known."""
    if any(is_elsewhere(one.node) for one in script.backward_passes):
        return True
    bodies = survivable(script, lambda one: script.name(one) == "contextlib.suppress")
    return any(_trains(script, body) for body in bodies)


def _trains(script: Host, body: Iterable[Node]) -> bool:
    """True if statements run a forward or backward pass, in functions of the script too."""
    forwards = {one.node for one in forwards_of(script)}
    pending, seen = calls_in(*body), set()
    for call in pending:  # grows meanwhile
        name = called_name(call)
        if call in forwards or name in _TRAINING or name.endswith("backward"):
            return True
        if name not in seen:
            seen.add(name)
            pending += calls_in(*script.definitions_of(name))
    return False
