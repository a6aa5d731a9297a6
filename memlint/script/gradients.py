"""What a script does with gradients beside the optimizer, and how many it adds up before a step."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from memlint.engine.modes import is_off_around
from memlint.engine.nodes import walk
from memlint.engine.values import Value

if TYPE_CHECKING:
    from memlint.script.model import Script
    from memlint.script.steps import Step

# Captured graphs write into the gradients that they were captured with.
_GRAPHS = frozenset({"CUDAGraph", "graph", "make_graphed_callables"})


def needs_gradients_in_place(script: Script) -> bool:
    """True if something writes into gradients that must be there: a captured CUDA graph, or the
    script itself, which adds to ``.grad``."""
    return any(
        node.attr in _GRAPHS and script.text(node.value).endswith("cuda")
        for node in script.nodes(ast.Attribute)
    ) or any(
        isinstance(node.target, ast.Attribute) and node.target.attr == "grad"
        for node in script.nodes(ast.AugAssign)
    )


def reads_gradients_unchecked(script: Script) -> bool:
    """True if a function of the script reads ``.grad`` and never compares it with None: by
    ``getattr`` or an ``attrgetter`` too."""
    checked = {
        script.flow.scope(node)
        for node in script.nodes(ast.Compare)
        if isinstance(node.left, ast.Attribute) and node.left.attr == "grad"
    }
    by_name = any(
        isinstance(node.value, str) and "grad" in node.value.split(".")
        for node in script.nodes(ast.Constant)
    )
    return by_name or any(
        node.attr == "grad"
        and script.flow.scope(node) not in checked
        and not script.text(node.value).endswith(("torch", "autograd"))
        for node in script.nodes(ast.Attribute)
    )


def detaches_gradients(script: Script) -> bool:
    """True if the script replaces a gradient, or takes it off its graph in place, which a view of
    a bucket refuses."""
    return script.sets("grad") or any(
        node.attr == "detach_"
        and isinstance(node.value, ast.Attribute)
        and node.value.attr == "grad"
        for node in script.nodes(ast.Attribute)
    )


def accumulation_of(script: Script) -> int | None:
    """Micro-batches for each step of a hand-written loop; None where it is one, or unknown."""
    for call in script.calls_to("accelerate.Accelerator"):
        steps = call.setting("gradient_accumulation_steps").value
        if type(steps) is int and steps > 1:
            return steps
    for step in script.steps:
        for node in walk(step.node.body):
            if isinstance(node, ast.If) and calls_step(node):
                found = _modulus(script, node.test)
                if found is not None:
                    return found
    return None


def loss_divisor_of(script: Script) -> int | None:
    """``4`` of ``loss = model(...).loss / 4``, ``loss /= 4`` or ``(loss / 4).backward()``."""
    for step in script.steps:
        for backward in step.backwards:
            if isinstance(backward.node.func, ast.Attribute):
                for loss in _written_as(script, step, backward.node.func.value):
                    divisor = _divisor(script, loss)
                    if divisor is not None:
                        return divisor
    return None


def _written_as(script: Script, step: Step, loss: ast.expr) -> list[ast.expr]:
    """The expressions that a step's loss is written as, where it has a name or none."""
    if not isinstance(loss, ast.Name):
        return [loss]
    nodes = list(walk(step.node.body))
    assigned = [
        node.value
        for node in nodes
        if isinstance(node, ast.Assign)
        and [script.text(target) for target in node.targets] == [loss.id]
    ]
    changed = [
        ast.BinOp(node.target, node.op, node.value)
        for node in nodes
        if isinstance(node, ast.AugAssign) and script.text(node.target) == loss.id
    ]
    return [*assigned, *changed]


def _divisor(script: Script, loss: ast.expr) -> int | None:
    if not isinstance(loss, ast.BinOp) or not isinstance(loss.op, ast.Div):
        return None
    steps = script.python(loss.right)
    return steps if type(steps) is int and steps > 1 else None


def _modulus(script: Script, test: ast.expr) -> int | None:
    """``4`` of ``(i + 1) % 4 == 0``."""
    for node in walk([test]):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
            steps = script.python(node.right)
            if type(steps) is int and steps > 1:
                return steps
    return None


def calls_step(tree: ast.AST) -> bool:
    """True if a method ``step`` is called below a node."""
    return any(
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "step"
        for node in walk([tree])
    )


def steps_optimizer(function: Value) -> bool:
    """True if a function of the script calls a method ``step``."""
    node = getattr(function, "node", None)
    return isinstance(node, ast.FunctionDef | ast.Lambda) and calls_step(node)


def without_gradients(script: Script, node: ast.Call) -> bool:
    """True if a call definitely runs without autograd, on paths that no run reaches too."""
    call = script.call_at(node)
    return call.without_gradients if call is not None else is_off_around(script.ancestors(node))
