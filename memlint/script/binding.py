"""What an assignment binds: names, attributes, items of dicts, the parts of a tuple."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from memlint.script.fields import unpacked
from memlint.script.tensors import Output
from memlint.script.values import (
    UNKNOWN,
    Binding,
    Class,
    Constant,
    How,
    Object,
    Sequence,
    Value,
    options,
)

if TYPE_CHECKING:
    from memlint.script.interpreter import Interpreter


def assign(run: Interpreter, target: ast.expr, value: Value, owner: ast.AST) -> None:
    if isinstance(target, ast.Name):
        run.bind(target.id, value, owner)
        return
    match target:
        case ast.Attribute(value=inner, attr=attribute):
            for thing in options(run.eval(inner)):
                if isinstance(thing, Object):
                    run.set_binding(thing, attribute, Binding(value, How.ATTRIBUTE, owner))
                elif isinstance(thing, Class):
                    run.bound[thing.scope].add(attribute)
                    run.state.facts[thing.scope, attribute] = Binding(value, How.ATTRIBUTE, owner)
        case ast.Subscript(value=inner, slice=key_node):
            key = run.eval(key_node)
            for thing in options(run.eval(inner)):
                if not isinstance(thing, Object):
                    continue
                if isinstance(key, Constant) and isinstance(key.value, str):
                    run.set_binding(thing, key.value, Binding(value, How.SUBSCRIPT, owner))
                elif thing.type == "dict":
                    thing.open = True
        case ast.Tuple(elts=targets) | ast.List(elts=targets):
            _unpack(run, targets, value, owner)
        case ast.Starred(value=inner):
            assign(run, inner, UNKNOWN, owner)


def _unpack(run: Interpreter, targets: list[ast.expr], value: Value, owner: ast.AST) -> None:
    starred = any(isinstance(target, ast.Starred) for target in targets)
    values: tuple[Value, ...] = (UNKNOWN,) * len(targets)
    if isinstance(value, Sequence) and not (value.open or starred):
        values = value.items if len(value.items) == len(targets) else values
    elif isinstance(value, Output) and not starred:
        values = unpacked(run, value, len(targets), owner)
    elif isinstance(value, Object) and not starred:
        values = _fields(run, value, len(targets)) or values
    for target, one in zip(targets, values, strict=True):
        assign(run, target, one, owner)


def _fields(run: Interpreter, value: Object, count: int) -> tuple[Value, ...] | None:
    """The fields of a named tuple, in order."""
    if value.cls is None or value.type not in ("typing.NamedTuple", "typing_extensions.NamedTuple"):
        return None
    names = [name for name, _ in run.fields(value.cls)]
    if len(names) != count:
        return None
    bindings = run.bindings(value)
    return tuple(bindings[name].value if name in bindings else UNKNOWN for name in names)
