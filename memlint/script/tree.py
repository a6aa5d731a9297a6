"""The syntax tree of a script, indexed: what stands where, around what, and which names are bound.

Cost: one walk over all nodes, made when something is first asked of it, some 5 ms for a thousand
lines. Most files of a repository never need it.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from functools import cached_property
from typing import TypeVar

from memlint.source import Source, Span

Node = TypeVar("Node", bound=ast.AST)

# Fields of these are never nodes that anything is asked of, or they have none.
_LEAVES = (ast.Name, ast.Constant, ast.alias, ast.Pass, ast.Break, ast.Continue)
# What nodes share and nothing is asked of: ``Load()`` is one object in all of a tree.
_SHARED = (ast.expr_context, ast.boolop, ast.operator, ast.unaryop, ast.cmpop)


class Tree:
    """A module and its source."""

    def __init__(self, source: Source, tree: ast.Module) -> None:
        self.source = source
        self.tree = tree

    # -- places ----------------------------------------------------------------------------------

    def span(self, node: ast.AST) -> Span:
        """The bytes that a node covers."""
        source = self.source
        return Span(
            source.offset(node.lineno, node.col_offset),  # type: ignore[attr-defined]
            source.offset(node.end_lineno, node.end_col_offset),  # type: ignore[attr-defined]
        )

    def text(self, node: ast.AST) -> str:
        """The source of a node, as it is written."""
        return self.source.slice(self.span(node))

    @cached_property
    def _index(self) -> tuple[dict[ast.AST, ast.AST], dict[type[ast.AST], list[ast.AST]]]:
        """The node around each node, and all nodes by type, breadth first."""
        around: dict[ast.AST, ast.AST] = {}
        by_type: dict[type[ast.AST], list[ast.AST]] = defaultdict(list)
        nodes: list[ast.AST] = [self.tree]
        for node in nodes:  # grows meanwhile
            by_type[node.__class__].append(node)
            if isinstance(node, _LEAVES):
                continue
            for value in node.__dict__.values():
                if value.__class__ is list:
                    for child in value:
                        if isinstance(child, ast.AST) and not isinstance(child, _SHARED):
                            around[child] = node
                            nodes.append(child)
                elif isinstance(value, ast.AST) and not isinstance(value, _SHARED):
                    around[value] = node
                    nodes.append(value)
        return around, by_type

    def parent(self, node: ast.AST) -> ast.AST | None:
        return self._index[0].get(node)

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        """The nodes around a node, nearest first."""
        around = self._index[0]
        parent = around.get(node)
        while parent is not None:
            yield parent
            parent = around.get(parent)

    def enclosing(self, node: ast.AST, *kinds: type[ast.AST]) -> ast.AST | None:
        """The nearest node of one of ``kinds`` around ``node``."""
        return next((one for one in self.ancestors(node) if isinstance(one, kinds)), None)

    def statement(self, node: ast.AST) -> ast.stmt:
        """The statement that a node belongs to."""
        if isinstance(node, ast.stmt):
            return node
        found = self.enclosing(node, ast.stmt)
        assert isinstance(found, ast.stmt), "an expression stands in a statement"
        return found

    def function(self, node: ast.AST) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
        """The function definition around a node."""
        found = self.enclosing(node, ast.FunctionDef, ast.AsyncFunctionDef)
        return found if isinstance(found, ast.FunctionDef | ast.AsyncFunctionDef) else None

    def nodes(self, kind: type[Node]) -> list[Node]:
        """All nodes of exactly one type, in breadth-first order. Contexts and operators, which
        nodes share, are not among them."""
        return self._index[1].get(kind, [])  # type: ignore[return-value]

    # -- names -----------------------------------------------------------------------------------

    @cached_property
    def _bindings(self) -> dict[str, list[ast.AST]]:
        """Where each plain name is bound or deleted (imports left out: they are bound early)."""
        found: dict[str, list[ast.AST]] = defaultdict(list)
        for name in self.nodes(ast.Name):
            if not isinstance(name.ctx, ast.Load):
                found[name.id].append(name)
        definitions: list[ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef] = [
            *self.nodes(ast.FunctionDef),
            *self.nodes(ast.AsyncFunctionDef),
            *self.nodes(ast.ClassDef),
        ]
        for definition in definitions:
            found[definition.name].append(definition)
        for argument in self.nodes(ast.arg):
            found[argument.arg].append(argument)
        return found

    @cached_property
    def _loads(self) -> dict[str, int]:
        count: dict[str, int] = defaultdict(int)
        for node in self.nodes(ast.Name):
            if isinstance(node.ctx, ast.Load):
                count[node.id] += 1
        return count

    def binds(self, name: str) -> bool:
        """Whether a plain name is bound anywhere by other means than an import."""
        return name in self._bindings

    def is_read_once(self, name: str) -> bool:
        """Whether a plain name is read at one place and bound at one place, in all of the file."""
        return self._loads.get(name) == 1 and len(self._bindings.get(name, ())) == 1

    def is_bound_before(self, value: ast.expr, at: ast.AST) -> bool:
        """Whether all names in ``value`` are surely bound where ``at`` stands: ``value`` means
        there what it means where it is written."""
        place = self.span(at).start
        function = self.function(at)
        shared = function is self.function(value)
        for name in {node.id for node in ast.walk(value) if isinstance(node, ast.Name)}:
            for node in self._bindings.get(name, ()):
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Del):
                    continue
                home = self.function(node)
                if not shared and home is not None:
                    return False
                if home is function and self.span(node).end > place:
                    return False
        return True

    def sole_assignment(self, name: ast.Name) -> ast.Assign | None:
        """The statement ``name = ...``, if the name is bound there only and read here only."""
        if not self.is_read_once(name.id):
            return None
        for statement in self.nodes(ast.Assign):
            match statement.targets:
                case [ast.Name(id=bound)] if bound == name.id:
                    return statement
        return None
