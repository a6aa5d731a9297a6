"""Where a script evaluates: neighbouring statements that run models in evaluation mode.

A forward pass evaluates where its model was last put in evaluation mode, no training step runs it,
and no backward pass or other derivative follows before training mode comes back.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from memlint.engine.forwards import ForwardRun
from memlint.engine.invocations import Invocation
from memlint.engine.modes import module_root
from memlint.engine.nodes import walk
from memlint.engine.values import Object, Opaque, Value, options
from memlint.script.events import EventKind
from memlint.script.forward_passes import Forward
from memlint.source.record import NamedTuple

if TYPE_CHECKING:
    from memlint.script.model import Script

# Trainers and Lightning call these in modes of their own, or differentiate through them.
_HOOKS = frozenset(
    {"forward", "compute_loss", "prediction_step", "evaluation_step"}
    | {f"{stage}_step" for stage in ("training", "validation", "test", "predict")}
)
# What takes derivatives, or prepares for it.
_DERIVATIVES = frozenset(
    {
        *("backward", "manual_backward", "retain_grad", "grad", "jacobian", "hessian"),
        *("jacrev", "jacfwd", "vjp", "jvp", "grad_and_value", "requires_grad_"),
    }
)
_KEYWORDS = frozenset({"create_graph", "retain_graph"})
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
_LOOPS = (ast.For, ast.AsyncFor, ast.While)


class Evaluation(NamedTuple):
    """Neighbouring statements that evaluate.

    forwards: the passes that they run. statements: what may run without gradients as a whole: the
    outermost loops around the passes, or the statements that hold them; empty where these do more.
    function: the function that does nothing else; None where it does, or there is none.
    sets_mode: whether the function that holds them puts the model in evaluation mode itself.
    called: whether the script reaches all passes from its top; other files may call what it does
        not reach.
    """

    forwards: tuple[Forward, ...]
    statements: tuple[ast.stmt, ...]
    function: ast.FunctionDef | None
    sets_mode: bool
    called: bool


def evaluations_of(script: Script) -> tuple[Evaluation, ...]:
    """Statements that run models in evaluation mode where autograd is on, or may be."""
    forwards = [one for one in script.forwards if one.gradients is not False]
    passes = [one for one in forwards if _evaluates(script, one)]
    groups: list[tuple[list[Forward], list[ast.stmt]]] = []
    for forward in passes:
        statement = _widest(script, forward, passes)
        if groups and statement is not None and _is_next(script, groups[-1][1], statement):
            groups[-1][0].append(forward)
            groups[-1][1][:] = dict.fromkeys([*groups[-1][1], statement])
        else:
            groups.append(([forward], [statement] if statement is not None else []))
    return tuple(_made(script, *group) for group in groups)


def _made(script: Script, forwards: list[Forward], statements: list[ast.stmt]) -> Evaluation:
    function = script.function(forwards[0].node)
    root: ast.AST = function if function is not None else script.tree
    switches = [node for node in walk([root]) if _method(node) == "eval"]
    own = [node for node in switches if script.function(node) is function]
    whole = isinstance(function, ast.FunctionDef) and _only_evaluates(script, function, own)
    return Evaluation(
        tuple(forwards),
        tuple(statements),
        function if whole and isinstance(function, ast.FunctionDef) else None,
        bool(own),
        all(forward.called for forward in forwards),
    )


# -- which forward passes --------------------------------------------------------------------------


def _evaluates(script: Script, forward: Forward) -> bool:
    if forward.training is not False or forward.in_training_step:
        return False
    function = script.function(forward.node)
    if function is not None and (function.name in _HOOKS or _is_test(function)):
        return False
    around = [one for one in script.ancestors(forward.node) if isinstance(one, ast.Call)]
    if any(_method(one) in _DERIVATIVES for one in around):
        # ``autograd.grad(model(x).sum(), x)``
        return False
    if any(_wants_gradients(script, run) for run in forward.runs):
        return False
    return not _is_frozen(script, forward)


def _is_test(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """True if a function is a test, whose models are small."""
    return function.name.startswith("test_") and any(
        isinstance(node, ast.Assert) or _method(node).startswith("assert")
        for node in walk(function.body)
    )


def _wants_gradients(script: Script, run: ForwardRun) -> bool:
    """True if a derivative follows a pass, before anything is put in training mode."""
    steps = {id(one.invocation) for one in script.events if one.kind is EventKind.OPTIMIZER_STEP}
    for invocation in script.invocations_between(run.order, script.end_of_run(run.invocation)):
        if invocation.name.rpartition(".")[2] == "train":
            return False
        if id(invocation) in steps or _takes_derivative(invocation):
            return True
    return False


def _takes_derivative(invocation: Invocation) -> bool:
    name = invocation.name
    return (
        name.rpartition(".")[2] in _DERIVATIVES
        or name.startswith(("torch.autograd.functional", "torch.func."))
        or not _KEYWORDS.isdisjoint(invocation.keywords)
    )


def _is_frozen(script: Script, forward: Forward) -> bool:
    """True if the script says of the model's parameters whether they want gradients."""
    called = forward.called_as
    modules = _identities(forward.module)
    return any(
        script.text(holder).startswith(called)
        or not modules.isdisjoint(_identities(script.value(holder)))
        for holder in script.frozen_modules
    )


def _identities(value: Value) -> set[int]:
    roots = map(module_root, options(value))
    return {id(root) for root in roots if isinstance(root, Object | Opaque)}


def frozen_modules_of(script: Script) -> tuple[ast.expr, ...]:
    """Expressions for modules of which the script says whether they want gradients: ``model`` of
    ``model.requires_grad_(False)``, and of a loop that sets ``requires_grad`` of its parameters."""
    found: list[ast.expr] = []
    for node in script.nodes(ast.Attribute):
        if node.attr == "requires_grad_":
            found.append(node.value)
        elif node.attr == "requires_grad" and isinstance(node.ctx, ast.Store):
            loop = script.enclosing(node, *_LOOPS)
            if isinstance(loop, ast.For):
                found.append(_holder(loop.iter))
    return tuple(found)


def _holder(iterated: ast.expr) -> ast.expr:
    """``model`` of ``model.parameters()``."""
    inner = iterated.func if isinstance(iterated, ast.Call) else iterated
    return inner.value if isinstance(inner, ast.Attribute) else iterated


# -- which statements ------------------------------------------------------------------------------


def _widest(script: Script, forward: Forward, passes: list[Forward]) -> ast.stmt | None:
    """The outermost loop around a pass that only evaluates, else the statement that holds it."""
    statement = forward.statement
    if not _is_plain(script, statement, passes):
        return None
    for around in script.ancestors(statement):
        if not isinstance(around, ast.stmt | ast.ExceptHandler | ast.match_case):
            break
        if isinstance(around, _SCOPES) or not _is_plain(script, around, passes):
            break
        if isinstance(around, ast.For | ast.AsyncFor | ast.While):
            statement = around
    return statement


def _is_plain(script: Script, around: ast.AST, passes: list[Forward]) -> bool:
    """True if a statement only evaluates: no change of mode, no derivative, no other pass."""
    nodes = walk([around])
    evaluated = {one.node for one in passes}
    others = {one.node for one in script.forwards if one.node not in evaluated}
    return not any(
        isinstance(node, (*_SCOPES, ast.Yield, ast.YieldFrom))
        or (node in others and _trains(script, node))
        or _method(node) in _DERIVATIVES | {"eval", "train"}
        for node in nodes
    )


def _trains(script: Script, node: ast.AST) -> bool:
    """True if a pass may want gradients: one that runs without them does not."""
    forward = script.forward_at(node)
    return forward is not None and forward.gradients is not False


def _is_next(script: Script, group: list[ast.stmt], statement: ast.stmt) -> bool:
    """True if a statement follows a group in its block, in the same cell of a notebook."""
    if not group:
        return False
    last, block = group[-1], script.flow.block(statement)
    if last is statement:
        return True
    if last not in block or block.index(statement) != block.index(last) + 1:
        return False
    return _cell(script, last) == _cell(script, statement)


def _cell(script: Script, statement: ast.stmt) -> int | None:
    cell = script.source.cell_at(script.span(statement).start)
    return cell.number if cell is not None else None


def _only_evaluates(script: Script, function: ast.FunctionDef, switches: list[ast.AST]) -> bool:
    """True if all of a function may run without gradients: it sets evaluation mode first, comes
    back to training mode nowhere, and takes no derivative."""
    nodes = walk(function.body)
    return (
        any(script.statement(node) in function.body for node in switches)
        and not function.decorator_list
        and not any(isinstance(node, (*_SCOPES, ast.Yield, ast.YieldFrom)) for node in nodes)
        and not any(_method(node) in _DERIVATIVES | {"train"} for node in nodes)
        and not any(_method(node) == "step" for node in nodes)
    )


def _method(node: ast.AST) -> str:
    """The last part of the name of what is called; empty for what is no call."""
    if not isinstance(node, ast.Call):
        return ""
    func = node.func
    return func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "")
