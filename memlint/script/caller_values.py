"""What an expression takes from the callers of its function."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from memlint.script.model import Script


def takes_parameter(script: Script, node: ast.expr) -> bool:
    """True if an expression reads a parameter of a function around it, which callers choose."""
    read = {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}
    for around in script.ancestors(node) if read else ():
        if isinstance(around, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            given = around.args
            every = (*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg)
            if any(one is not None and one.arg in read for one in every):
                return True
    return False
