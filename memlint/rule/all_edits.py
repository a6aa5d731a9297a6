"""Edits that fixes are made of, and the functions that make them where a value lives.

A rule writes ``edits.set_option(script, call, "bf16", "True")``. What returns None cannot make its
edits with certainty.
"""

from __future__ import annotations

import ast
from typing import Literal

from memlint.engine.project import is_elsewhere
from memlint.runs.changes import add_option, set_item, set_option, together
from memlint.runs.recipe_changes import rename_key, set_key
from memlint.runs.references import Reference, reference_to, replace_callee, without_import
from memlint.script import Call, Script
from memlint.source.edits import (
    AddDecorator,
    AddParameter,
    Edit,
    InsertStatement,
    RemoveImport,
    RemoveKeyword,
    RemoveStatement,
    RenameAttribute,
    RenameImport,
    RenameKeyword,
    ReplaceCallee,
    ReplaceExpression,
    SetItem,
    SetKeyword,
    WrapStatements,
)

__all__ = [
    "AddDecorator",
    "AddParameter",
    "Edit",
    "InsertStatement",
    "Reference",
    "RemoveImport",
    "RemoveKeyword",
    "RemoveStatement",
    "RenameAttribute",
    "RenameImport",
    "RenameKeyword",
    "ReplaceCallee",
    "ReplaceExpression",
    "SetItem",
    "SetKeyword",
    "WrapStatements",
    "add_option",
    "call_after_load",
    "call_beside",
    "method_of",
    "reference_to",
    "rename_key",
    "replace_callee",
    "set_item",
    "set_key",
    "set_option",
    "together",
    "without_import",
]


def call_beside(
    script: Script,
    function: str,
    arguments: str,
    statement: ast.stmt,
    where: Literal["before", "after"] = "before",
) -> tuple[Edit, ...] | None:
    """Edits that call ``function``, by its qualified name, before or after a statement.

    None where its name is taken there.
    """
    reference = reference_to(script, function, statement)
    if reference is None:
        return None
    call = f"{reference.text}({arguments})"
    return (InsertStatement(script.span(statement), call, where), *reference.edits)


def call_after_load(script: Script, function: str, load: Call) -> tuple[Edit, ...] | None:
    """Edits that call ``function(model)`` after ``model = ...``; None where ``load`` gives the
    model no such name."""
    if is_elsewhere(load.node):
        return None
    match script.statement(load.node):
        case ast.Assign(targets=[ast.Name(id=name)], value=value) as statement:
            if value is load.node:
                return call_beside(script, function, name, statement, "after")
    return None


def method_of(script: Script, node: ast.expr, method: str) -> str:
    """``expression.method()``, in parentheses where it must be."""
    text = script.text(node)
    closed = isinstance(node, ast.Name | ast.Attribute | ast.Call | ast.Subscript)
    return f"{text}.{method}()" if closed else f"({text}).{method}()"
