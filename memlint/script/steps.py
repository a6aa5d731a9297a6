"""The training steps of hand-written loops, and the names that a step leaves bound when it ends."""

from __future__ import annotations

from collections import defaultdict
from functools import cached_property
from typing import TYPE_CHECKING

from memlint.engine.answers import any_of
from memlint.engine.forwards import Certainty, ForwardRun
from memlint.engine.growth import target_named
from memlint.engine.invocations import Invocation
from memlint.engine.names import Loop
from memlint.engine.nodes import Statement
from memlint.engine.project import is_elsewhere
from memlint.engine.tensors import Output, Tensor
from memlint.engine.values import Binding, options
from memlint.flow.events import EventKind, loops_of
from memlint.script.calls import Call
from memlint.source.record import NamedTuple

if TYPE_CHECKING:
    from memlint.engine.nodes import Definition, Node
    from memlint.script.forward_passes import Forward
    from memlint.script.model import Script


class Step:
    """A training step: one turn of the innermost loop around a backward pass.

    node: the loop. backwards, forwards: those that it runs, in functions that it calls too.
    optimizer_steps, zero_grads: likewise; they may be in an outer loop (accumulation). Calls in
        other files of the project are left out.
    epochs: the loops around it, outermost first, those of callers included.
    """

    def __init__(self, script: Script, node: Loop, invocations: list[Invocation]) -> None:
        self.script = script
        self.node = node
        self._invocations = invocations

    def __repr__(self) -> str:
        return f"<step line {self.node.lineno}>"

    @cached_property
    def backwards(self) -> tuple[Call, ...]:
        return self.script.calls_of(self._invocations)

    @property
    def forwards(self) -> tuple[Forward, ...]:
        """The forward passes of this file that a step runs, evaluation within it left out."""
        return tuple(one for one in self.all_forwards if not one.elsewhere)

    @cached_property
    def all_forwards(self) -> tuple[Forward, ...]:
        """Those in other files of the project too."""
        return tuple(
            forward
            for forward in self.script.all_forwards
            if any(self.runs_it(run) for run in forward.runs)
        )

    def runs_it(self, run: ForwardRun) -> bool:
        """True if a step runs it itself, or in an inner loop that is not evaluation."""
        loops = loops_of(run.invocation)
        if self.node not in loops:
            return False
        return loops[-1] is self.node or run.training is not False

    @cached_property
    def epochs(self) -> tuple[Loop, ...]:
        return loops_of(self._invocations[0])[:-1]

    @property
    def function(self) -> Definition | None:
        return self.script.function(self.node)

    @cached_property
    def optimizer_steps(self) -> tuple[Call, ...]:
        return self._calls(EventKind.OPTIMIZER_STEP)

    @cached_property
    def zero_grads(self) -> tuple[Call, ...]:
        return self._calls(EventKind.ZERO_GRAD)

    def _calls(self, kind: EventKind) -> tuple[Call, ...]:
        """The calls of a kind in this loop or one around it."""
        loops = {self.node, *self.epochs}
        return self.script.calls_of(
            [
                event.invocation
                for event in self.script.events
                if event.kind is kind and not loops.isdisjoint(loops_of(event.invocation))
            ]
        )

    @cached_property
    def held(self) -> tuple[Held, ...]:
        """The names that a step leaves bound to outputs or tensors when it ends."""
        return held_after(self.script, self.node)


def steps_of(script: Script) -> tuple[Step, ...]:
    """Training steps of hand-written loops, those whose backward is in a function too."""
    by_loop: dict[Loop, list[Invocation]] = defaultdict(list)
    for event in script.events:
        if event.kind is EventKind.BACKWARD:
            loops = loops_of(event.invocation)
            if loops and not is_elsewhere(loops[-1]):
                by_loop[loops[-1]].append(event.invocation)
    found = [Step(script, node, invocations) for node, invocations in by_loop.items()]
    return tuple(sorted(found, key=lambda step: script.span(step.node)))


class Held(NamedTuple):
    """A name that a step leaves bound to outputs or tensors.

    values: what it may hold then. statement: what binds it, None where several do.
    place: the node to point at: the name where one statement binds it, else what makes a value.
    sure: whether every path through the step leaves it bound to such a value.
    holds_logits: whether it may keep something as large as a language model's logits alive; None
        where it is not known whether the model is one, or whether its logits are computed.
    """

    name: str
    values: tuple[Output | Tensor, ...]
    statement: Statement | None
    sure: bool
    holds_logits: bool | None
    place: Node


def held_after(script: Script, loop: Loop) -> tuple[Held, ...]:
    """The names that one turn of a loop leaves bound to outputs or tensors, in source order."""
    ends = script.loop_ends(loop)
    names = dict.fromkeys(name for end in ends for name in end)
    found = [_held(script, loop, name, [end.get(name) for end in ends]) for name in names]
    return tuple(
        sorted(
            (one for one in found if one is not None),
            key=lambda one: (one.statement.lineno if one.statement else 0, one.name),
        )
    )


def _held(script: Script, loop: Loop, name: str, ends: list[Binding | None]) -> Held | None:
    """What a name may hold at the end of a turn; None where it holds no output and no tensor.

    ends: what each run of a turn leaves under it.
    """
    known = [binding for binding in ends if binding is not None]
    every = [one for binding in known for one in options(binding.value)]
    values = tuple(one for one in every if isinstance(one, Output | Tensor))
    if not values:
        return None
    owners = {binding.owner for binding in known}
    owner = owners.pop() if len(owners) == 1 else None
    statement = owner if isinstance(owner, Statement) else None
    return Held(
        name,
        values,
        statement,
        sure=len(values) == len(every) and len(known) == len(ends),
        holds_logits=any_of(_holds_logits(script, value) for value in values),
        place=_binding(statement, name) or _maker(values[0]) or loop,
    )


def _holds_logits(script: Script, value: Output | Tensor) -> bool | None:
    """True if a value keeps the logits of all positions, or a copy of them."""
    if isinstance(value, Tensor) and not (value.as_large_as_logits or _views_large(value)):
        return False
    if value.forward is None:
        return None
    forward = script.forward_at(value.forward.invocation.node)
    if forward is None:
        return None
    read = isinstance(value, Tensor) or bool(value.made)
    if forward.certainty is not Certainty.DEFINITE and not read:
        # Nothing reads a field of what comes back: it may be no model's output.
        return None
    return forward.gives_full_logits


def _views_large(tensor: Tensor) -> bool:
    """True if a slice keeps the whole of what it is a view of."""
    return tensor.copy is False and any(
        source.as_large_as_logits or _views_large(source) for source in tensor.sources
    )


def _binding(statement: Statement | None, name: str) -> Node | None:
    """The name in the targets of a statement."""
    return target_named(statement, name) or statement


def _maker(value: Output | Tensor) -> Node | None:
    """The expression that makes a value, where it is in this file."""
    node: Node | None = value.node
    return None if node is None or is_elsewhere(node) else node
