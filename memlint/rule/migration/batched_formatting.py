"""A ``formatting_func`` that makes texts of many rows, for an SFTTrainer that asks for one of each.

Until 0.20 TRL gave the function a batch of rows and took a list of texts; since 0.21 it gives one
row and wants its text. A function written for batches gets a batch of one row.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from memlint.rule import (
    Applicability,
    Finding,
    Fix,
    Function,
    ReplaceExpression,
    Script,
)

_OPTION = "formatting_func"
_Scope = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef


def batched_formatting(script: Script) -> Iterator[Finding]:
    if script.uses_unsloth or script.api.behaviour("sft-formatting") != "row":
        return
    version = script.api.target.version("trl").version
    for trainer in script.trainers:
        given = trainer.keyword_node(_OPTION)
        if trainer.kind != "trl.SFTTrainer" or trainer.subclass is not None or given is None:
            continue
        functions = _functions(script, given.value)
        if not functions or not all(_returns_lists(function) for function in functions):
            continue
        yield Finding(
            script.span(given.value),
            f"`{_OPTION}` returns a list, `SFTTrainer` of trl {version} wants the text of one row "
            f"(since trl 0.21)",
            _fix(script, given.value, functions),
        )


def _functions(script: Script, value: ast.expr) -> list[ast.FunctionDef | ast.Lambda]:
    """The functions of the script that ``value`` may be; none where it may be anything else."""
    found = script.value(value)
    may_be = (found,) if isinstance(found, Function) else getattr(found, "options", ())
    nodes = [getattr(one, "node", None) for one in may_be]
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef | ast.Lambda)]
    return functions if len(functions) == len(nodes) else []


def _fix(script: Script, value: ast.expr, functions: list[ast.FunctionDef | ast.Lambda]) -> Fix:
    if not isinstance(value, ast.Name | ast.Attribute) or script.text(value) == "row":
        return Fix("Return the text of one row", (), Applicability.DISPLAY)
    text = script.text(value)
    batch = "{name: [value] for name, value in row.items()}"
    if all(_goes_through_rows(function) for function in functions):
        edit = ReplaceExpression(script.span(value), f"lambda row: {text}({batch})[0]")
        return Fix(f"Give `{text}` a batch of one row", (edit,))
    indexed = all(_takes_first_row(function) for function in functions)
    given = batch if indexed else "row"
    edit = ReplaceExpression(script.span(value), f"lambda row: {text}({given})[0]")
    return Fix(
        f"Take the one text of `{text}` for each row: it made one of a whole batch",
        (edit,),
        Applicability.UNSAFE,
    )


def _own(function: ast.FunctionDef | ast.Lambda) -> Iterator[ast.AST]:
    """The nodes of a function, those of functions within left out."""
    waiting: list[ast.AST] = (
        [function.body] if isinstance(function, ast.Lambda) else list(function.body)
    )
    while waiting:
        node = waiting.pop()
        yield node
        waiting += [one for one in ast.iter_child_nodes(node) if not isinstance(one, _Scope)]


def _returns_lists(function: ast.FunctionDef | ast.Lambda) -> bool:
    """True if all that it returns is a list, to all appearances."""
    if isinstance(function, ast.Lambda):
        return _is_list(function.body)
    lists = {name for name, value in _assignments(function) if _is_list(value)}
    others = {name for name, value in _assignments(function) if not _is_list(value)}
    returned = [node.value for node in _own(function) if isinstance(node, ast.Return)]
    return bool(returned) and all(
        _is_list(one) or (isinstance(one, ast.Name) and one.id in lists - others)
        for one in returned
    )


def _is_list(value: ast.expr | None) -> bool:
    return isinstance(value, ast.List | ast.ListComp)


def _assignments(function: ast.FunctionDef | ast.Lambda) -> Iterator[tuple[str, ast.expr]]:
    """The names that a function assigns to, each with what it gets."""
    for node in _own(function):
        for target in node.targets if isinstance(node, ast.Assign) else ():
            if isinstance(target, ast.Name) and isinstance(node, ast.Assign):
                yield target.id, node.value


def _rows(function: ast.FunctionDef | ast.Lambda) -> set[str]:
    """The names under which it has what it was given: the parameter, and columns of it."""
    first = next(iter(function.args.posonlyargs + function.args.args), None)
    names = {first.arg} if first is not None else set()
    return names | {name for name, value in _assignments(function) if _mentions(value, names)}


def _mentions(node: ast.AST, names: set[str]) -> bool:
    return any(isinstance(one, ast.Name) and one.id in names for one in ast.walk(node))


def _goes_through_rows(function: ast.FunctionDef | ast.Lambda) -> bool:
    """True if it goes through the rows of a batch, one text after the other."""
    names = _rows(function)
    loops = (one for one in _own(function) if isinstance(one, ast.For | ast.comprehension))
    return any(_mentions(loop.iter, names) for loop in loops)


def _takes_first_row(function: ast.FunctionDef | ast.Lambda) -> bool:
    """True if it asks a column for the first of its rows: ``example["text"][0]``."""
    return any(
        isinstance(node, ast.Subscript)
        and isinstance(node.value, ast.Subscript)
        and isinstance(node.slice, ast.Constant)
        and isinstance(node.slice.value, int)
        for node in _own(function)
    )
