"""What happens in training, in the order of the run: passes backward, steps, generation."""

from enum import StrEnum

from memlint.engine.name_uses import Turn, is_turn
from memlint.engine.nodes import CallNode, Node, call_itself, holder_of, last_name
from memlint.engine.values import Invocation, Object
from memlint.flow.evaluated import Evaluated, query
from memlint.source.record import NamedTuple


class EventKind(StrEnum):
    BACKWARD = "backward"
    OPTIMIZER_STEP = "optimizer step"
    GENERATE = "generate"
    TRAIN = "train"


class Event(NamedTuple):
    """Something that happens in training. Events are in the order of the run.

    invocation: the call, as it was evaluated this time. loops: those around it, outermost first.
    """

    kind: EventKind
    invocation: Invocation

    @property
    def node(self) -> CallNode:
        return self.invocation.node

    @property
    def loops(self) -> tuple[Node, ...]:
        return self.invocation.loops

    @property
    def order(self) -> int:
        return self.invocation.order


_BY_METHOD = {
    "backward": EventKind.BACKWARD,
    "manual_backward": EventKind.BACKWARD,
    "generate": EventKind.GENERATE,
}
_NOT_OPTIMIZERS = ("sched", "prof", "lr", "env", "progress", "pbar", "tracker", "timer")


@query
def events_of(script: Evaluated) -> tuple[Event, ...]:
    """What happens in training, in the order of the run."""
    passes = {id(run.invocation) for run in script._run.forwards}
    found: list[Event] = []
    for invocation in script.invocations:
        kind = _kind(invocation, passes)
        if kind is not None and call_itself(invocation.node) is not None:
            found.append(Event(kind, invocation))
    return tuple(sorted(found, key=lambda event: event.order))


def _kind(invocation: Invocation, passes: set[int]) -> EventKind | None:
    head, _, method = invocation.name.rpartition(".")
    if id(invocation) in passes or not head:
        return None
    if method == "step":
        return EventKind.OPTIMIZER_STEP if _steps_optimizer(invocation) else None
    if method == "train":
        return EventKind.TRAIN if "Trainer" in head else None
    return _BY_METHOD.get(method)


def _steps_optimizer(invocation: Invocation) -> bool:
    holder = holder_of(invocation.node)
    kind = invocation.receiver.type if isinstance(invocation.receiver, Object) else None
    if kind is not None:
        return holder is not None and "lr_scheduler" not in kind and "profiler" not in kind
    name = last_name(holder).lower()
    return holder is not None and not any(part in name for part in _NOT_OPTIMIZERS)


# -- what outlives a turn --------------------------------------------------------------------------


def loops_of(invocation: Invocation) -> tuple[Turn, ...]:
    """The loops around a call that are statements, outermost first, those of callers included, and
    the method that a trainer runs in every step."""
    return tuple(one for one in invocation.loops if is_turn(one))
