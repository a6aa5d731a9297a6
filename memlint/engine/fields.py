"""What is read off an output or a tensor: fields by name or place, items, slices, rows."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from memlint.engine.subscripts import index_parts, positions_kept
from memlint.engine.tensors import (
    FOLDS,
    ROW,
    Output,
    Positions,
    Role,
    Tensor,
    Width,
    note,
    tensor_from,
)
from memlint.engine.values import UNKNOWN, Constant, Object, Sequence, Value, merge, options

if TYPE_CHECKING:
    from memlint.engine.forwards import ForwardRun
    from memlint.engine.interpreter import Interpreter

# Field -> role, width, positions.
FIELDS: dict[str, tuple[Role, Width, Positions]] = {
    "logits": (Role.LOGITS, Width.LOGITS, Positions.ALL),
    "loss": (Role.LOSS, Width.ONE, Positions.NONE),
    "hidden_states": (Role.HIDDEN_STATES, Width.HIDDEN, Positions.ALL),
    "last_hidden_state": (Role.HIDDEN_STATES, Width.HIDDEN, Positions.ALL),
    "attentions": (Role.ATTENTIONS, Width.UNKNOWN, Positions.ALL),
    "past_key_values": (Role.CACHE, Width.UNKNOWN, Positions.ALL),
}

# What gives values and their places.
_WITH_PLACES = frozenset({"max", "min", "sort", "topk", "median", "kthvalue", "cummax", "mode"})


def field_of(run: Interpreter, value: Value, name: str, node: ast.expr) -> Tensor | None:
    """``output.logits``; of what is not known to be an output, as far as the name says so."""
    known = FIELDS.get(name)
    if known is None:
        return None
    if isinstance(value, Output):
        made = value.made.get(name)
        if made is None:
            made = value.made[name] = _field(run, known, name, value.forward, node)
        return made
    return _field(run, known, name, None, node)


def _field(
    run: Interpreter,
    known: tuple[Role, Width, Positions],
    name: str,
    forward: ForwardRun | None,
    node: ast.expr,
) -> Tensor:
    role, width, positions = known
    run.has_tensors = True
    graph = forward.gradients if forward is not None else None
    if role is Role.LOGITS and forward is not None:
        positions = forward.logits_kept
    return Tensor(
        role, width, positions, copy=True, graph=graph, forward=forward, operation=name, node=node
    )


def element(run: Interpreter, output: Output, place: int, node: ast.expr) -> Value:
    """``output[0]``: the loss where labels are given, else the logits."""
    if output.forward.headless and place == 0:
        return field_of(run, output, "last_hidden_state", node) or UNKNOWN
    labels = None if output.forward.headless else output.forward.labels
    if place < 0 or labels is None or place > 1:
        return _unknown_field(run, output, node)
    names = ("loss", "logits") if labels else ("logits", "past_key_values")
    made = field_of(run, output, names[place], node)
    return made if made is not None else UNKNOWN


def _unknown_field(run: Interpreter, output: Output, node: ast.expr) -> Tensor:
    run.has_tensors = True
    return Tensor(graph=output.forward.gradients, forward=output.forward, operation="[]", node=node)


def unpacked(run: Interpreter, output: Output, count: int, node: ast.AST) -> tuple[Value, ...]:
    """``loss, logits = model(...)``."""
    where = node.value if isinstance(node, ast.Assign) else output.node
    assert isinstance(where, ast.expr)
    return tuple(element(run, output, place, where) for place in range(count))


def item(run: Interpreter, inner: Value, key: Value, node: ast.Subscript) -> Value | None:
    """``tensor[:, :-1]``, ``output["logits"]``, ``output[:2]``; None for all other values."""
    found = [_item(run, one, key, node) for one in options(inner)]
    if all(one is None for one in found):
        return None
    return merge([one if one is not None else UNKNOWN for one in found])


def _item(run: Interpreter, value: Value, key: Value, node: ast.Subscript) -> Value | None:
    if isinstance(value, Tensor):
        note(run, value, "[]", node)
        return _indexed(value, node, key)
    if not isinstance(value, Output):
        return None
    if isinstance(key, Constant) and isinstance(key.value, str):
        binding = run.get_binding(value, key.value)
        if binding is not None:
            return binding.value
        return field_of(run, value, key.value, node) or UNKNOWN
    if isinstance(key, Constant) and type(key.value) is int:
        return element(run, value, key.value, node)
    match node.slice:
        case ast.Slice(lower=None, upper=ast.Constant(value=int(count)), step=None) if count > 0:
            places = range(count)
            return Sequence(tuple(element(run, value, one, node) for one in places), "tuple")
    return _unknown_field(run, value, node)


def _indexed(tensor: Tensor, node: ast.Subscript, key: Value) -> Tensor:
    positions, width = positions_kept(tensor, node.slice)
    if positions is Positions.SOME and _is_one_a_row(tensor, key):
        positions = Positions.LAST
    plain = all(
        isinstance(part, ast.Slice | ast.Constant | ast.UnaryOp) for part in index_parts(node.slice)
    )
    role = tensor.role
    if tensor.role is Role.HIDDEN_STATES and tensor.operation == "hidden_states":
        return tensor_from(tensor, "[]", node, positions=Positions.ALL, copy=False)
    # ``scores.max(-1)[1]``: where they are, which no graph leads to.
    graph = tensor.graph and not (tensor.operation in _WITH_PLACES and key == Constant(1))
    copy = not plain and None
    return tensor_from(
        tensor, "[]", node, role=role, positions=positions, width=width, copy=copy, graph=graph
    )


def _is_one_a_row(tensor: Tensor, key: Value) -> bool:
    """True for ``logits[torch.arange(rows), last]``, unless it has rows or positions alone."""
    if not isinstance(key, Sequence) or len(key.items) != 2 or tensor.positions is Positions.SOME:
        return False
    rows, place = key.items
    made = rows.made_by if isinstance(rows, Object) else None
    counted = made is not None and made.name == "torch.arange"
    return (
        counted and not isinstance(place, Constant) and not tensor.passes(*FOLDS, "[]", "squeeze")
    )


def rows_of(run: Interpreter, node: ast.expr, default: Value) -> Value:
    """What a loop over an expression binds: the rows of a tensor, or of several by ``zip``.

    default: what it binds where no tensor takes part.
    """
    match node:
        case ast.Call(func=ast.Name(id="zip"), args=given):
            rows = [rows_of(run, one, UNKNOWN) for one in given]
            known = any(isinstance(one, Tensor) for row in rows for one in options(row))
            return Sequence(tuple(rows), "tuple") if known else default
        case ast.Call(func=ast.Name(id="enumerate"), args=[first, *_]):
            row = rows_of(run, first, UNKNOWN)
            return default if row is UNKNOWN else Sequence((UNKNOWN, row), "tuple")
    found = options(run.values.get(node, UNKNOWN))
    given_tensors = [one for one in found if isinstance(one, Tensor)]
    if not given_tensors or len(given_tensors) < len(found):
        return default
    layers = ("hidden_states", "attentions", "past_key_values")
    ways = ["[]" if one.operation in layers else ROW for one in given_tensors]
    made = zip(given_tensors, ways, strict=True)
    return merge([tensor_from(one, way, node, copy=False) for one, way in made])
