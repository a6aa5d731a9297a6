"""What a script does with gradients beside the optimizer, and how many it adds up before a step."""

import builtins
from collections.abc import Iterable, Iterator

from memlint.engine.growth import changes_in_place, divisors_of, operands_in
from memlint.engine.guards import conditions_of_calls, moduli_in
from memlint.engine.modes import is_off_around
from memlint.engine.nodes import (
    CallNode,
    Expression,
    arguments_of,
    call_itself,
    called_name,
    calls_in,
    holder_of,
    last_name,
)
from memlint.engine.project import is_elsewhere, is_library
from memlint.engine.usage import Way
from memlint.engine.values import Class, Function, Value, options
from memlint.flow.evaluated import query
from memlint.flow.events import loops_of
from memlint.script.calls import Host
from memlint.script.forward_passes import steps_of
from memlint.script.guesses import may_use
from memlint.script.loaded_models import model_facts
from memlint.script.loop_models import LoopModel, loop_models_of

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
    """True if a function reads ``.grad``, by ``getattr`` too, and never compares it with None."""
    nodes, flow = script.attributes("grad"), script.flow
    checked = {flow.scope(one) for one in nodes if script.use(one).way is Way.COMPARED}
    return any("grad" in text.split(".") for text in script.strings) or any(
        flow.scope(one) not in checked
        and not script.text(one.value).endswith(("torch", "autograd"))
        for one in nodes
    )


@query
def detaches_gradients(script: Host) -> bool:
    """True if the script replaces or detaches a gradient, which a view of a bucket refuses."""
    detached = any(script.use(one).name == "detach_" for one in script.attributes("grad"))
    return detached or script.sets("grad")


@query
def accumulation_of(script: Host) -> int | None:
    """Micro-batches for each step of a hand-written loop; None where it is one, or unknown."""
    for call in script.calls_anywhere("accelerate.Accelerator"):
        steps = call.setting("gradient_accumulation_steps").value
        if type(steps) is int and steps > 1:
            return steps
    return _first_count(script, _counts(script))


@query
def accumulates_unknown(script: Host) -> bool:
    """True if a loop steps after several micro-batches, and nobody can tell how many."""
    makers = script.calls_anywhere("accelerate.Accelerator")
    given = [one.setting("gradient_accumulation_steps") for one in makers]
    values = [one.value for one in given if one.given is not False]
    return any(type(one) is not int for one in (*values, *map(script.python, _counts(script))))


def _counts(script: Host) -> list[Expression]:
    """What turns are counted by between two steps of the optimizer."""
    tests = [test for step in steps_of(script) for test in conditions_of_calls(step.node, "step")]
    return [*_turns_before_step(script), *(one for test in tests for one in moduli_in(test))]


def _turns_before_step(script: Host) -> Iterator[Expression]:
    """Yield ``4`` of ``for _ in range(4):`` around the backward pass alone, or of
    ``islice(rows, 4)``."""
    for step in steps_of(script):
        steppers = [one for call in step.optimizer_steps for one in call.invocations]
        turns = call_itself(getattr(step.node, "iter", None))
        if steppers and turns and not any(step.node in loops_of(one) for one in steppers):
            counted = {"range": turns.args[:1], "islice": turns.args[1:2]}
            yield from counted.get(called_name(turns), ())


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


# -- weights without a gradient --------------------------------------------------------------------
# An optimizer skips a weight whose gradient is None, and still moves one whose gradient is zero, by
# momentum and decay. So the two are the same only where no weight is ever idle.

_WEIGHTS = frozenset({"parameters", "named_parameters"})
_HOLDING = _WEIGHTS | {"modules", "param_groups"}
_BUILTINS = frozenset(dir(builtins))
# What runs on some steps alone, or trains other weights from some step on.
_BRANCHES = ("requires_grad", "layerdrop", "drop_path", "add_param_group")


@query
def trains_all_weights(script: Host) -> bool:
    """True if each step certainly gives a gradient to all weights that it trains, and these are
    handed to nothing out of sight, which might read gradients."""
    if (
        len(loop_models_of(script)) != 1
        or len(steps_of(script)) != 1
        or may_use(script, *_BRANCHES)
    ):
        return False
    (model,) = loop_models_of(script)
    weights = [node.value for name in _WEIGHTS for node in script.attributes(name)]
    return (
        model.facts.family.dense
        and _runs_each_turn(script, model)
        and bool(weights)
        and all(_is_model(script, node, model) for node in weights)
        and not any(_handed_out(script, model))
    )


def _runs_each_turn(script: Host, model: LoopModel) -> bool:
    """True if the one forward pass of the step runs in every turn, and gives the loss."""
    step = model.step
    if len(model.forwards) != 1 or len(step.all_forwards) != 1 or len(step.backwards) != 1:
        return False
    passes = (model.forwards[0].node, step.backwards[0].node)
    return model.forwards[0].computes_loss and all(
        script.flow.is_run_each_turn(step.node, node) for node in passes
    )


def _is_model(script: Host, node: Expression, model: LoopModel) -> bool:
    load = model_facts(script, script.value(node)).load
    return load is not None and load.node is model.load.node


def _handed_out(script: Host, model: LoopModel) -> Iterator[bool]:
    """For each call out of sight, whether it gets the model or its weights."""
    holders = _holders(script)
    for call in script.call_nodes:
        if not _is_in_sight(script, call):
            for node in operands_in(*arguments_of(call)):
                yield not _is_asked(script, node) and (
                    last_name(node) in _HOLDING
                    or script.text(node) in holders
                    or _is_model(script, node, model)
                )


def _holders(script: Host) -> set[str]:
    """The names and attributes that are given weights: lists of them, and the optimizer."""
    return {
        name
        for name, statements in script.stores.items()
        for one in statements
        if one.value is not None
        and any(last_name(node) in _HOLDING for node in operands_in(one.value))
    }


def _is_asked(script: Host, node: Expression) -> bool:
    """True if only a method or an attribute of something is wanted: ``model.config``."""
    use = script.use(node)
    if use.way is Way.CALLED:
        return last_name(node) not in _HOLDING
    return use.way in (Way.READ, Way.METHOD) and use.name not in _WEIGHTS


def _is_in_sight(script: Host, call: CallNode) -> bool:
    """True if a call is of the script itself, of Python or of a library."""
    values = list(options(script.value(call.func)))
    if all(isinstance(one, Function | Class) for one in values):
        return not any(is_elsewhere(getattr(one, "node", None)) for one in values)
    known = script.call_anywhere(call)
    name = known.name if known is not None else "?"
    return name in _BUILTINS or is_library(name)
