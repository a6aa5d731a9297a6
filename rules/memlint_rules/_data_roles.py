"""Where the rows of a data set go: into training, or into evaluation and inference.

A role follows from use, not from a name: a column called ``train_text`` trains nothing, and prompts
that only ``generate`` reads need no collator. Where the use is out of sight there is no role.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Literal

from memlint.rule import Script

Role = Literal["train", "held out"]
Roles = set[Role | None]
_DEPTH = 5
# What returns the rows, or loads them: the role is that of the result.
_HANDS_ON = frozenset(
    {"DataLoader", "prepare", "concatenate_datasets", "interleave_datasets", "DatasetDict", "tqdm"}
    | {"enumerate", "iter", "next", "list", "Subset", "ConcatDataset", "zip", "cycle"}
)
_HELD_OUT = frozenset({"predict", "evaluate", "generate", "pipeline", "batch_generate"})
_LOOKS = frozenset({"print", "pprint", "len", "display", "type", "isinstance", "save_to_disk"})


def role_of(script: Script, node: ast.expr) -> Role | None:
    """The role of the rows that ``node`` makes; None where a use cannot be followed."""
    roles = _roles(script, node, _DEPTH)
    if "train" in roles:
        return "train"
    return "held out" if roles == {"held out"} else None


def _roles(script: Script, node: ast.expr, depth: int) -> Roles:
    if depth == 0:
        return {None}
    node = _whole(script, node)
    parent = script.parent(node)
    match parent:
        case ast.keyword(arg=str() as name):
            return _as_argument(script, node, parent, name, depth)
        case ast.Call() if node in parent.args:
            return _as_argument(script, node, parent, None, depth)
        case ast.Assign(targets=[ast.Name(id=name) as target]):
            return _of_name(script, name, target, depth)
        case ast.For(iter=iterated) if iterated is node:
            return {_of_loop(script, parent)}
        case ast.Return():
            return _of_callers(script, parent, depth)
        case ast.List() | ast.Tuple():
            return _roles(script, parent, depth - 1)
        case ast.Expr() | ast.FormattedValue():
            return set()
    return {None}


def _whole(script: Script, node: ast.expr) -> ast.expr:
    """``rows.map(f).shuffle()["train"]`` for ``rows``."""
    while True:
        parent = script.parent(node)
        match parent:
            case ast.Attribute() if isinstance(script.parent(parent), ast.Call):
                call = script.parent(parent)
                assert isinstance(call, ast.Call)
                if call.func is not parent:
                    return node
                node = call
            case ast.Subscript(value=value) if value is node:
                node = parent
            case _:
                return node


def _as_argument(
    script: Script, node: ast.expr, holder: ast.AST, name: str | None, depth: int
) -> Roles:
    call = script.parent(holder) if isinstance(holder, ast.keyword) else holder
    if not isinstance(call, ast.Call):
        return {None}
    called = call.func.attr if isinstance(call.func, ast.Attribute) else _name(call.func)
    known = script.call_at(call)
    if name is None and known is not None and node in call.args:
        index = call.args.index(node)
        name = known.positions[index] if index < len(known.positions) else None
    if called in _LOOKS:
        return set()
    if called in _HELD_OUT:
        return {"held out"}
    if called in _HANDS_ON:
        return _roles(script, call, depth - 1)
    if name is None:
        return {None}
    if name.startswith("train"):
        return {"train"}
    return {"held out"} if name.startswith(("eval", "test", "valid")) else {None}


def _of_name(script: Script, name: str, target: ast.Name, depth: int) -> Roles:
    home = script.function(target)
    bound = script.statement(target)
    roles: Roles = set()
    for use in script.nodes(ast.Name):
        if use.id != name or not isinstance(use.ctx, ast.Load):
            continue
        if script.function(use) is not home and home is not None:
            continue
        if script.statement(use) is not bound and script.span(use).start > script.span(bound).start:
            roles |= _roles(script, use, depth - 1)
    return roles


def _of_loop(script: Script, loop: ast.For) -> Role | None:
    methods = {_last(node) for node in ast.walk(loop) if isinstance(node, ast.Call)}
    if methods & {"backward", "train_step", "training_step"}:
        return "train"
    return "held out" if methods & _HELD_OUT else None


def _of_callers(script: Script, returned: ast.Return, depth: int) -> Roles:
    function = script.function(returned)
    calls = list(_calls_of(script, function.name)) if function is not None else []
    roles: Roles = set()
    for call in calls:
        roles |= _roles(script, call, depth - 1)
    return roles if calls else {None}


def _calls_of(script: Script, name: str) -> Iterator[ast.Call]:
    return (call for call in script.nodes(ast.Call) if _last(call) == name)


def _last(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else _name(call.func)


def _name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else ""
