"""What the code around an expression does with its value: one step, as it is written.

The one place that reads this off the syntax tree. Whoever follows a value asks `usage_of` for each
place where it stands, and goes on from there.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import Any

from memlint.engine.nodes import CallNode, Expression, Node, called_name, walk
from memlint.engine.tree import Tree
from memlint.engine.values import Function
from memlint.source.record import NamedTuple


class Way(StrEnum):
    """What is done with a value.

    READ: an attribute of it. METHOD: it is called. CALLED: it is a function that is called itself.
    GIVEN: it is an argument. HELD: a list, tuple, set or dict is made of it. ITEM: one of its items
    is taken. KEY: an item of something else is taken by it. COMPUTED: arithmetic. COMPARED.
    TESTED: a condition. PASSED_ON: the expression around it has its value on some path.
    LOOPED: its items are gone through. STORED: it gets a name, or becomes an attribute or an item.
    RETURNED: the function around returns or yields it. GIVEN_BACK: a lambda does. PRINTED: text is
    made of it. DROPPED: nothing reads it. OTHER: whatever else a statement does.
    """

    READ = "read"
    METHOD = "method"
    CALLED = "called"
    GIVEN = "given"
    HELD = "held"
    ITEM = "item"
    KEY = "key"
    COMPUTED = "computed"
    COMPARED = "compared"
    TESTED = "tested"
    PASSED_ON = "passed on"
    LOOPED = "looped"
    STORED = "stored"
    RETURNED = "returned"
    GIVEN_BACK = "given back"
    PRINTED = "printed"
    DROPPED = "dropped"
    OTHER = "other"


class Place(NamedTuple):
    """Where a value is stored. name: a variable's, or an attribute's, of ``holder``. unpacked: one
    of its items is stored there. item: it becomes an item of what is there."""

    node: Expression
    name: str
    holder: Expression | None = None
    unpacked: bool = False
    item: bool = False

    @property
    def is_whole(self) -> bool:
        """True if the value itself is what is stored under the name."""
        return not self.unpacked and not self.item


class Usage(NamedTuple):
    """What is done with a value where it stands.

    around: the expression or the statement that does it: the call for a method or an argument.
    name: of the attribute, of the method, or of what is called, without what is before its dot; of
    a statement, of arithmetic or of an item's key what it is (``Return``, ``Add``, ``Slice``).
    position: that of an argument; None where it is given by keyword, or after a ``*``.
    keyword: of an argument. by: the key of an item, or of the entry in a dict. places: where it is
    stored, or where its items are.
    """

    way: Way
    around: Node
    name: str = ""
    position: int | None = None
    keyword: str | None = None
    by: Expression | None = None
    places: tuple[Place, ...] = ()

    @property
    def is_written(self) -> bool:
        """True if it is an item that is set or deleted."""
        return isinstance(getattr(self.around, "ctx", None), ast.Store | ast.Del)

    @property
    def expression(self) -> Expression:
        """The expression that does it."""
        assert isinstance(self.around, ast.expr)
        return self.around

    @property
    def call(self) -> CallNode:
        """The call of a method, or of what gets it as an argument."""
        assert isinstance(self.around, ast.Call)
        return self.around


def usage_of(tree: Tree, node: Node) -> Usage:
    """Return what is done with the value of an expression of this file, or of the others."""
    parent = tree.parent(node)
    if parent is None:
        return Usage(Way.OTHER, node)
    read = _USES.get(type(parent))
    return read(tree, parent, node) if read is not None else Usage(Way.OTHER, parent)


def _attribute(tree: Tree, parent: ast.Attribute, _: Node) -> Usage:
    call = tree.parent(parent)
    if isinstance(call, ast.Call) and call.func is parent:
        return Usage(Way.METHOD, call, parent.attr)
    return Usage(Way.READ, parent, parent.attr)


def _call(_: Tree, parent: ast.Call, node: Node) -> Usage:
    if parent.func is node:
        return Usage(Way.CALLED, parent, called_name(parent))
    position = next(i for i, one in enumerate(parent.args) if one is node)
    return Usage(Way.GIVEN, parent, called_name(parent), position)


def _keyword(tree: Tree, parent: ast.keyword, _: Node) -> Usage:
    call = tree.parent(parent)
    if not isinstance(call, ast.Call):
        return Usage(Way.OTHER, parent)
    return Usage(Way.GIVEN, call, called_name(call), keyword=parent.arg)


def _dict(_: Tree, parent: ast.Dict, node: Node) -> Usage:
    key = next((k for k, v in zip(parent.keys, parent.values, strict=True) if v is node), None)
    return Usage(Way.HELD, parent, "Dict", by=key)


def _subscript(_: Tree, parent: ast.Subscript, node: Node) -> Usage:
    way = Way.ITEM if parent.value is node else Way.KEY
    return Usage(way, parent, type(parent.slice).__name__, by=parent.slice)


def _arithmetic(_: Tree, parent: ast.BinOp, _node: Node) -> Usage:
    match parent:
        case ast.BinOp(op=ast.Mod(), left=ast.Constant(value=str())):
            return Usage(Way.PRINTED, parent)
    return Usage(Way.COMPUTED, parent, type(parent.op).__name__)


def _unary(_: Tree, parent: ast.UnaryOp, _node: Node) -> Usage:
    tested = isinstance(parent.op, ast.Not)
    return Usage(Way.TESTED if tested else Way.COMPUTED, parent, type(parent.op).__name__)


def _compare(_: Tree, parent: ast.Compare, _node: Node) -> Usage:
    identity = all(isinstance(one, ast.Is | ast.IsNot) for one in parent.ops)
    return Usage(Way.COMPARED, parent, "is" if identity else "")


def _choice(_: Tree, parent: ast.IfExp, node: Node) -> Usage:
    return Usage(Way.TESTED if parent.test is node else Way.PASSED_ON, parent)


def _comprehension(tree: Tree, parent: ast.comprehension, node: Node) -> Usage:
    around = tree.parent(parent)
    assert around is not None
    if parent.iter is not node:
        return Usage(Way.TESTED, around)
    name = type(around).__name__
    return Usage(Way.LOOPED, around, name, places=tuple(places_of(parent.target)))


def _assignment(_: Tree, parent: ast.Assign, _node: Node) -> Usage:
    places = tuple(place for target in parent.targets for place in places_of(target))
    return Usage(Way.STORED, parent, places=places)


def _single(_: Tree, parent: ast.AugAssign | ast.AnnAssign, _node: Node) -> Usage:
    grown = type(parent.op).__name__ if isinstance(parent, ast.AugAssign) else ""
    return Usage(Way.STORED, parent, grown, places=tuple(places_of(parent.target)))


def _binding(way: Way, name: str = "") -> _Reader:
    return lambda _tree, parent, _node: Usage(
        way, parent, name, places=tuple(places_of(parent.target))
    )


def _as(way: Way) -> _Reader:
    return lambda _tree, parent, _node: Usage(way, parent, type(parent).__name__)


_Reader = Callable[["Tree", Any, ast.AST], Usage]
_USES: dict[type[ast.AST], _Reader] = {
    ast.Attribute: _attribute,
    ast.Call: _call,
    ast.keyword: _keyword,
    ast.Starred: lambda tree, parent, _node: usage_of(tree, parent)._replace(position=None),
    ast.Dict: _dict,
    ast.Subscript: _subscript,
    ast.BinOp: _arithmetic,
    ast.UnaryOp: _unary,
    ast.Compare: _compare,
    ast.IfExp: _choice,
    ast.NamedExpr: _binding(Way.PASSED_ON),
    ast.comprehension: _comprehension,
    ast.Assign: _assignment,
    **dict.fromkeys((ast.For, ast.AsyncFor), _binding(Way.LOOPED, "For")),
    **dict.fromkeys((ast.AugAssign, ast.AnnAssign), _single),
    **dict.fromkeys((ast.Tuple, ast.List, ast.Set), _as(Way.HELD)),
    **dict.fromkeys((ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp), _as(Way.HELD)),
    **dict.fromkeys((ast.BoolOp, ast.Await), _as(Way.PASSED_ON)),
    **dict.fromkeys((ast.Return, ast.Yield, ast.YieldFrom), _as(Way.RETURNED)),
    **dict.fromkeys((ast.If, ast.While, ast.Assert), _as(Way.TESTED)),
    **dict.fromkeys((ast.Expr, ast.Delete), _as(Way.DROPPED)),
    ast.Lambda: _as(Way.GIVEN_BACK),
    ast.FormattedValue: _as(Way.PRINTED),
}


def places_of(target: ast.expr) -> Iterator[Place]:
    """Yield the names and attributes that a target binds, or an item of which it sets."""
    match target:
        case ast.Name(id=name):
            yield Place(target, name)
        case ast.Attribute(value=holder, attr=name):
            yield Place(target, name, holder)
        case ast.Subscript(value=inner) | ast.Starred(value=inner):
            yield from (place._replace(item=True) for place in places_of(inner))
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            for part in parts:
                yield from (place._replace(unpacked=True) for place in places_of(part))


def places_in(node: ast.expr) -> Iterator[Place]:
    """Yield the names that an expression reads, and the attributes of its function's object."""
    for one in walk([node]):
        match one:
            case ast.Name(id=name) if name not in _SELF:
                yield Place(one, name)
            case ast.Attribute(value=ast.Name(id=holder) as own, attr=name) if holder in _SELF:
                yield Place(one, name, own)


_SELF = ("self", "cls")


def parameter_of(function: Function, use: Usage) -> ast.arg | None:
    """The parameter of the script's function that an argument becomes, if that is certain."""
    arguments = function.node.args
    plain = [*arguments.posonlyargs, *arguments.args]
    if use.keyword is not None:
        every = [*plain, *arguments.kwonlyargs]
        return next((one for one in every if one.arg == use.keyword), None)
    if use.position is None or any(isinstance(one, ast.Starred) for one in use.call.args):
        return None
    place = use.position + (function.bound is not None)
    return plain[place] if place < len(plain) else None
