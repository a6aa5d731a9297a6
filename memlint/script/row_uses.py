"""What the rows are read for that an expression makes, by where they go."""

from __future__ import annotations

from memlint.engine.nodes import Expression, Node, called_name, calls_in, holder_of
from memlint.engine.rows import Rows
from memlint.engine.usage import Usage, Way
from memlint.flow.callables import EVALUATES, GENERATES, RETURNS_ROWS, SHOWS, STEPS
from memlint.flow.following import uses_of
from memlint.script.calls import Host
from memlint.script.datasets import all_datasets_of
from memlint.script.purpose import Purpose, purpose_of_loop

Purposes = set[Purpose]
_DEPTH = 5
_LISTS = ("List", "Tuple")
# What rows are put into, and what makes a data set of them.
_HOLDERS = (*_LISTS, "Dict", "ListComp", "GeneratorExp")
_BUILDERS = ("from_dict", "from_list", "from_generator", "TensorDataset", "DatasetDict")
_GROWS = ("append", "extend")


def purpose_of(script: Host, node: Expression) -> Purpose:
    """The purpose of the rows that ``node`` makes; UNKNOWN where a use cannot be followed."""
    readers = {
        dataset.purpose
        for dataset in all_datasets_of(script)
        if any(_made_at(rows, node) for rows in dataset.rows)
    }
    uses = _uses(script, node)
    if Purpose.TRAINING in readers | uses:
        return Purpose.TRAINING
    for known in (readers, uses):
        if known and Purpose.UNKNOWN not in known:
            return min(known)
    return Purpose.UNKNOWN


def are_trained_on(script: Host, node: Expression) -> bool:
    """True if what an expression makes becomes rows that are trained on: in a list, a dict, a
    generator, or what a function returns."""
    return Purpose.TRAINING in _uses(script, node, holds=True)


def _made_at(rows: Rows, node: Expression) -> bool:
    return rows.made_by is not None and rows.made_by.node is node


# -- uses of an expression -------------------------------------------------------------------------


def _uses(script: Host, node: Node, depth: int = _DEPTH, *, holds: bool = False) -> Purposes:
    """The purposes of the rows that an expression makes, by the code around it.

    holds: whether rows are followed into what they are put into.
    """
    if depth == 0:
        return {Purpose.UNKNOWN}
    purposes: Purposes = set()
    for use in uses_of(script, node, _holds_rows if holds else _has_rows):
        if holds and use.way is Way.GIVEN and use.name in _GROWS:
            for read in _reads_of_holder(script, use):
                purposes |= _uses(script, read, depth - 1, holds=True)
        elif use.way is Way.GIVEN:
            purposes |= _of_argument(script, use)
        elif use.way is Way.LOOPED:
            purposes.add(_of_loop(script, use.around))
        elif use.way is Way.RETURNED and (use.name == "Return" or holds):
            purposes |= _of_callers(script, use.around, depth - 1, holds)
        elif use.way not in (Way.DROPPED, Way.PRINTED):
            purposes.add(Purpose.UNKNOWN)
    return purposes


def _has_rows(use: Usage) -> bool:
    """True if what a use makes has the rows: ``rows.map(f).shuffle()["train"]``."""
    if use.way is Way.GIVEN:
        return use.name in RETURNS_ROWS
    return use.way in (Way.METHOD, Way.ITEM) or (use.way is Way.HELD and use.name in _LISTS)


def _holds_rows(use: Usage) -> bool:
    """True if what a use makes has the rows, or is a data set or a collection of them."""
    built = use.way is Way.GIVEN and use.name in _BUILDERS
    held = use.way is Way.HELD and use.name in _HOLDERS
    return built or held or use.way is Way.READ or _has_rows(use)


def _reads_of_holder(script: Host, use: Usage) -> list[Expression]:
    """Where the list is read that rows are appended to."""
    holder = holder_of(use.call)
    if holder is None:
        return []
    reads = script.flow.uses(script.text(holder), script.flow.scope(holder))
    return [one for one in reads if one is not holder]


def _of_argument(script: Host, use: Usage) -> Purposes:
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


def _of_loop(script: Host, loop: Node) -> Purpose:
    methods = {called_name(call) for call in calls_in(loop)}
    if methods & STEPS:
        return Purpose.TRAINING
    if methods & EVALUATES:
        return Purpose.EVALUATION
    if methods & GENERATES:
        return Purpose.INFERENCE
    return purpose_of_loop(script, loop) or Purpose.UNKNOWN


def _of_callers(script: Host, returned: Node, depth: int, holds: bool = False) -> Purposes:
    function = script.function(returned)
    calls: list[Node] = [*script.calls_named(function.name)] if function is not None else []
    if function is not None and holds:
        # ``from_generator(rows)``: it is called there.
        given = [one for one in script.mentions(function.name) if script.use(one).way is Way.GIVEN]
        calls += [script.use(one).around for one in given if script.use(one).name in _BUILDERS]
    purposes = [_uses(script, call, depth, holds=holds) for call in calls]
    return set().union(*purposes) if purposes else {Purpose.UNKNOWN}


def _of_parameter(name: str) -> Purpose:
    if name.startswith("train"):
        return Purpose.TRAINING
    if name.startswith(("eval", "test", "valid")):
        return Purpose.EVALUATION
    return Purpose.UNKNOWN
