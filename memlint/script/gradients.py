"""Gradient mode: which contexts turn autograd off, and whether a call definitely runs without it.

A run keeps the contexts around each call by name. ``set_grad_enabled(False)`` and its like are
kept under the name of what they do, ``torch.no_grad`` or ``torch.enable_grad``, so that every
reader needs these names alone. Source: PyTorch, "Autograd mechanics" (locally disabling gradients).
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import TYPE_CHECKING

from memlint.script.values import Constant, Value

if TYPE_CHECKING:
    from memlint.script.interpreter import Interpreter
    from memlint.script.invocations import Record

OFF, ON = "torch.no_grad", "torch.enable_grad"
_TURN_OFF = frozenset({"no_grad", "inference_mode"})
_DECIDED_BY_ARGUMENT = frozenset({"set_grad_enabled", "_set_grad_enabled"})
# Methods that ``Trainer`` and Lightning call without gradients.
_EVALUATION_HOOKS = frozenset(
    {"prediction_step", "evaluation_loop", "validation_step", "test_step", "predict_step"}
)


def context_name(name: str, node: ast.expr, values: dict[ast.expr, Value]) -> str:
    """The name under which a ``with`` item or a decorator called ``name`` is kept."""
    last = name.rpartition(".")[2]
    if not isinstance(node, ast.Call) or last not in _DECIDED_BY_ARGUMENT | {"inference_mode"}:
        return name
    given = [*node.args, *(one.value for one in node.keywords if one.arg in ("mode", None))]
    mode = values.get(given[0]) if given else None
    if not isinstance(mode, Constant):
        # ``inference_mode()`` is on by itself; what an unknown flag decides is unknown.
        return name if last != "inference_mode" or not given else "torch.set_grad_enabled"
    if last == "inference_mode":
        return name if mode.value else "contextlib.nullcontext"
    return ON if mode.value else OFF


def set_grad_enabled(run: Interpreter, record: Record) -> None:
    """``torch.set_grad_enabled(False)`` as a statement: from here on, where no path differs."""
    decided = run.branches == 0
    name = context_name("torch.set_grad_enabled", record.node, run.values)
    run.contexts = (*run.contexts, name if decided else "torch.set_grad_enabled")


def is_off(contexts: Iterable[str]) -> bool:
    """Whether autograd is definitely off under ``contexts``, outermost first."""
    off = False
    for context in contexts:
        last = context.rpartition(".")[2]
        if last in _TURN_OFF:
            off = True
        elif last == "enable_grad" or last in _DECIDED_BY_ARGUMENT:
            off = False
    return off


def is_off_around(ancestors: Iterable[ast.AST]) -> bool:
    """The same for a node that no path reaches, by what is written around it, nearest first."""
    for around in ancestors:
        if isinstance(around, ast.FunctionDef | ast.AsyncFunctionDef):
            guards = around.decorator_list
            if around.name in _EVALUATION_HOOKS:
                return True
        elif isinstance(around, ast.With | ast.AsyncWith):
            guards = [item.context_expr for item in reversed(around.items)]
        else:
            continue
        for guard in guards:
            callee = guard.func if isinstance(guard, ast.Call) else guard
            written = callee.attr if isinstance(callee, ast.Attribute) else ""
            name = written or getattr(callee, "id", "")
            if name in _TURN_OFF:
                return context_name(name, guard, _constants(guard)) == name
            if name == "enable_grad" or name in _DECIDED_BY_ARGUMENT:
                return context_name(name, guard, _constants(guard)) == OFF
    return False


def _constants(guard: ast.expr) -> dict[ast.expr, Value]:
    return {
        node: Constant(node.value) for node in ast.walk(guard) if isinstance(node, ast.Constant)
    }


def in_evaluation_hook(function: ast.AST | None) -> bool:
    """Whether a trainer calls the function without gradients."""
    return isinstance(function, ast.FunctionDef) and function.name in _EVALUATION_HOOKS
