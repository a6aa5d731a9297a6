"""Branches that are not taken unless somebody says otherwise.

A run follows both arms of a condition that a command line decides. What is in the arm that its
default switches off is not what the script does by itself.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from memlint.engine.answers import all_of, any_of, opposite
from memlint.script.settings import UNSURE

if TYPE_CHECKING:
    from memlint.script.model import Script


def is_off_by_default(script: Script, node: ast.AST) -> bool:
    """True if the defaults of a command line or a function keep ``node`` from running, by a
    condition around it."""
    inner = node
    for around in script.ancestors(node):
        if isinstance(around, ast.If):
            holds = _holds(script, around.test)
            if (holds is False and inner in around.body) or (holds and inner in around.orelse):
                return True
        elif isinstance(around, ast.IfExp):
            holds = _holds(script, around.test)
            if (holds is False and inner is around.body) or (holds and inner is around.orelse):
                return True
        inner = around
    return False


def _holds(script: Script, test: ast.expr) -> bool | None:
    """True if a condition holds by the defaults in it; None where nobody can tell."""
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return opposite(_holds(script, operand))
        case ast.BoolOp(op=ast.And(), values=values):
            return all_of(_holds(script, one) for one in values)
        case ast.BoolOp(op=ast.Or(), values=values):
            return any_of(_holds(script, one) for one in values)
        case ast.Compare(left=left, ops=[ast.Eq() | ast.Is()], comparators=[right]):
            return _equal(script, left, right)
        case ast.Compare(left=left, ops=[ast.NotEq() | ast.IsNot()], comparators=[right]):
            return opposite(_equal(script, left, right))
        case ast.Name() | ast.Attribute() | ast.Constant():
            value = script.python(test)
            known = value is None or isinstance(value, bool | int | float | str)
            return bool(value) if known else None
    return None


def _equal(script: Script, left: ast.expr, right: ast.expr) -> bool | None:
    one, other = script.python(left), script.python(right)
    if one is UNSURE or other is UNSURE:
        return None
    plain = (bool, int, float, str, type(None))
    if not isinstance(one, plain) or not isinstance(other, plain):
        return None
    return type(one) is type(other) and one == other
