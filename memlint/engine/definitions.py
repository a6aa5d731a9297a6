"""Classes and functions as they are defined, and the words that code is made of."""

import ast
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any

from memlint.engine.nodes import walk
from memlint.engine.tree import Tree
from memlint.engine.values import Class

_SPEAKING = (ast.Attribute, ast.keyword, ast.Import, ast.ImportFrom, ast.Constant, ast.Expr)
_WORD = re.compile(r"[A-Za-z_]\w*")
_SPACE = re.compile(r"\s")


def methods_of(cls: Class) -> Iterator[ast.FunctionDef]:
    """Yield the methods of a class of the script, those of its bases there included."""
    seen = set()
    pending = [cls]
    for one in pending:  # grows meanwhile
        for statement in one.node.body:
            if isinstance(statement, ast.FunctionDef) and statement.name not in seen:
                seen.add(statement.name)
                yield statement
        pending += [base for base in one.bases if isinstance(base, Class)]


def own_methods(classes: Iterable[Class], node: ast.ClassDef | None) -> Iterator[ast.FunctionDef]:
    """Yield the methods of the class among ``classes`` that is defined by a statement."""
    return (method for one in classes if one.node is node for method in methods_of(one))


def leaves_loss_to_model(compute_loss: ast.FunctionDef) -> bool | None:
    """True if a trainer's own method returns the loss that the model or its base computes, False
    where it reads the logits too; None where it does neither in sight."""
    words = set()
    for one in walk(compute_loss.body):
        match one:
            case ast.Attribute(value=ast.Attribute() | ast.Name(id="self")):
                pass
            case ast.Attribute(attr=word) | ast.Subscript(slice=ast.Constant(value=word)):
                words.add(word)
    if "logits" in words:
        return False
    return True if words & {"loss", "compute_loss"} else None


# Methods of lists, dicts and sets that change them.
_CHANGING = frozenset({"append", "extend", "insert", "add", "update", "setdefault", "pop", "clear"})


def keeps_state(method: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """True if a method changes its object or its arguments, or adds to a list of others."""
    arguments = method.args
    given = {one.arg for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}
    local = {
        one.id
        for one in walk(method.body)
        if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)
    }
    for one in walk(method.body):
        match one:
            case ast.Attribute(ctx=ast.Store()) | ast.Subscript(ctx=ast.Store()):
                if _holder(one) in given:
                    return True
            # ``add_``: a tensor's method that works in place.
            case ast.Call(func=ast.Attribute(attr=name, value=inner)) if name in _CHANGING or (
                name.endswith("_") and not name.endswith("__")
            ):
                if _holder(inner) in given or _holder(inner) not in local:
                    return True
    return False


def _holder(target: ast.expr) -> str:
    while isinstance(target, ast.Attribute | ast.Subscript):
        target = target.value
    return target.id if isinstance(target, ast.Name) else ""


def keywords_kept(cls: ast.ClassDef) -> frozenset[str] | None:
    """The keywords that a class's constructor takes itself, where it hands all others to that of
    its one base and does nothing else with them; None where that is not certain."""
    init = next(
        (one for one in cls.body if isinstance(one, ast.FunctionDef) and one.name == "__init__"),
        None,
    )
    if len(cls.bases) != 1 or cls.keywords or init is None or init.decorator_list:
        return None
    if init.args.kwarg is None or not _only_handed_on(init, init.args.kwarg.arg):
        return None
    taken = (*init.args.posonlyargs, *init.args.args, *init.args.kwonlyargs)
    return frozenset(argument.arg for argument in taken)


def _only_handed_on(init: ast.FunctionDef, keywords: str) -> bool:
    """``super().__init__(model=model, **kwargs)``, and nothing else is done with them."""
    uses = [node for node in ast.walk(init) if isinstance(node, ast.Name) and node.id == keywords]
    match [
        node
        for node in ast.walk(init)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "super().__init__"
    ]:
        case [ast.Call(keywords=given)]:
            handed = [item.value for item in given if item.arg is None]
            renamed = [one for one in given if one.arg and ast.unparse(one.value) != one.arg]
            return len(uses) == 1 and handed == uses and not renamed
    return False


def words_of_code(tree: Tree) -> set[str]:
    """The names in code that are not its own, of the files that were run for it too.

    Attributes, keywords and imports; and the words of strings without spaces: keys, names for
    ``getattr``, environment variables.
    """
    own = [node for kind in _SPEAKING for node in tree.nodes(kind)]
    return {*_words(own), *(word for other in tree.others for word in _words_of_file(other))}


@lru_cache(maxsize=512)
def _words_of_file(tree: ast.Module) -> frozenset[str]:
    """The same of a file of the project, which several scripts import."""
    return frozenset(_words(walk([tree])))


def _words(nodes: list[Any]) -> Iterator[str]:
    prose = {node.value for node in nodes if isinstance(node, ast.Expr)}
    for node in nodes:
        kind = node.__class__
        if kind is ast.Attribute:
            yield node.attr
        elif kind is ast.keyword and node.arg:
            yield node.arg
        elif kind is ast.Constant and node.value.__class__ is str and node not in prose:
            yield from [] if _SPACE.search(node.value) else _WORD.findall(node.value)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            home = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
            yield from (home + alias.name for alias in node.names)
