"""The nodes of a syntax tree, in less time than ``ast`` takes to give them."""

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import lru_cache

# Handles on what is written, for those who ask the engine what it says and read none of it.
Node = ast.AST
Expression = ast.expr
Statement = ast.stmt
CallNode = ast.Call
ItemNode = ast.Subscript
NameNode = ast.Name
WithNode = ast.With
Definition = ast.FunctionDef | ast.AsyncFunctionDef
ClassNode = ast.ClassDef
Module = ast.Module
Keyword = ast.keyword
ImportNode = ast.Import | ast.ImportFrom
ImportName = ast.alias

# What nodes share, and what is no node: nothing is asked of them.
_SHARED = frozenset({"expr_context", "boolop", "operator", "unaryop", "cmpop"})
_PLAIN = _SHARED | {"identifier", "int", "string", "constant", "object", "type_ignore"}


class _Children(dict[type[ast.AST], tuple[tuple[str, bool], ...]]):
    """The fields of each kind of node that hold nodes, and whether they hold a list of them.

    Read off the grammar that is a kind's docstring: ``Call(expr func, expr* args, ...)``.
    """

    def __missing__(self, kind: type[ast.AST]) -> tuple[tuple[str, bool], ...]:
        found = []
        for field in (kind.__doc__ or "").partition("(")[2].rstrip(") \n").split(","):
            holds, _, name = field.strip().partition(" ")
            if name in kind._fields and holds.rstrip("*?") not in _PLAIN:
                found.append((name, holds.endswith("*")))
        self[kind] = tuple(found)
        return self[kind]


CHILDREN = _Children()


def imports_in(nodes: Iterable[ast.AST]) -> Iterator[tuple[str, str]]:
    """Yield what nodes import, by qualified name, and the name that it gets."""
    for node in nodes:
        if isinstance(node, ImportNode):
            module = getattr(node, "module", "")
            home = "." * getattr(node, "level", 0) + (f"{module}." if module else "")
            yield from ((home + each.name, each.asname or each.name) for each in node.names)


def walk(roots: Iterable[ast.AST]) -> list[ast.AST]:
    """``roots`` and all nodes below them, breadth first: as ``ast.walk``, in a third of its time
    and without the contexts and operators that nodes share."""
    nodes = list(roots)
    for node in nodes:  # grows meanwhile
        for name, many in CHILDREN[node.__class__]:
            if many:
                nodes += [child for child in getattr(node, name) if child is not None]
            else:
                child = getattr(node, name)
                if child is not None:
                    nodes.append(child)
    return nodes


NodesByKind = dict[type[ast.AST], list[ast.AST]]
Index = tuple[dict[ast.AST, ast.AST], NodesByKind]


@lru_cache(maxsize=16)
def indexed(*trees: ast.AST) -> Index:
    """Return the node around each node, and all nodes by type, those of a tree breadth first."""
    around: dict[ast.AST, ast.AST] = {}
    by_kind: NodesByKind = defaultdict(list)
    for tree in trees:
        nodes = [tree]
        for node in nodes:  # grows meanwhile
            kind = node.__class__
            by_kind[kind].append(node)
            for name, many in CHILDREN[kind]:
                for child in getattr(node, name) if many else (getattr(node, name),):
                    if child is not None:
                        around[child] = node
                        nodes.append(child)
    return around, by_kind


def called_name(call: ast.Call) -> str:
    """The last name of what is called: ``map`` of ``data.map(...)``; empty where it has none."""
    return last_name(call.func)


def last_name(node: ast.AST | None) -> str:
    """``tokenizer`` of ``self.tokenizer``; empty for what is no name and no attribute."""
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def literal_of(node: ast.AST) -> object:
    """The value of a literal; None for anything else."""
    return node.value if isinstance(node, ast.Constant) else None


def targets_of(statement: ast.AST) -> list[ast.expr]:
    """What a plain assignment binds; nothing for other statements."""
    return statement.targets if isinstance(statement, ast.Assign) else []


def holder_of(node: ast.expr) -> ast.expr | None:
    """``data`` of ``data.map(...)`` and of ``data.rows``; None for all else."""
    inner = node.func if isinstance(node, ast.Call) else node
    return inner.value if isinstance(inner, ast.Attribute) else None


def call_itself(node: ast.AST | None) -> ast.Call | None:
    """The call that an expression is; None for any other."""
    return node if isinstance(node, ast.Call) else None


def key_of(item: ast.AST) -> ast.expr | None:
    """``0`` of ``logits[0]``; None for what is no item."""
    return item.slice if isinstance(item, ast.Subscript) else None


def holder_of_item(item: ast.expr) -> ast.expr:
    """``outputs`` of ``outputs["logits"]``."""
    assert isinstance(item, ast.Subscript)
    return item.value


def arguments_of(call: ast.Call) -> list[ast.expr]:
    """The arguments of a call, those by keyword included."""
    return [*call.args, *(keyword.value for keyword in call.keywords)]


def calls_in(*roots: ast.AST) -> list[ast.Call]:
    """The calls at ``roots`` and below them, breadth first."""
    return [node for node in walk(roots) if isinstance(node, ast.Call)]


def is_lambda(node: ast.AST) -> bool:
    return isinstance(node, ast.Lambda)


def is_comprehension(node: Node | None) -> bool:
    return isinstance(node, ast.ListComp)
