"""What a script asks of models' outputs, and whether it reads it.

An output that is handed to code out of sight may be read there.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from memlint.engine.tensors import Output
from memlint.engine.values import options
from memlint.script.guesses import is_output_name
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
    """True if anything may read a field of outputs: by name, by place, or in code elsewhere."""
    option = f"output_{field}"

    def means(word: str) -> bool:
        return field in word and word != option

    return (
        any(means(node.attr) for node in script.nodes(ast.Attribute))
        or any(means(node.id) for node in script.nodes(ast.Name))
        or any(
            isinstance(node.value, str) and means(node.value) for node in script.nodes(ast.Constant)
        )
        or any(_is_place(script, node) for node in script.nodes(ast.Subscript))
        or any(_unpacks_forward(script, node) for node in script.nodes(ast.Assign))
        or any(_hands_on(script, node) for node in script.nodes(ast.Name))
    )


def _is_place(script: Script, node: ast.Subscript) -> bool:
    """True for ``outputs[2]``: a place that may be that of the field."""
    if not _may_be_output(script, node.value):
        return False
    match node.slice:
        case ast.Constant(value=int(place)):
            return place != 0
        case ast.UnaryOp() | ast.Slice():
            return True
        case _:
            return False


def _may_be_output(script: Script, node: ast.expr) -> bool:
    """True if a value may be what a forward pass returns, or is called so."""
    if any(isinstance(one, Output) for one in options(script.value(node))):
        return True
    return isinstance(node, ast.Call) or (isinstance(node, ast.Name) and is_output_name(node.id))


def _unpacks_forward(script: Script, node: ast.Assign) -> bool:
    """``loss, logits, *rest = model(...)``."""
    if not isinstance(node.targets[0], ast.Tuple | ast.List):
        return False
    call = script.call_at(node.value)
    return call is not None and (call.name == "?" or call.name.endswith(".__call__"))


def _hands_on(script: Script, node: ast.Name) -> bool:
    """True if outputs are handed on whole, to where nobody sees what is read."""
    if not isinstance(node.ctx, ast.Load) or not _may_be_output(script, node):
        return False
    parent = script.parent(node)
    if isinstance(parent, ast.Return | ast.Tuple | ast.List | ast.Yield | ast.keyword):
        return True
    return isinstance(parent, ast.Call) and node in parent.args
