"""What a script does with gradients beside the optimizer, and how many it adds up before a step."""

from __future__ import annotations

from collections.abc import Iterable

from memlint.engine.growth import changes_in_place, divisors_of
from memlint.engine.guards import conditions_of_calls, moduli_in
from memlint.engine.modes import is_off_around
from memlint.engine.nodes import CallNode, Expression, called_name, calls_in, holder_of
from memlint.engine.usage import Way
from memlint.engine.values import Function, Value
from memlint.flow.evaluated import query
from memlint.script.calls import Host
from memlint.script.forward_passes import steps_of

# Captured graphs write into the gradients that they were captured with.
_GRAPHS = frozenset({"CUDAGraph", "graph", "make_graphed_callables"})


@query
def needs_gradients_in_place(script: Host) -> bool:
    """True if something writes into gradients that must be there: a captured CUDA graph, or the
    script itself, which adds to ``.grad``."""
    graphs = [one for name in _GRAPHS for one in script.attributes(name)]
    names = [one for one in script.stores if one.endswith(".grad")]
    changed = [one for name in names for one in script.stores[name]]
    return any(script.text(one.value).endswith("cuda") for one in graphs) or any(
        map(changes_in_place, changed)
    )


@query
def reads_gradients_unchecked(script: Host) -> bool:
    """True if a function of the script reads ``.grad`` and never compares it with None: by
    ``getattr`` or an ``attrgetter`` too."""
    nodes, flow = script.attributes("grad"), script.flow
    checked = {flow.scope(one) for one in nodes if script.use(one).way is Way.COMPARED}
    return any("grad" in text.split(".") for text in script.strings) or any(
        flow.scope(one) not in checked
        and not script.text(one.value).endswith(("torch", "autograd"))
        for one in nodes
    )


@query
def detaches_gradients(script: Host) -> bool:
    """True if the script replaces a gradient, or takes it off its graph in place, which a view of
    a bucket refuses."""
    detached = any(script.use(one).name == "detach_" for one in script.attributes("grad"))
    return detached or script.sets("grad")


@query
def accumulation_of(script: Host) -> int | None:
    """Micro-batches for each step of a hand-written loop; None where it is one, or unknown."""
    for call in script.calls_anywhere("accelerate.Accelerator"):
        steps = call.setting("gradient_accumulation_steps").value
        if type(steps) is int and steps > 1:
            return steps
    tests = [test for step in steps_of(script) for test in conditions_of_calls(step.node, "step")]
    return _first_count(script, (one for test in tests for one in moduli_in(test)))


@query
def loss_divisor_of(script: Host) -> int | None:
    """``4`` of ``loss = model(...).loss / 4``, ``loss /= 4`` or ``(loss / 4).backward()``."""
    divisors = (
        divisor
        for step in steps_of(script)
        for backward in step.backwards
        if (loss := holder_of(backward.node)) is not None
        for divisor in divisors_of(step.node, loss)
    )
    return _first_count(script, divisors)


def _first_count(script: Host, nodes: Iterable[Expression]) -> int | None:
    """The first number above one that an expression certainly is."""
    numbers = map(script.python, nodes)
    return next((one for one in numbers if type(one) is int and one > 1), None)


def steps_optimizer(function: Value) -> bool:
    """True if a function of the script calls a method ``step``."""
    node = function.node if isinstance(function, Function) else None
    return node is not None and any(
        called_name(call) == "step" and holder_of(call) is not None for call in calls_in(node)
    )


def without_gradients(script: Host, node: CallNode) -> bool:
    """True if a call definitely runs without autograd, on paths that no run reaches too."""
    call = script.call_at(node)
    return call.without_gradients if call is not None else is_off_around(script.ancestors(node))
