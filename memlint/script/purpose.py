"""What rows are read for: training, evaluation or inference.

A purpose follows from use, not from a name: a column called ``train_text`` trains nothing, and
prompts that only ``generate`` reads need no collator. Data sets that a trainer or a loader reads
are followed by value. Where rows go otherwise is read off the code around them; a use that is out
of sight leaves the purpose unknown.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import TYPE_CHECKING

from memlint.engine.nodes import called_name, calls_in
from memlint.engine.project import is_elsewhere
from memlint.engine.rows import Rows
from memlint.engine.usage import Usage, Way
from memlint.engine.values import Object, Value, options
from memlint.flow.callables import EVALUATES, GENERATES, RETURNS_ROWS, SHOWS, STEPS
from memlint.flow.events import loops_of
from memlint.flow.following import uses_of
from memlint.script.calls import Call

if TYPE_CHECKING:
    from memlint.engine.nodes import CallNode, Expression, Node
    from memlint.script.model import Script


def tests_of(script: Script) -> list[Node]:
    """Return the functions that nothing calls but a runner of tests, which knows them by name."""
    return [
        node
        for node, runs in script._run.runs.items()
        if not runs and getattr(node, "name", "").startswith("test_") and not is_elsewhere(node)
    ]


class Purpose(StrEnum):
    """What a data set is read for."""

    TRAINING = "training"
    EVALUATION = "evaluation"
    INFERENCE = "inference"
    UNKNOWN = "unknown"


Purposes = set[Purpose]
_DEPTH = 5
_LISTS = ("List", "Tuple")


def purpose_of(script: Script, node: Expression) -> Purpose:
    """The purpose of the rows that ``node`` makes; UNKNOWN where a use cannot be followed."""
    readers = {
        dataset.purpose
        for dataset in script.datasets
        if any(_made_at(rows, node) for rows in dataset.rows)
    }
    uses = _uses(script, node)
    if Purpose.TRAINING in readers | uses:
        return Purpose.TRAINING
    for known in (readers, uses):
        if known and Purpose.UNKNOWN not in known:
            return min(known)
    return Purpose.UNKNOWN


def _made_at(rows: Rows, node: Expression) -> bool:
    return rows.made_by is not None and rows.made_by.node is node


# -- readers of data loaders -----------------------------------------------------------------------


def purpose_of_loader(script: Script, loader: Call) -> Purpose:
    """What a data loader is read for, by the loops that read it."""
    found = {
        purpose for loop in _readers(script, loader) if (purpose := purpose_of_loop(script, loop))
    }
    return found.pop() if len(found) == 1 else Purpose.UNKNOWN


def _readers(script: Script, loader: Call) -> Iterator[Node]:
    """The loops that read a data loader, directly or through ``enumerate``, ``tqdm``, ``next``."""
    for loop, iterated in script.iterations:
        if _comes_from(script.value(iterated), loader.node):
            yield loop
    for call in script.calls_to("next"):
        if _comes_from(call.argument(0), loader.node):
            for invocation in call.invocations:
                yield from loops_of(invocation)[-1:]


def _comes_from(value: Value, loader: CallNode, depth: int = 4) -> bool:
    for one in options(value):
        if isinstance(one, Object) and one.made_by is not None:
            if one.made_by.node is loader:
                return True
            if depth and one.type is None:
                given = one.made_by.arguments
                if any(_comes_from(part, loader, depth - 1) for part in given):
                    return True
    return False


def purpose_of_loop(script: Script, loop: Node) -> Purpose | None:
    """What a loop reads batches for; None where nothing in it is known."""
    for step in script.steps:
        if loop is step.node or loop in step.epochs:
            return Purpose.TRAINING
    generates = any(
        loop in event.loops and event.kind.value == "generate" for event in script.events
    )
    inside = [one for one in script.forwards if any(loop in run.loops for run in one.runs)]
    if generates and not inside:
        return Purpose.INFERENCE
    if any(one.gradients is False or one.training is False for one in inside):
        return Purpose.EVALUATION
    return Purpose.EVALUATION if inside else None


# -- uses of an expression -------------------------------------------------------------------------


def _uses(script: Script, node: Node, depth: int = _DEPTH) -> Purposes:
    """The purposes of the rows that an expression makes, by the code around it."""
    if depth == 0:
        return {Purpose.UNKNOWN}
    purposes: Purposes = set()
    for use in uses_of(script, node, _has_rows):
        if use.way is Way.GIVEN:
            purposes |= _of_argument(script, use)
        elif use.way is Way.LOOPED:
            purposes.add(_of_loop(script, use.around))
        elif use.way is Way.RETURNED and use.name == "Return":
            purposes |= _of_callers(script, use.around, depth - 1)
        elif use.way not in (Way.DROPPED, Way.PRINTED):
            purposes.add(Purpose.UNKNOWN)
    return purposes


def _has_rows(use: Usage) -> bool:
    """True if what a use makes has the rows: ``rows.map(f).shuffle()["train"]``."""
    if use.way is Way.GIVEN:
        return use.name in RETURNS_ROWS
    return use.way in (Way.METHOD, Way.ITEM) or (use.way is Way.HELD and use.name in _LISTS)


def _of_argument(script: Script, use: Usage) -> Purposes:
    if use.name in SHOWS or use.name == "save_to_disk":
        return set()
    if use.name in EVALUATES:
        return {Purpose.EVALUATION}
    if use.name in GENERATES:
        return {Purpose.INFERENCE}
    call, name = script.call_at(use.around), use.keyword
    if call is not None and use.position is not None:
        name = dict(enumerate(call.positions)).get(use.position)
    return {_of_parameter(name or "")}


def _of_loop(script: Script, loop: Node) -> Purpose:
    methods = {called_name(call) for call in calls_in(loop)}
    if methods & STEPS:
        return Purpose.TRAINING
    if methods & EVALUATES:
        return Purpose.EVALUATION
    if methods & GENERATES:
        return Purpose.INFERENCE
    return purpose_of_loop(script, loop) or Purpose.UNKNOWN


def _of_callers(script: Script, returned: Node, depth: int) -> Purposes:
    function = script.function(returned)
    calls = script.calls_named(function.name) if function is not None else []
    purposes = [_uses(script, call, depth) for call in calls]
    return set().union(*purposes) if purposes else {Purpose.UNKNOWN}


def _of_parameter(name: str) -> Purpose:
    if name.startswith("train"):
        return Purpose.TRAINING
    if name.startswith(("eval", "test", "valid")):
        return Purpose.EVALUATION
    return Purpose.UNKNOWN
