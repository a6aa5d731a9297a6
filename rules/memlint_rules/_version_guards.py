"""Scripts that look for versions themselves: they catch the error, or ask a signature first."""

from __future__ import annotations

import ast

from memlint.rule import Script


def is_guarded(script: Script, node: ast.AST) -> bool:
    """Whether the script itself minds versions here: it catches the error, or asks first."""
    if not script.says("except", "ersion"):
        return False
    for around in script.ancestors(node):
        if isinstance(around, ast.Try) and _within(node, around.body, script):
            few = len(around.body) <= _FEW
            if any(_catches(handler, anything=few) for handler in around.handlers):
                return True
        elif isinstance(around, ast.ExceptHandler):
            # What is done where the new name fails.
            if _catches(around, anything=False):
                return True
        elif isinstance(around, ast.If | ast.IfExp) and "ersion" in script.text(around.test):
            return True
    return False


def _within(node: ast.AST, body: list[ast.stmt], script: Script) -> bool:
    span = script.span(node)
    return any(script.span(statement).contains(span) for statement in body)


# A whole program under ``except Exception`` reports its errors; a few lines under it try something.
_FEW = 3


_OF_VERSIONS = frozenset({"ImportError", "ModuleNotFoundError", "TypeError", "AttributeError"})


def _catches(handler: ast.ExceptHandler, *, anything: bool) -> bool:
    if handler.type is None:
        return anything
    names = {node.id for node in ast.walk(handler.type) if isinstance(node, ast.Name)}
    return not names.isdisjoint(_OF_VERSIONS) or (anything and "Exception" in names)


def names_looked_up(script: Script) -> frozenset[str]:
    """Options that the script looks for in a signature before it passes them."""
    if not script.calls_to("inspect.signature", "inspect.getfullargspec", "dataclasses.fields"):
        return frozenset()
    return frozenset(
        node.value for node in script.nodes(ast.Constant) if isinstance(node.value, str)
    )
