"""Where a value goes out of sight: returned to nobody known, stored, put in a container, compared,
handed to a function that is not followed.

What reads a tensor in sight is a use (``script.uses_at``), and what reads an object is an
attribute. All other places where it stands may lead to code that reads any of it.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from memlint.engine.project import is_elsewhere, is_library
from memlint.engine.tensors import Tensor
from memlint.engine.values import Class, Function, Object, Value, options

if TYPE_CHECKING:
    from memlint.script.model import Script

# What is handed an object and reads nothing of it that a rule asks about.
_HARMLESS = frozenset({"print", "type", "repr", "str", "id", "isinstance", "hasattr"})


def places_by_node(script: Script) -> dict[ast.expr, list[ast.expr]]:
    """The expressions that may be a tensor, by the expression that makes the tensor."""
    grouped: dict[ast.expr, list[ast.expr]] = defaultdict(list)
    for place, value in script._run.values.items():
        for one in options(value):
            if isinstance(one, Tensor) and one.node is not None:
                grouped[one.node].append(place)
    return grouped


def goes_out_of_sight(script: Script, node: ast.expr) -> bool:
    """True if the tensor that an expression makes may be read where no use says so."""
    places = script._places.get(node, [])
    used = {use for _, _, use in script.uses_at(node)}

    def follows(call: ast.Call) -> bool:
        return call in used or isinstance(script.value(call.func), Function)

    # Arithmetic with it is a use, a comparison is none.
    others = [place for place in places if script.parent(place) not in used]
    return not all(_is_seen(script, place, places, follows) for place in others)


def members_read(script: Script, objects: Collection[Object]) -> frozenset[str] | None:
    """The attributes that the script reads or sets of objects; None where one of them may go out
    of sight. Calls of libraries that are handed one keep it to themselves."""
    known = set(map(id, objects))
    places = [place for place, value in script._run.values.items() if _holds(value, known)]

    def follows(call: ast.Call) -> bool:
        callee = script.value(call.func)
        name = script.name(call.func) or ""
        return isinstance(callee, Function | Class) or name in _HARMLESS or is_library(name)

    if not all(_is_seen(script, place, places, follows) for place in places):
        return None
    parents = [script.parent(place) for place in places]
    return frozenset(one.attr for one in parents if isinstance(one, ast.Attribute))


def _holds(value: Value, known: set[int]) -> bool:
    return any(id(one) in known for one in options(value))


def _is_seen(
    script: Script,
    place: ast.expr,
    places: Collection[ast.expr],
    follows: Callable[[ast.Call], bool],
) -> bool:
    """True if all is known of what is done with a value where it stands."""
    if isinstance(getattr(place, "ctx", None), ast.Store | ast.Del):
        return True
    if is_elsewhere(place):
        # In another file of the project, whose nodes have no place here.
        return False
    parent = _receiver(script, place)
    match parent:
        case ast.Expr() | ast.Attribute() | ast.NamedExpr():
            return True
        case ast.Compare(ops=[ast.Is() | ast.IsNot()]):
            return True
        case ast.Subscript(value=inner):
            return inner is place
        case ast.Call(func=func):
            return func is place or follows(parent)
        case ast.Assign(targets=[target]) | ast.AnnAssign(target=target):
            return _is_seen_as(script, target, places)
        case ast.Return():
            # What the script itself calls hands it to a place of its own.
            function = script.function(place)
            return any(script.function(other) is not function for other in places)
    return False


def _receiver(script: Script, place: ast.expr) -> ast.AST | None:
    """What gets a value: the call for an argument, the ``return`` for one of several values."""
    parent = script.parent(place)
    if isinstance(parent, ast.keyword) and parent.arg is not None:
        return script.parent(parent)
    if isinstance(parent, ast.Tuple):
        around = script.parent(parent)
        return around if isinstance(around, ast.Return) else parent
    return parent


def _is_seen_as(script: Script, target: ast.expr, places: Collection[ast.expr]) -> bool:
    """True if all reads of what is assigned to are among the places."""
    match target:
        case ast.Name(id=name):
            return not script.is_shared(name)
        case ast.Attribute(value=ast.Name(id="self"), attr=name):
            nodes = [one for one in script.nodes(ast.Attribute) if one.attr == name]
            reads = [one for one in nodes if isinstance(one.ctx, ast.Load)]
            return bool(reads) and all(one in places for one in reads)
    return False


__all__ = ["goes_out_of_sight", "members_read", "places_by_node"]
