"""The syntax tree of a script, indexed: what stands where, around what, and which names are bound.

Cost: one walk over all nodes, made when something is first asked of it, some 5 ms for a thousand
lines. Most files of a repository never need it.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TypeVar

from memlint.engine.nodes import CHILDREN
from memlint.engine.project import ElsewhereError, are_of_one_file, is_elsewhere
from memlint.source import Source, Span

Node = TypeVar("Node", bound=ast.AST)


def packages_at_top(module: ast.Module) -> frozenset[str]:
    """The packages that a module certainly imports, whatever it does: those of the imports that
    only imports and texts go before."""
    found: set[str] = set()
    for statement in module.body:
        match statement:
            case ast.Import(names=names):
                found.update(alias.name.partition(".")[0] for alias in names)
            case ast.ImportFrom(module=str(name), level=0):
                found.add(name.partition(".")[0])
            case ast.ImportFrom() | ast.Expr(value=ast.Constant()):
                pass
            case _:
                break
    return frozenset(found)


def _parents(
    tree: ast.Module, by_type: dict[type[ast.AST], list[ast.AST]]
) -> dict[ast.AST, ast.AST]:
    """Return the node around each node; all nodes go to ``by_type``, breadth first."""
    around: dict[ast.AST, ast.AST] = {}
    nodes: list[ast.AST] = [tree]
    for node in nodes:  # grows meanwhile
        kind = node.__class__
        by_type[kind].append(node)
        for name, many in CHILDREN[kind]:
            for child in getattr(node, name) if many else (getattr(node, name),):
                if child is not None:
                    around[child] = node
                    nodes.append(child)
    return around


class Tree:
    """A module and its source. others: the files of the project that were run for it."""

    def __init__(self, source: Source, tree: ast.Module, others: Sequence[ast.Module] = ()) -> None:
        self.source = source
        self.tree = tree
        self.others = others

    # -- places ----------------------------------------------------------------------------------

    def span(self, node: ast.AST) -> Span:
        """Return the bytes that a node covers.

        Raises ElsewhereError for a node of another file, which has no place in this one.
        """
        if is_elsewhere(node):
            raise ElsewhereError(f"{type(node).__name__} of another file")
        source = self.source
        return Span(
            source.offset(node.lineno, node.col_offset),  # type: ignore[attr-defined]
            source.offset(node.end_lineno, node.end_col_offset),  # type: ignore[attr-defined]
        )

    def is_before(self, first: ast.AST, last: ast.AST) -> bool | None:
        """True if ``first`` begins before ``last``; None where they are of two files."""
        if not are_of_one_file(first, last):
            return None
        start = (first.lineno, first.col_offset)  # type: ignore[attr-defined]
        return start < (last.lineno, last.col_offset)  # type: ignore[attr-defined]

    def text(self, node: ast.AST) -> str:
        """The source of a node, as it is written; of another file's, as Python would write it."""
        if is_elsewhere(node):
            return ast.unparse(node)
        return self.source.slice(self.span(node))

    @cached_property
    def _index(self) -> tuple[dict[ast.AST, ast.AST], dict[type[ast.AST], list[ast.AST]]]:
        """The node around each node, and all nodes by type, breadth first."""
        by_type: dict[type[ast.AST], list[ast.AST]] = defaultdict(list)
        around = _parents(self.tree, by_type)
        return around, by_type

    @cached_property
    def _around_elsewhere(self) -> dict[ast.AST, ast.AST]:
        """The node around each node of other files."""
        around: dict[ast.AST, ast.AST] = {}
        for tree in self.others:
            around.update(_parents(tree, defaultdict(list)))
        return around

    def parent(self, node: ast.AST) -> ast.AST | None:
        """Return the node around a node, in its own file."""
        around = self._index[0].get(node)
        if around is None and node is not self.tree and self.others:
            return self._around_elsewhere.get(node)
        return around

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        """The nodes around a node, nearest first."""
        around = self._index[0]
        if node not in around and node is not self.tree and self.others:
            around = self._around_elsewhere
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

    def is_statement(self, node: ast.expr) -> bool:
        """True if an expression is a statement of its own, whose value nothing reads."""
        return isinstance(self.parent(node), ast.Expr)

    def is_simple(self, statement: ast.stmt) -> bool:
        """True if a statement is an assignment, an expression or a return: one beside it runs as
        often as it does."""
        return isinstance(statement, ast.Assign | ast.Expr | ast.Return)

    def function(self, node: ast.AST) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
        """The function definition around a node."""
        found = self.enclosing(node, ast.FunctionDef, ast.AsyncFunctionDef)
        return found if isinstance(found, ast.FunctionDef | ast.AsyncFunctionDef) else None

    def nodes(self, kind: type[Node]) -> list[Node]:
        """All nodes of exactly one type, in breadth-first order. Contexts and operators, which
        nodes share, are not among them."""
        return self._index[1].get(kind, [])  # type: ignore[return-value]

    def is_named(self, *words: str, ignore: tuple[str, ...] = ()) -> bool:
        """True if one of ``words`` is an attribute, a keyword or a string of the script.

        Keywords and strings in calls of the methods ``ignore`` do not count.
        """
        return any(node.attr in words for node in self.nodes(ast.Attribute)) or any(
            not self._is_in_call(node, ignore)
            for node in (
                *(node for node in self.nodes(ast.keyword) if node.arg in words),
                *(node for node in self.nodes(ast.Constant) if node.value in words),
            )
        )

    def _is_in_call(self, node: ast.AST, methods: tuple[str, ...]) -> bool:
        call = self.enclosing(node, ast.Call) if methods else None
        return (
            isinstance(call, ast.Call)
            and isinstance(call.func, ast.Attribute)
            and call.func.attr in methods
        )

    def sets(self, *names: str) -> bool:
        """True if an attribute is set, or a method is called, that has one of these names."""
        return any(
            node.attr in names and (not isinstance(node.ctx, ast.Load) or self._is_called(node))
            for node in self.nodes(ast.Attribute)
        ) or any(
            len(node.args) > 1 and getattr(node.args[1], "value", None) in names
            for node in self.nodes(ast.Call)
            if isinstance(node.func, ast.Name) and node.func.id == "setattr"
        )

    def _is_called(self, node: ast.expr) -> bool:
        parent = self.parent(node)
        return isinstance(parent, ast.Call) and parent.func is node

    def is_shared(self, name: str) -> bool:
        """True if code out of sight may read a name: another function, cell or module."""
        declared = [one.names for one in self.nodes(ast.Global)]
        declared += [one.names for one in self.nodes(ast.Nonlocal)]
        return any(name in names for names in declared) or any(
            isinstance(one.func, ast.Name) and one.func.id in ("globals", "locals")
            for one in self.nodes(ast.Call)
        )

    def calls_method(self, holder: str, *methods: str) -> bool:
        """True if one of ``methods`` is called on what is written as ``holder``."""
        return any(
            isinstance(one.func, ast.Attribute)
            and one.func.attr in methods
            and self.text(one.func.value) == holder
            for one in self.nodes(ast.Call)
        )

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
        """True if a plain name is bound anywhere by other means than an import."""
        return name in self._bindings

    def is_read_once(self, name: str) -> bool:
        """True if a plain name is read at one place and bound at one place, in all of the file."""
        return self._loads.get(name) == 1 and len(self._bindings.get(name, ())) == 1

    def is_bound_before(self, value: ast.expr, at: ast.AST) -> bool:
        """True if all names in ``value`` are definitely bound where ``at`` stands: ``value`` means
        there what it means where it is written."""
        function = self.function(at)
        shared = function is self.function(value)
        for name in {node.id for node in ast.walk(value) if isinstance(node, ast.Name)}:
            for node in self._bindings.get(name, ()):
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Del):
                    continue
                home = self.function(node)
                if not shared and home is not None:
                    return False
                if home is function and self.is_before(node, at) is not True:
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

    @cached_property
    def unread_constants(self) -> tuple[tuple[ast.Name, object], ...]:
        """``name = constant`` at the top of the file whose name is read nowhere: the target and
        the value. A name that a string spells counts as read (``globals()["name"]``)."""
        read = {one.id for one in self.nodes(ast.Name) if not isinstance(one.ctx, ast.Store)}
        spelled = {one.value for one in self.nodes(ast.Constant) if isinstance(one.value, str)}
        found: list[tuple[ast.Name, object]] = []
        for statement in self.tree.body:
            match statement:
                case ast.Assign(targets=[ast.Name() as target], value=ast.Constant(value=value)):
                    if target.id not in read and target.id not in spelled:
                        found.append((target, value))
        return tuple(found)
