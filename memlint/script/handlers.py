"""Where a script goes on after an error of a training step: handlers, and contexts that suppress.

Anomaly detection ends a backward pass with ``RuntimeError``. Where that is caught, it decides which
steps are trained.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from memlint.engine.nodes import walk
from memlint.engine.project import is_elsewhere

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from memlint.script.model import Script

_WIDE = frozenset({"RuntimeError", "Exception", "BaseException"})
# Methods that run a backward pass, or a whole training.
_TRAINING = frozenset({"train", "fit", "training_step", "manual_backward"})


def survives_failed_steps(script: Script) -> bool:
    """True if the script may go on where a step of its training ends in a ``RuntimeError``; what
    another file does about one is not known."""
    if any(is_elsewhere(one.node) for one in script._backward_invocations):
        return True
    bodies = list(_guarded(script))
    return bool(bodies) and any(_trains(script, body) for body in bodies)


def _guarded(script: Script) -> Iterator[list[ast.stmt]]:
    """The statements after whose ``RuntimeError`` the script goes on."""
    tries: list[ast.Try] = list(script.nodes(ast.Try))
    for node in tries:
        if any(_catches(one.type) and not _raises_again(one) for one in node.handlers):
            yield node.body
    contexts: list[ast.With] = list(script.nodes(ast.With))
    for block in contexts:
        if any(_suppresses(script, item.context_expr) for item in block.items):
            yield block.body


def _suppresses(script: Script, made: ast.expr) -> bool:
    return (
        isinstance(made, ast.Call)
        and script.name(made.func) == "contextlib.suppress"
        and any(_catches(one) for one in made.args)
    )


def _catches(kind: ast.expr | None) -> bool:
    """True if a handler catches ``RuntimeError``: of classes with a name of their own, the wide
    ones alone do."""
    match kind:
        case None:
            return True
        case ast.Tuple(elts=kinds):
            return any(_catches(one) for one in kinds)
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name in _WIDE or not name[:1].isupper() or name.isupper()
    return True


def _raises_again(handler: ast.ExceptHandler) -> bool:
    """True if a handler always ends by raising what it caught."""
    leaves = (ast.Return, ast.Continue, ast.Break)
    match handler.body[-1]:
        case ast.Raise(exc=None):
            return not any(isinstance(node, leaves) for node in walk(handler.body))
    return False


def _trains(script: Script, body: Iterable[ast.AST]) -> bool:
    """True if statements run a forward or backward pass, in functions of the script too."""
    forwards = {one.node for one in script.forwards}
    functions: dict[str, list[ast.stmt]] = {}
    for function in script.nodes(ast.FunctionDef):
        functions.setdefault(function.name, []).extend(function.body)
    pending, seen = list(body), set()
    for root in pending:  # grows meanwhile
        for node in walk([root]):
            if not isinstance(node, ast.Call):
                continue
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            if node in forwards or name in _TRAINING or name.endswith("backward"):
                return True
            if name in functions and name not in seen:
                seen.add(name)
                pending += functions[name]
    return False
