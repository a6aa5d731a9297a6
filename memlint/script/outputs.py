"""What a script asks of models' outputs, and whether it reads it.

Names decide: an output that is handed to code out of sight may be read there.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from memlint.source.record import NamedTuple

if TYPE_CHECKING:
    from memlint.script.model import Script


class ConfigAssignment(NamedTuple):
    """``model.config.option = value``."""

    statement: ast.Assign
    model: ast.expr
    value: ast.expr


def config_assignments(script: Script, option: str) -> tuple[ConfigAssignment, ...]:
    """The statements ``model.config.option = value``, in source order."""
    found = []
    for node in script.nodes(ast.Assign):
        match node.targets:
            case [ast.Attribute(attr=name, value=ast.Attribute(value=model, attr="config"))]:
                if name == option:
                    found.append(ConfigAssignment(node, model, node.value))
    return tuple(found)


def may_read_output(script: Script, field: str) -> bool:
    """Whether anything may read a field of outputs: by name, by place, or in code elsewhere."""
    option = f"output_{field}"

    def means(word: str) -> bool:
        return field in word and word != option

    return (
        any(means(node.attr) for node in script.nodes(ast.Attribute))
        or any(means(node.id) for node in script.nodes(ast.Name))
        or any(
            isinstance(node.value, str) and means(node.value) for node in script.nodes(ast.Constant)
        )
        or any(_is_place(node) for node in script.nodes(ast.Subscript))
        or any(_unpacks_forward(script, node) for node in script.nodes(ast.Assign))
        or any(_hands_on(script, node) for node in script.nodes(ast.Name))
    )


def _is_place(node: ast.Subscript) -> bool:
    """``outputs[2]``: a place that may be that of the field."""
    if not isinstance(node.value, ast.Name | ast.Call):
        return False
    named = isinstance(node.value, ast.Call) or "out" in node.value.id or "pred" in node.value.id
    match node.slice:
        case ast.Constant(value=int(place)):
            return named and place != 0
        case ast.UnaryOp() | ast.Slice():
            return named
        case _:
            return False


def _unpacks_forward(script: Script, node: ast.Assign) -> bool:
    """``loss, logits, *rest = model(...)``."""
    if not isinstance(node.targets[0], ast.Tuple | ast.List):
        return False
    call = script.call_at(node.value)
    return call is not None and (call.name == "?" or call.name.endswith(".__call__"))


def _hands_on(script: Script, node: ast.Name) -> bool:
    """Whether outputs are handed on whole, to where nobody sees what is read."""
    if "output" not in node.id or not isinstance(node.ctx, ast.Load):
        return False
    parent = script.parent(node)
    if isinstance(parent, ast.Return | ast.Tuple | ast.List | ast.Yield | ast.keyword):
        return True
    return isinstance(parent, ast.Call) and node in parent.args
