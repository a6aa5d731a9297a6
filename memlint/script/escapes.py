"""Where a tensor goes out of sight: returned to nobody known, stored, put in a container, compared.

What reads a tensor in sight is a use (``script.uses_at``). All other places where it stands may
lead to code that reads any of it.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from typing import TYPE_CHECKING

from memlint.script.project import is_elsewhere
from memlint.script.tensors import Tensor
from memlint.script.values import Function, options

if TYPE_CHECKING:
    from memlint.script.model import Script


def places_by_node(script: Script) -> dict[ast.expr, list[ast.expr]]:
    """The expressions that may be a tensor, by the expression that makes the tensor."""
    grouped: dict[ast.expr, list[ast.expr]] = defaultdict(list)
    for place, value in script._run.values.items():
        for one in options(value):
            if isinstance(one, Tensor) and one.node is not None:
                grouped[one.node].append(place)
    return grouped


def goes_out_of_sight(script: Script, node: ast.expr) -> bool:
    """Whether the tensor that an expression makes may be read where no use says so."""
    places = script._places.get(node, [])
    used = {use for _, _, use in script.uses_at(node)}
    came_back = any(isinstance(place, ast.Call) for place in places)
    return any(
        not isinstance(getattr(place, "ctx", None), ast.Store | ast.Del)
        and not _is_seen(script, place, used, came_back=came_back)
        for place in places
    )


def _is_seen(script: Script, place: ast.expr, used: set[ast.expr], *, came_back: bool) -> bool:
    if is_elsewhere(place):
        # In another file of the project, whose nodes have no place here.
        return False
    parent = script.parent(place)
    if isinstance(parent, ast.keyword):
        if parent.arg is None:
            return False
        parent = script.parent(parent)
    match parent:
        case ast.Expr() | ast.BinOp() | ast.UnaryOp(op=ast.USub()):
            return True
        case ast.Attribute():
            return True
        case ast.Subscript(value=inner):
            return inner is place
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
            return not script.says(f"global {name}", f"nonlocal {name}")
        case ast.NamedExpr():
            return True
        case ast.Call(func=func):
            return parent in used or isinstance(script.value(func), Function)
        case ast.Return():
            # What the script itself calls hands it to a place of its own.
            return came_back
    return False


__all__ = ["goes_out_of_sight", "places_by_node"]
