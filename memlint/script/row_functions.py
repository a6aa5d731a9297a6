"""Functions that make texts of rows: whether they take a batch of rows, and what they return."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from memlint.engine.values import Function
from memlint.script.calls import Host
from memlint.source.record import NamedTuple

_Scope = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef


class RowFunction(NamedTuple):
    """A function of the script that gets rows of data."""

    node: ast.FunctionDef | ast.Lambda

    @property
    def returns_list(self) -> bool:
        """True if all that it returns is a list, to all appearances."""
        if isinstance(self.node, ast.Lambda):
            return _is_list(self.node.body)
        lists = {name for name, value in self._assignments if _is_list(value)}
        lists -= {name for name, value in self._assignments if not _is_list(value)}
        returned = [node.value for node in self._nodes if isinstance(node, ast.Return)]
        return bool(returned) and all(
            _is_list(value) or getattr(value, "id", None) in lists for value in returned
        )

    @property
    def goes_through_rows(self) -> bool:
        """True if it goes through the rows of a batch, one text after the other."""
        first = next(iter(self.node.args.posonlyargs + self.node.args.args), None)
        rows = {first.arg} if first is not None else set()
        rows |= {name for name, value in self._assignments if _mentions(value, rows)}
        return any(
            _mentions(node.iter, rows)
            for node in self._nodes
            if isinstance(node, ast.For | ast.comprehension)
        )

    @property
    def takes_first_row(self) -> bool:
        """True if it asks a column for one of its rows: ``example["text"][0]``."""
        return any(
            isinstance(node, ast.Subscript)
            and isinstance(node.value, ast.Subscript)
            and isinstance(getattr(node.slice, "value", None), int)
            for node in self._nodes
        )

    @property
    def _nodes(self) -> Iterator[ast.AST]:
        """Its nodes, those of functions within left out."""
        body = self.node.body
        waiting: list[ast.AST] = [body] if isinstance(body, ast.expr) else list(body)
        while waiting:
            node = waiting.pop()
            yield node
            waiting += [one for one in ast.iter_child_nodes(node) if not isinstance(one, _Scope)]

    @property
    def _assignments(self) -> list[tuple[str, ast.expr]]:
        """The names that it assigns to, with what they get."""
        return [
            (target.id, node.value)
            for node in self._nodes
            if isinstance(node, ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Name)
        ]


def row_functions(script: Host, value: ast.expr) -> list[RowFunction]:
    """Return the functions of the script that ``value`` may be; none where it may be more."""
    thing = script.value(value)
    options = (thing,) if isinstance(thing, Function) else getattr(thing, "options", ())
    nodes = [getattr(option, "node", None) for option in options]
    functions = [
        RowFunction(node) for node in nodes if isinstance(node, ast.FunctionDef | ast.Lambda)
    ]
    return functions if len(functions) == len(nodes) else []


def _is_list(value: ast.expr | None) -> bool:
    return isinstance(value, ast.List | ast.ListComp)


def _mentions(node: ast.AST, names: set[str]) -> bool:
    return any(isinstance(inner, ast.Name) and inner.id in names for inner in ast.walk(node))
