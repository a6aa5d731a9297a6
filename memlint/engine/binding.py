"""What an assignment binds: names, attributes, items of dicts, the parts of a tuple."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from memlint.engine.fields import unpacked
from memlint.engine.tensors import Output
from memlint.engine.values import (
    ABSENT,
    UNKNOWN,
    Binding,
    Class,
    Constant,
    How,
    Object,
    OneOf,
    Sequence,
    Value,
    merge,
    merge_bindings,
    options,
)

if TYPE_CHECKING:
    from memlint.engine.interpreter import CallEffect, Interpreter
    from memlint.engine.values import Invocation


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
                if isinstance(thing, Object):
                    store_item(run, thing, key, Binding(value, How.SUBSCRIPT, owner))
        case ast.Tuple(elts=targets) | ast.List(elts=targets):
            _unpack(run, targets, value, owner)


def store_item(run: Interpreter, thing: Object, key: Value, binding: Binding) -> None:
    """``thing[key] = ...``; under one of several keys, each of them may have it."""
    keys = [one.value if isinstance(one, Constant) else None for one in options(key)]
    if len(keys) == 1 and isinstance(keys[0], str):
        run.set_binding(thing, keys[0], binding)
    elif all(isinstance(one, str) for one in keys):
        for one in map(str, keys):
            before = run.get_binding(thing, one)
            run.set_binding(thing, one, merge_bindings([binding, before]))
    elif thing.type == "dict":
        thing.open = True


def drop_item(run: Interpreter, thing: Object, key: Value) -> None:
    """``del thing[key]``; under one of several keys, or an unknown one, any of them may go."""
    keys = [one.value if isinstance(one, Constant) else None for one in options(key)]
    if None in keys:
        keys = list(run.bindings(thing))
    certain = len(keys) == 1 and isinstance(key, Constant)
    for one in map(str, keys):
        before = run.get_binding(thing, one)
        gone = Binding(ABSENT)
        run.set_binding(thing, one, gone if certain else merge_bindings([gone, before]))


def _unpack(run: Interpreter, targets: list[ast.expr], value: Value, owner: ast.AST) -> None:
    star = next((at for at, one in enumerate(targets) if isinstance(one, ast.Starred)), None)
    values: tuple[Value, ...] = (UNKNOWN,) * len(targets)
    if isinstance(value, Sequence) and not value.open:
        items = value.items
        if star is not None and len(items) >= len(targets) - 1:
            # ``model, *rest = prepared``: what is left of the others.
            end = len(items) - len(targets) + star + 1
            items = (*items[:star], Sequence(items[star:end], "list"), *items[end:])
        values = items if len(items) == len(targets) else values
    elif isinstance(value, Output):
        before = unpacked(run, value, len(targets) if star is None else star, owner)
        values = (*before, *values[len(before) :])
    elif isinstance(value, Object | OneOf) and star is None:
        values = _fields(run, value, len(targets)) or values
    for target, one in zip(targets, values, strict=True):
        assign(run, target.value if isinstance(target, ast.Starred) else target, one, owner)


def _fields(run: Interpreter, value: Object | OneOf, count: int) -> tuple[Value, ...] | None:
    if isinstance(value, OneOf):
        # One of several tuples, by the path: those of another length are none of them.
        known = (one for one in value.options if isinstance(one, Sequence) and not one.open)
        fitting = [one.items for one in known if len(one.items) == count]
        others = [(UNKNOWN,) * count for one in value.options if not isinstance(one, Sequence)]
        return tuple(map(merge, zip(*fitting, *others, strict=True)))
    if value.cls is None or value.type not in ("typing.NamedTuple", "typing_extensions.NamedTuple"):
        return None
    names = [name for name, _ in run.fields(value.cls)]
    if len(names) != count:
        return None
    bindings = run.bindings(value)
    return tuple(bindings[name].value if name in bindings else UNKNOWN for name in names)


def set_bindings(run: Interpreter, thing: Object, bindings: Mapping[str, Binding]) -> None:
    for name, binding in bindings.items():
        run.set_binding(thing, name, binding)


def wrapped(
    run: Interpreter, invocation: Invocation, inner: Object, cls: Class | None = None
) -> Object:
    """Return what a call makes of an object: another with the same bindings."""
    made = run.new_object(inner.type, invocation, inner, cls)
    run.copy_bindings(inner, made)
    return made


# -- effects of calls on an object -----------------------------------------------------------------

# effect(interpreter, invocation, object) -> the call's value, or None where it has nothing to say
EffectOn = Callable[["Interpreter", "Invocation", Object], Value | None]


def _about(which: str, effect: EffectOn) -> CallEffect:
    """Return an effect on an object of a call; it has nothing to say of no object."""

    def of_call(run: Interpreter, invocation: Invocation) -> Value | None:
        thing = getattr(invocation, which)
        return effect(run, invocation, thing) if thing is not None else None

    return of_call


# On the object whose method is called, and on the one that a call gets first.
about_receiver = partial(_about, "receiver_object")
about_first = partial(_about, "first_object")
