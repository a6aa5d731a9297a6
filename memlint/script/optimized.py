"""Which of a model's parameters an optimizer is given: all of them, or certain ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memlint.engine.groups import conditions_of

if TYPE_CHECKING:
    from memlint.script.calls import Call
    from memlint.script.model import Script


def optimizes_all(script: Script, optimizer: Call) -> bool:
    """True if an optimizer certainly gets all parameters of a model that are trained, in one
    group or in two that a condition parts."""
    params = optimizer.keyword_node("params")
    node = params.value if params is not None else next(iter(optimizer.node.args), None)
    conditions = list(conditions_of(script.flow, node)) if node is not None else ["?"]
    return all(_is_met(condition, conditions) for condition in conditions)


def _is_met(condition: str, conditions: list[str]) -> bool:
    """True if what does not meet a condition is in another group, or not trained."""
    opposite = condition.removeprefix("not ") if condition[:4] == "not " else f"not {condition}"
    return not condition or "" in conditions or opposite in conditions
