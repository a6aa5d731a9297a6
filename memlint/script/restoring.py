"""Where ``torch.load`` puts what it reads, and what becomes of it."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from memlint.script.calls import Call
from memlint.script.values import Constant, Object, options

if TYPE_CHECKING:
    from memlint.script.model import Script

_RESTORES = frozenset({"load_state_dict", "load_model_state_dict", "set_peft_model_state_dict"})
# Items of a checkpoint that hold numbers, words, or states that are the CPU's.
_NO_WEIGHTS = re.compile(
    r"epoch|step|iter|loss|best|acc|config|args|score|metric|seed|rng|version|lr$|name|history"
)
_LOOKS = ("len", "print", "isinstance", "list", "sorted", "type")
# A chain of names longer than this is not followed.
_DEPTH = 4


def restores_state(script: Script, call: Call) -> bool:
    """Whether what a call reads certainly goes into ``load_state_dict``, and nothing else is read
    of it but numbers and words: where its tensors are makes no difference then."""
    ends = _ends(script, call.node, _DEPTH)
    return True in ends and None not in ends


def _ends(script: Script, node: ast.AST, depth: int) -> set[bool | None]:
    """What becomes of an expression: True for a state that is restored, False for what is looked
    at only, None for what may be anything."""
    parent = script.parent(node)
    match parent:
        case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name)) if node in parent.args:
            return {True} if name in _RESTORES else {False} if name in _LOOKS else {None}
        case ast.Attribute(attr="get" | "pop" | "keys" | "items" | "values"):
            around = script.parent(parent)
            return _of_item(script, around, getattr(around, "args", [])[:1], depth)
        case ast.Subscript(slice=key) if parent.value is node:
            return _of_item(script, parent, [key], depth)
        case ast.IfExp() if node is not parent.test:
            return _ends(script, parent, depth)
        case ast.comprehension() if parent.iter is node:
            made = script.parent(parent)
            return _ends(script, made, depth) if isinstance(made, ast.DictComp) else {False}
        case ast.Assign(targets=[ast.Name(id=name)]) if depth:
            return _of_name(script, parent, name, depth - 1)
        case ast.Compare() | ast.Expr() | ast.Delete():
            return {False}
    return {None}


def _of_item(
    script: Script, item: ast.AST | None, keys: list[ast.expr], depth: int
) -> set[bool | None]:
    """What becomes of ``checkpoint["model"]``, or of ``checkpoint.get("model")``."""
    if item is None:
        return {None}
    key = script.python(keys[0]) if keys else None
    if isinstance(key, str) and _NO_WEIGHTS.search(key.lower()):
        return {False}
    return _ends(script, item, depth)


def _of_name(script: Script, statement: ast.Assign, name: str, depth: int) -> set[bool | None]:
    found: set[bool | None] = set()
    for use in script.flow.uses(name, script.flow.scope(statement)):
        if statement in script.flow.definitions(use):
            found |= _ends(script, use, depth)
    return found


def device_names(script: Script, call: Call, option: str) -> tuple[str, ...]:
    """The names that the device which a call gets may have, over all paths."""
    found: list[str] = []
    for value in options(call.setting(option).raw):
        inner = options(value)
        made = script.call_anywhere(value.node) if isinstance(value, Object) else None
        if made is not None and made.name == "torch.device":
            inner = options(made.argument(0))
        found += [
            one.value for one in inner if isinstance(one, Constant) and isinstance(one.value, str)
        ]
    return tuple(found)
