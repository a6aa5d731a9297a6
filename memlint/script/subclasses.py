"""Subclasses of the script that hand on what they do not take themselves."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from memlint.script.calls import Call


def kept_by_subclass(call: Call) -> frozenset[str] | None:
    """The keywords that the constructor of the script's own class takes, where all others certainly
    reach the library's; None where that is not certain, or no such class is made."""
    cls = call.subclass
    if cls is None or len(cls.bases) != 1 or cls.keywords:
        return None
    init = next(
        (one for one in cls.body if isinstance(one, ast.FunctionDef) and one.name == "__init__"),
        None,
    )
    if init is None or init.args.kwarg is None or init.decorator_list:
        return None
    if not _is_direct(call, cls) or not _only_handed_on(init, init.args.kwarg.arg):
        return None
    own = (*init.args.posonlyargs, *init.args.args, *init.args.kwonlyargs)
    return frozenset(argument.arg for argument in own)


def _is_direct(call: Call, cls: ast.ClassDef) -> bool:
    """True if the base is the library's class itself."""
    return call.script.name(cls.bases[0]) == call.name


def _only_handed_on(init: ast.FunctionDef, keywords: str) -> bool:
    """``super().__init__(..., **kwargs)``, and nothing else is done with them."""
    uses = [node for node in ast.walk(init) if isinstance(node, ast.Name) and node.id == keywords]
    match [node for node in ast.walk(init) if isinstance(node, ast.Call) and _is_super(node.func)]:
        case [ast.Call(keywords=given)]:
            handed = [item.value for item in given if item.arg is None]
            return len(uses) == 1 and handed == uses
    return False


def _is_super(function: ast.expr) -> bool:
    return ast.unparse(function) == "super().__init__"
