"""Where a script minds errors: it goes on after one of a training step, or looks for versions."""

from collections.abc import Iterable
from functools import partial

from memlint.engine.guards import calls_after_failure, looked_up_in, minds_versions, survivable
from memlint.engine.nodes import Node, called_name, calls_in, literal_of
from memlint.engine.project import is_elsewhere
from memlint.engine.values import Symbol
from memlint.flow.evaluated import query
from memlint.script.called import Call
from memlint.script.calls import Host
from memlint.script.forward_passes import forwards_of
from memlint.script.guesses import may_ask_for_a_version

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


# -- versions --------------------------------------------------------------------------------------

_SIGNATURES = ("inspect.signature", "inspect.getfullargspec", "dataclasses.fields")


def is_guarded(script: Host, node: Node) -> bool:
    """True if the script itself minds versions here: it catches the error, or asks first."""
    of: Node = getattr(node, "func", None) or getattr(node, "value", None) or node
    return minds_versions(script, node, partial(may_ask_for_a_version, script, script.text(of)))


def retries_of(script: Host, call: Call) -> tuple[Call, ...]:
    """The calls of the same thing where a handler has caught what ``call`` raises."""
    found = map(script.call_at, calls_after_failure(script, call.node))
    return tuple(one for one in found if one is not None and one.name == call.name)


@query
def names_looked_up(script: Host) -> frozenset[str]:
    """Options that the script looks for in a signature before it passes them: those that it names,
    or all words of it where it goes through names. Other files count if they ask what is known."""
    asked: set[Node] = {
        call.node
        for call in script.calls_anywhere(*_SIGNATURES)
        if isinstance(call.argument(0), Symbol) or not is_elsewhere(call.node)
    }
    asked.update(script.attributes("__dataclass_fields__") + script.attributes("co_varnames"))
    asked.update(
        call.node
        for call in script.calls_to("hasattr")
        if len(call.node.args) == 2
        and literal_of(call.node.args[1]) is None
        and not getattr(script.value(call.node.args[0]), "name", "").rpartition(".")[2].islower()
    )
    return looked_up_in(script, asked) if asked else frozenset()
