"""What keeps the graphs of past steps alive: sums and lists that grow by a tensor in every turn.

A tensor that autograd records holds the graph that made it. A backward pass frees the activations
of that graph, not its nodes; without one the activations stay as well. Whether something is such a
tensor is known in two ways: it was computed from a forward pass that is known, or a backward pass
of the same turn starts from it.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from enum import StrEnum
from typing import TYPE_CHECKING

from memlint.engine.modes import is_off_around
from memlint.engine.nodes import walk
from memlint.engine.project import is_elsewhere
from memlint.engine.tensors import Role, Tensor, tensors_in
from memlint.engine.values import Object, options
from memlint.script.events import EventKind
from memlint.script.settings import unified
from memlint.source.record import NamedTuple

if TYPE_CHECKING:
    from memlint.engine.invocations import Invocation
    from memlint.script.calls import Call
    from memlint.script.model import Script
    from memlint.script.steps import Step

Loop = ast.For | ast.AsyncFor | ast.While
# Methods of a tensor that give one with the same graph, or more of it.
_GRAPH_KEEPING = frozenset(
    {"mean", "sum", "float", "clone", "squeeze", "view", "reshape", "double", "to", "cpu", "cuda"}
)


class Graph(StrEnum):
    """What of a recorded tensor's graph is there. SPENT: its nodes, as a backward pass has freed
    the activations. WHOLE: the activations too, as nothing runs backward through it."""

    SPENT = "spent"
    WHOLE = "whole"


class Sum(NamedTuple):
    """``total += loss`` in a loop, whose turns add to what the turns before left.

    statement: the addition. target: what grows, as it is written. addend: what is added.
    loop: the innermost loop around it, or the method that a trainer runs in every step.
    """

    statement: ast.Assign | ast.AugAssign
    target: str
    addend: ast.expr
    loop: Loop | ast.FunctionDef


class Hoard(NamedTuple):
    """``losses.append(loss)`` in a loop, to a list that nothing in the loop empties.

    value: one of the things that are kept, so that a pair or a dict of them is several hoards.
    """

    call: ast.Call
    container: str
    value: ast.expr
    loop: Loop | ast.FunctionDef


# Statements that bind each name, attribute or item, as it is written.
_Bindings = dict[str, list[ast.Assign | ast.AugAssign | ast.AnnAssign]]
_Addition = tuple[ast.Assign | ast.AugAssign, ast.expr, ast.expr]
# Methods that a trainer runs in every step: their loss is run backward when they have returned it.
_HOOKS = ("training_step", "compute_loss")

# -- sums ------------------------------------------------------------------------------------------


def sums_of(script: Script) -> tuple[Sum, ...]:
    """What loops add up over their turns: ``total += loss``."""
    additions: list[_Addition] = [*_augmented(script), *_assigned(script)]
    if not additions:
        return ()
    bindings, found = script.stores, []
    for node, target, addend in additions:
        loop = _loop_of_sum(script, node, target, bindings)
        if loop is not None:
            found.append(Sum(node, script.text(target), addend, loop))
    return tuple(sorted(found, key=lambda one: one.statement.lineno))


def _augmented(script: Script) -> Iterator[_Addition]:
    for node in script.nodes(ast.AugAssign):
        if isinstance(node.op, ast.Add) and not isinstance(node.value, ast.Constant):
            yield node, node.target, node.value


def _assigned(script: Script) -> Iterator[_Addition]:
    """``total = total + loss``, ``average = 0.9 * average + 0.1 * loss``."""
    for node in script.nodes(ast.Assign):
        match node:
            case ast.Assign(
                targets=[ast.Name(id=name) as target],
                value=ast.BinOp(op=ast.Add(), left=left, right=right),
            ):
                sides = [
                    name in [script.text(one) for one in _parts(side, ast.Name)]
                    for side in (left, right)
                ]
                if sides == [True, False]:
                    yield node, target, right
                elif sides == [False, True]:
                    yield node, target, left


def _loop_of_sum(
    script: Script, node: ast.Assign | ast.AugAssign, target: ast.expr, bindings: _Bindings
) -> Loop | ast.FunctionDef | None:
    """Return the loop that accumulates into the target, or None."""
    loops = script.flow.loops_around(node)
    if not loops:
        return _hook_around(script, node, target)
    if isinstance(target, ast.Name) and not script.flow.is_carried(loops[0], target.id):
        return None
    turn = _step_around(script, loops)
    others = _bound_in(script, turn, script.text(target), bindings)
    return (
        loops[0] if all(isinstance(one, ast.AugAssign) or one is node for one in others) else None
    )


def _hook_around(script: Script, node: ast.AST, grows: ast.expr) -> ast.FunctionDef | None:
    """The method of every step around an addition to an attribute of its object."""
    function = script.function(node)
    while isinstance(grows, ast.Attribute | ast.Subscript):
        grows = grows.value
    if not isinstance(function, ast.FunctionDef) or function.name not in _HOOKS:
        return None
    own = function.args.args[0].arg if function.args.args else ""
    return function if isinstance(grows, ast.Name) and grows.id == own else None


def _step_around(script: Script, loops: tuple[Loop, ...]) -> Loop:
    """The innermost loop; where that goes through the micro-batches of a step, the one around it:
    what a step begins anew stays small."""
    if len(loops) < 2 or not _backwards(script, loops[0]):
        return loops[0]
    steps = [one for one in script.events if one.kind is EventKind.OPTIMIZER_STEP]
    within = any(loops[0] in one.loops for one in steps)
    return loops[1] if steps and not within else loops[0]


def stores_of(script: Script) -> _Bindings:
    """The assignments to each name, attribute and item, as it is written."""
    found: _Bindings = defaultdict(list)
    for kind in (ast.Assign, ast.AugAssign, ast.AnnAssign):
        for node in script.nodes(kind):
            assert isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign)
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                for name in _texts(script, target):
                    found[name].append(node)
    return found


def _bound_in(script: Script, loop: Loop, name: str, bindings: _Bindings) -> list[ast.stmt]:
    """The statements of a loop that bind a name, an attribute or an item."""
    return [one for one in bindings.get(name, ()) if loop in script.flow.loops_around(one)]


def _texts(script: Script, target: ast.expr) -> Iterator[str]:
    if isinstance(target, ast.Tuple | ast.List):
        for one in target.elts:
            yield from _texts(script, one)
    else:
        yield script.text(target)


# -- hoards ----------------------------------------------------------------------------------------

_EMPTYING = ("clear", "pop", "popleft", "remove")


def hoards_of(script: Script) -> tuple[Hoard, ...]:
    """What loops append to lists that outlive their turns: ``losses.append(loss)``."""
    calls = [one.node for one in script.method_calls("append") if len(one.node.args) == 1]
    if not calls:
        return ()
    bindings, found = script.stores, []
    for node in calls:
        if not isinstance(node.func, ast.Attribute):
            continue
        holder, loops = node.func.value, script.flow.loops_around(node)
        loop = loops[0] if loops else _hook_around(script, node, holder)
        if loop is None or (loops and _is_emptied(script, holder, loops, bindings)):
            continue
        container = script.text(holder)
        found += [Hoard(node, container, one, loop) for one in _contents(node.args[0])]
    return tuple(sorted(found, key=lambda one: one.call.lineno))


def _is_emptied(
    script: Script, node: ast.expr, loops: tuple[Loop, ...], bindings: _Bindings
) -> bool:
    """True if a list may lose its items, or has a limited number of them."""
    loop, container = _step_around(script, loops), script.text(node)
    root = node
    while isinstance(root, ast.Attribute | ast.Subscript):
        root = root.value
    if not isinstance(root, ast.Name):
        return True
    if any(_bound_in(script, loop, name, bindings) for name in {container, root.id}):
        return True
    if not isinstance(loop, ast.While) and root.id in _texts(script, loop.target):
        return True
    if isinstance(made := unified(script.value(node)), Object) and made.made_by is not None:
        # ``deque(maxlen=100)``, a meter, or whatever else has a method ``append``.
        return made.made_by.name != "list"
    deleted = [target for one in script.nodes(ast.Delete) for target in one.targets]
    return script.calls_method(container, *_EMPTYING) or any(
        script.text(one).startswith(container) for one in deleted
    )


def _contents(node: ast.expr) -> list[ast.expr]:
    """What a tuple, list or dict display holds; else the expression itself."""
    match node:
        case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Dict(values=parts):
            return [inner for part in parts for inner in _contents(part)]
    return [node]


# -- graphs ----------------------------------------------------------------------------------------


def graph_of(script: Script, node: ast.expr, loop: ast.AST) -> Graph | None:
    """What of the graph of an expression is there when a turn of ``loop`` ends; None for none, or
    where that is not known."""
    assert isinstance(loop, ast.For | ast.AsyncFor | ast.While | ast.FunctionDef)
    parts = list(_parts(node, ast.Name, ast.Attribute))
    tensors = [one for one in options(script.value(node)) if isinstance(one, Tensor)]
    if _has_no_graph(script, node, parts, tensors):
        return None
    if isinstance(loop, ast.FunctionDef):
        return Graph.SPENT if _is_returned(script, parts, loop) else None
    if _is_spent(script, tensors, loop) or _shares_backward(script, node, loop):
        return Graph.SPENT
    known = script.tensors(node)
    if known and all(one.graph is True and _is_whole(script, one) for one in known):
        return Graph.WHOLE
    return None


def _has_no_graph(
    script: Script, node: ast.expr, parts: list[ast.expr], tensors: list[Tensor]
) -> bool:
    """True if autograd does not record an expression, on some path at least."""
    return (
        is_off_around(script.ancestors(node))
        or any(_is_detached(script, one) for one in parts)
        or any(one.graph is False for one in tensors)
    )


def _is_spent(script: Script, tensors: list[Tensor], loop: Loop) -> bool:
    """True if a backward pass of the same turn runs through one of these tensors."""
    if not tensors or not all(one.graph for one in tensors):
        return False
    wanted = set(map(id, tensors))
    starts = [start for invocation in _backwards(script, loop) for start in _starts(invocation)]
    if any(not wanted.isdisjoint(map(id, _before_sums(start))) for start in starts):
        return True
    # A model's own loss is computed from the logits that stand beside it.
    losses = {
        id(one.forward) for one in starts if one.forward is not None and one.role is Role.LOSS
    }
    return bool(losses) and all(id(one.forward) in losses for one in tensors)


def _backwards(script: Script, loop: Loop) -> list[Invocation]:
    """The backward passes that the turns of a loop run, in functions that it calls too."""
    return [invocation for invocation in script._backward_invocations if loop in invocation.loops]


def backward_invocations(script: Script) -> list[Invocation]:
    """The calls that run a backward pass, in the order of the run."""
    return [
        invocation
        for invocation in script.invocations
        if invocation.name.endswith("backward")
        and invocation.name.rpartition(".")[2] in ("backward", "manual_backward")
    ]


def _starts(invocation: Invocation) -> list[Tensor]:
    """The tensors that a backward pass starts from."""
    received = options(invocation.receiver) if invocation.receiver is not None else ()
    return [one for one in received if isinstance(one, Tensor)] + tensors_in(invocation)


def _before_sums(tensor: Tensor) -> Iterator[Tensor]:
    """A tensor and what it was computed from, not further than a sum over turns."""
    pending, seen = [tensor], set()
    for one in pending:  # grows meanwhile
        if id(one) in seen or one.operation == "+=":
            continue
        seen.add(id(one))
        yield one
        pending.extend(one.sources)


def _is_whole(script: Script, tensor: Tensor) -> bool:
    """True if certainly nothing runs backward through a tensor: it is of an evaluation, or the
    script has no backward pass at all."""
    forward = script.forward_of(tensor)
    if forward is None or forward.in_training_step or forward.gradients is not True:
        return False
    if forward.training is False:
        return any(forward in one.forwards for one in script.evaluations)
    return forward.called and forward.facts.load is not None and not script.may_train


# -- by name ---------------------------------------------------------------------------------------


def _shares_backward(script: Script, node: ast.expr, loop: Loop) -> bool:
    """True if a backward pass of the loop starts from a name or attribute that ``node`` is made of,
    with the same definition."""
    wanted = [_definition(script, one) for one in _parts(node, ast.Name, ast.Attribute)]
    wanted = [one for one in wanted if one is not None]
    if not wanted:
        return False
    for invocation in _backwards(script, loop):
        call = invocation.node
        if is_elsewhere(call) or script.flow.scope(call) is not script.flow.scope(node):
            continue
        given = [call.func.value] if isinstance(call.func, ast.Attribute) else []
        for start in (*given, *call.args):
            for part in _tensors_of(start):
                if _definition(script, part) in wanted:
                    return True
    return False


def _is_returned(script: Script, parts: list[ast.expr], hook: ast.FunctionDef) -> bool:
    """True if a trainer's method returns one of these as its loss, with the same definition."""
    if "super().training_step" in script.text(hook):
        # ``Trainer.training_step`` has run backward, and gives a detached loss.
        return False
    wanted = [one for one in (_definition(script, part) for part in parts) if one is not None]
    return any(
        _definition(script, loss) in wanted
        for node in walk(hook.body)
        if isinstance(node, ast.Return) and script.function(node) is hook
        for loss in _losses(node.value)
    )


def _losses(returned: ast.expr | None) -> Iterator[ast.expr]:
    """``loss`` of ``(loss, outputs) if return_outputs else loss`` and of ``{"loss": loss}``."""
    match returned:
        case ast.IfExp(body=body, orelse=other):
            yield from _losses(body)
            yield from _losses(other)
        case ast.Tuple(elts=[first, *_]):
            yield from _losses(first)
        case ast.Dict(keys=keys, values=values):
            for key, value in zip(keys, values, strict=True):
                if isinstance(key, ast.Constant) and key.value == "loss":
                    yield value
        case ast.Name():
            yield returned


def _definition(script: Script, node: ast.expr) -> tuple[str, tuple[ast.AST, ...]] | None:
    """The text of a name or attribute and the statements that bind its root; None for globals."""
    root = node
    while isinstance(root, ast.Attribute):
        root = root.value
    if not isinstance(root, ast.Name):
        return None
    bound = script.flow.definitions(root)
    return (script.text(node), bound) if bound else None


def _is_detached(script: Script, node: ast.expr) -> bool:
    """True if the script takes a name off its graph in place."""
    return script.calls_method(script.text(node), "detach_")


def _parts(node: ast.expr, *kinds: type[ast.expr]) -> Iterator[ast.expr]:
    """The names and attributes whose graph an expression may carry on: ``loss`` of
    ``loss.mean() / steps``, and ``steps``."""
    match node:
        case _ if isinstance(node, kinds):
            yield node
        case ast.BinOp(left=left, right=right):
            yield from _parts(left, *kinds)
            yield from _parts(right, *kinds)
        case ast.UnaryOp(operand=operand):
            yield from _parts(operand, *kinds)
        case ast.Call(func=ast.Attribute(value=inner, attr=method)) if method in _GRAPH_KEEPING:
            yield from _parts(inner, *kinds)


def _tensors_of(node: ast.expr) -> Iterator[ast.expr]:
    """The names and attributes of a backward pass's start that are tensors for certain: ``loss`` of
    ``scaler.scale(loss / steps)``."""
    match node:
        case ast.Name() | ast.Attribute():
            yield node
        case ast.BinOp(op=ast.Div(), left=left):
            yield from _tensors_of(left)
        case (
            ast.BinOp(op=ast.Mult(), left=ast.Constant(), right=scaled)
            | ast.BinOp(op=ast.Mult(), left=scaled, right=ast.Constant())
        ):
            yield from _tensors_of(scaled)
        case ast.BinOp(op=ast.Add(), left=left, right=right):
            yield from _tensors_of(left)
            yield from _tensors_of(right)
        case ast.Call(func=ast.Attribute(attr="scale"), args=[scaled]):
            yield from _tensors_of(scaled)
        case ast.Call(func=ast.Attribute(value=inner, attr=method)) if method in _GRAPH_KEEPING:
            yield from _tensors_of(inner)


# -- what a backward pass runs through -------------------------------------------------------------


def starts_of(call: Call) -> tuple[ast.expr, ...]:
    """What a backward pass starts from: ``loss`` of ``loss.backward()`` and of
    ``accelerator.backward(loss)``."""
    node = call.node
    if node.args:
        return tuple(node.args)
    return (node.func.value,) if isinstance(node.func, ast.Attribute) else ()


def comes_from(script: Script, step: Step, node: ast.expr) -> bool:
    """True if all of a tensor's graph is of forward passes of a step, whose inputs the step makes:
    nothing of it is older than the turn."""
    tensors = script.tensors(node)
    forwards = {script.forward_of(one) for one in tensors}
    return bool(tensors) and all(
        forward is not None
        and forward in step.forwards
        and not forward.own
        and _is_given_by_turn(script, step, forward.node)
        for forward in forwards
    ) and not any(one.passes("arithmetic", "+=") for one in tensors)  # fmt: skip


def _is_given_by_turn(script: Script, step: Step, call: ast.Call) -> bool:
    """True if the names in a call's arguments are bound by a turn of the loop."""
    if script.flow.scope(call) is not script.flow.scope(step.node):
        return False
    names = [one for one in walk([*call.args, *call.keywords]) if isinstance(one, ast.Name)]
    return bool(names) and all(
        bound is step.node or step.node in script.flow.loops_around(bound)
        for name in names
        for bound in script.flow.definitions(name) or (script.tree,)
    )
