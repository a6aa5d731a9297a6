"""Mappings of token ids that a script takes for the ids themselves.

A tokenizer's ``BatchEncoding`` maps names to ids: its length is the number of names, its first
element an ``Encoding``, and it has no operators and no methods of tensors. Source:
``transformers/tokenization_utils_base.py``, tried with ids and tensors of transformers 5.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from memlint.engine.values import Object, Value, options
from memlint.script.calls import Call

if TYPE_CHECKING:
    from memlint.script.model import Script

# Methods that give the mapping back.
_SAME = frozenset({"to", "pin_memory"})
# What lists of numbers and tensors have, and a mapping has not.
_OF_IDS = frozenset(
    {
        *("append", "extend", "index", "insert", "count", "reverse", "sort", "remove"),
        *("shape", "size", "dim", "ndim", "numel", "dtype", "tolist", "numpy", "clone", "detach"),
        *("squeeze", "unsqueeze", "view", "reshape", "flatten", "repeat", "expand", "cuda", "cpu"),
        *("long", "repeat_interleave", "contiguous", "item", "flip", "split", "chunk"),
    }
)
_MEASURED = frozenset({"len", "enumerate", "reversed", "sum", "max", "min"})
_TENSORS = frozenset(
    f"{module}.{name}"
    for module, names in {
        "torch": ("tensor", "as_tensor", "LongTensor", "IntTensor", "cat", "stack", "concat"),
        "numpy": ("array", "asarray", "concatenate"),
    }.items()
    for name in names
)
_IDS = ("input_ids", "labels", "decoder_input_ids")
_LIBRARIES = ("transformers.", "peft.", "trl.")


def taken_for_ids(script: Script, call: Call) -> ast.expr | None:
    """The first expression that certainly needs ids where ``call`` gives a mapping; None where
    there is none, or where the script treats the mapping as what it is."""
    wrong: list[ast.expr] = []
    for node in _places(script, call):
        use = _use(script, node)
        if use is True:
            return None
        if isinstance(use, ast.expr):
            wrong.append(use)
    return min(wrong, key=lambda one: (one.lineno, one.col_offset), default=None)


def _places(script: Script, call: Call) -> Iterator[ast.expr]:
    """Where the call's result certainly stands, and nothing else."""
    for kind in (ast.Call, ast.Name, ast.Attribute):
        for node in script.nodes(kind):
            found = options(script.value(node))
            if found and all(_is_result(one, call) for one in found):
                yield node


def _is_result(value: Value, call: Call) -> bool:
    while isinstance(value, Object) and value.made_by is not None:
        if value.made_by.node is call.node:
            return True
        if value.made_by.name.rpartition(".")[2] not in _SAME or value.made_by.receiver is None:
            return False
        value = value.made_by.receiver
    return False


def _use(script: Script, node: ast.expr) -> bool | ast.expr:
    """The expression that takes ``node`` for ids; True where it is taken for a mapping, False where
    that is open."""
    parent = script.parent(node)
    match parent:
        case ast.BinOp(op=ast.Add() | ast.Mult()):
            return parent
        case ast.AugAssign(op=ast.Add() | ast.Mult(), target=target):
            return target
        case ast.Subscript(value=of) if of is node:
            return _subscript(script, parent)
        case ast.Attribute(attr=name):
            return parent if name in _OF_IDS else name not in _SAME
        case ast.For() | ast.comprehension():
            # Its names, which may be what is wanted.
            return True
    return _handed_on(script, node)


def _handed_on(script: Script, node: ast.expr) -> bool | ast.expr:
    """The same for what is an argument or an element."""
    parent = script.parent(node)
    match parent:
        case ast.Call():
            return _argument(script, parent, node)
        case ast.keyword(arg=name):
            return parent.value if name in _IDS else name is None
        case ast.Dict(keys=keys, values=values):
            key = next((k for k, v in zip(keys, values, strict=True) if v is node), None)
            return node if getattr(key, "value", None) in _IDS else key is None
        case ast.List():
            around = script.parent(parent)
            return isinstance(around, ast.Call) and _makes_tensor(script, around) and parent
    return False


def _subscript(script: Script, node: ast.Subscript) -> bool | ast.expr:
    match node.slice:
        case ast.Constant(value=int()) | ast.UnaryOp(operand=ast.Constant(value=int())):
            # ``encoding[0].ids``: one row of several.
            return isinstance(script.parent(node), ast.Attribute) or node
        case ast.Slice() | ast.Tuple():
            return node
    return True


def _argument(script: Script, call: ast.Call, node: ast.expr) -> bool | ast.expr:
    if node not in call.args:
        return False
    if isinstance(call.func, ast.Name) and call.func.id in _MEASURED:
        return call
    if _makes_tensor(script, call):
        return call
    made = script.call_at(call)
    if made is not None and made.method == "generate" and made.name.startswith(_LIBRARIES):
        return node
    # ``isinstance``, ``dict``, ``print`` or whatever else.
    return isinstance(call.func, ast.Name) and call.func.id in ("isinstance", "hasattr", "dict")


def _makes_tensor(script: Script, call: ast.Call) -> bool:
    return script.name(call.func) in _TENSORS
