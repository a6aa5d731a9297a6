"""What a script asks of models' outputs, and whether it reads it.

An output that is handed to code out of sight may be read there.
"""

from __future__ import annotations

from memlint.engine.growth import ConfigAssignment, config_assignments_in
from memlint.engine.nodes import CallNode, last_name, literal_of
from memlint.engine.tensors import Output
from memlint.engine.usage import Usage, Way
from memlint.engine.values import options
from memlint.script.calls import Host
from memlint.script.guesses import is_output_name

_HANDED_ON = (Way.RETURNED, Way.HELD, Way.GIVEN)


def config_assignments(script: Host, option: str) -> tuple[ConfigAssignment, ...]:
    """The statements ``model.config.option = value``, in source order."""
    return tuple(one for one in config_assignments_in(script) if one.option == option)


def may_read_output(script: Host, field: str) -> bool:
    """True if anything may read a field of outputs: by name, by place, or in code elsewhere."""
    option = f"output_{field}"
    if any(field in word and word != option for word in script.spelled):
        return True
    calls = script.call_nodes
    named = [one for one in script.variables if is_output_name(one.id)]
    outputs = [
        *named,
        *(one for one, value in script.evaluated() if any(map(_is_output, options(value)))),
    ]
    return (
        any(_is_place(script.use(one)) for one in (*calls, *outputs))
        or any(_unpacks_forward(script, call) for call in calls)
        or any(script.use(one).way in _HANDED_ON for one in outputs if last_name(one))
    )


def _is_output(value: object) -> bool:
    return isinstance(value, Output)


def _is_place(use: Usage) -> bool:
    """True for ``outputs[2]``: a place that may be that of the field."""
    if use.way is not Way.ITEM or use.by is None:
        return False
    place = literal_of(use.by)
    return use.name in ("UnaryOp", "Slice") or (isinstance(place, int) and place != 0)


def _unpacks_forward(script: Host, node: CallNode) -> bool:
    """``loss, logits, *rest = model(...)``."""
    use = script.use(node)
    if use.way is not Way.STORED or not any(place.unpacked for place in use.places):
        return False
    call = script.call_at(node)
    return call is not None and (call.name == "?" or call.name.endswith(".__call__"))
