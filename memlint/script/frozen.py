"""Models that a training step runs beside the trained one: references, teachers, reward models.

Such a model is loaded or copied, none of its parameters is ever asked for, and the parameters of
another model of the step are. Nothing trains it, so that a graph of its forward pass serves nobody.
"""

from __future__ import annotations

from memlint.engine.forwards import Certainty, ForwardRun
from memlint.engine.modes import module_root
from memlint.engine.nodes import Node
from memlint.engine.tensors import tensors_in
from memlint.engine.values import Object, options
from memlint.flow.evaluated import query
from memlint.script.calls import Host
from memlint.script.forward_passes import Forward, Step, steps_of
from memlint.source.record import NamedTuple

_ASKS = ("parameters", "named_parameters", "requires_grad_", "state_dict", "load_state_dict")


class FrozenPass(NamedTuple):
    """A forward pass of a frozen model in a training step.

    place: the forward pass, or the call of the helper that runs it for trained models, too.
    """

    forward: Forward
    run: ForwardRun
    step: Step
    place: Node


@query
def frozen_passes(script: Host) -> tuple[FrozenPass, ...]:
    """Forward passes of models that a training step runs and nothing trains, one a place."""
    touched = _roots_of(script, *_ASKS)
    trained = _roots_of(script, "parameters", "named_parameters")
    found: dict[Node, FrozenPass] = {}
    for step in steps_of(script):
        passes = [(one, run) for one in step.forwards for run in one.runs if step.runs_it(run)]
        # The parameters of a module of the script's own are those of what it holds, too.
        if any(one.own for one, _ in passes) or not any(_root(run) in trained for _, run in passes):
            continue
        for forward, run in passes:
            if forward.own or not _is_frozen(run, touched):
                continue
            place = _place(script, forward, run, touched)
            if place is not None:
                found.setdefault(place, FrozenPass(forward, run, step, place))
    return tuple(sorted(found.values(), key=lambda one: script.span(one.place)))


def _roots_of(script: Host, *methods: str) -> set[int]:
    """The modules that one of ``methods`` is called on."""
    return {
        id(module_root(one))
        for call in script.method_calls_anywhere(*methods)
        if call.receiver is not None
        for one in options(call.receiver)
        if isinstance(one, Object)
    }


def _root(run: ForwardRun) -> int | None:
    """The module that a run calls, where it certainly is one and the same."""
    found = options(run.module)
    if len(found) != 1 or not isinstance(found[0], Object):
        return None
    return id(module_root(found[0])) if run.certainty is Certainty.DEFINITE else None


def _is_frozen(run: ForwardRun, touched: set[int]) -> bool:
    """True if a run certainly is of a module that nothing trains, and trains nothing through it."""
    root = _root(run)
    return root is not None and root not in touched and _is_plain(run)


def _is_plain(run: ForwardRun) -> bool:
    """True if no gradient can pass through it to its inputs."""
    given = tensors_in(run.invocation)
    return "inputs_embeds" not in run.invocation.keywords and all(
        one.graph is False for one in given
    )


def _place(script: Host, forward: Forward, run: ForwardRun, touched: set[int]) -> Node | None:
    """The forward pass itself; where a trained model runs at the same place, what leads there."""
    if not any(_root(one) in touched for one in forward.runs):
        return forward.node
    call = script._call_leading_to(run)
    if call is None:
        return None
    # ``self.train_epoch(...)`` of a trainer that several scripts make: trained in one, in all.
    also = [script._call_leading_to(one) for one in forward.runs if _root(one) in touched]
    return None if any(one and one.node is call.node for one in also) else call.node
