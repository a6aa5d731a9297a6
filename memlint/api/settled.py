"""What a configuration makes of its options once it has them all: ``__post_init__``, evaluated.

The code is that of the tables (``memlint.api.extract.settling``), and nothing of it is run: it is a
tree of a few forms. A test that cannot be told takes both ways; where they differ, all is open.
"""

import ast
from collections.abc import Callable, Sequence
from enum import Enum
from functools import lru_cache
from typing import Any


class OpenType(Enum):
    """The value of an option that cannot be told."""

    OPEN = "open"


OPEN = OpenType.OPEN
_SIZED = (str, list, tuple, dict)
_PLAIN = (bool, int, float, str, list, tuple, dict, type(None))


def settle(codes: Sequence[str], read: Callable[[str], object]) -> dict[str, object]:
    """Return the options that are assigned, and what they are then.

    codes: of the class and its bases, nearest first. read: an option as it was given, or ``OPEN``.
    """
    run = _Run([_statements(code) for code in codes], read)
    run.turn(0)
    return run.values


@lru_cache(maxsize=64)
def _statements(code: str) -> list[ast.stmt]:
    return ast.parse(code).body


class _Run:
    def __init__(self, bodies: Sequence[list[ast.stmt]], read: Callable[[str], object]) -> None:
        self._bodies = bodies
        self._read = read
        self.values: dict[str, object] = {}

    def turn(self, position: int) -> None:
        """The turn of one class."""
        if position < len(self._bodies):
            self._body(self._bodies[position], position)

    def _body(self, body: list[ast.stmt], position: int) -> None:
        for statement in body:
            match statement:
                case ast.Assign(targets=[ast.Attribute(attr=name)], value=value):
                    self.values[name] = self._value(value)
                case ast.If():
                    self._branch(statement, position)
                case ast.Expr():
                    self.turn(position + 1)

    def _branch(self, node: ast.If, position: int) -> None:
        test = _truth(self._value(node.test))
        if test is not OPEN:
            self._body(node.body if test else node.orelse, position)
            return
        before = dict(self.values)
        self._body(node.body, position)
        taken, self.values = self.values, before
        self._body(node.orelse, position)
        for name in {*taken, *self.values}:
            one, other = (
                values[name] if name in values else self._read(name)
                for values in (taken, self.values)
            )
            self.values[name] = one if _same(one, other) is True else OPEN

    def _value(self, node: ast.expr) -> object:
        match node:
            case ast.Constant(value=value):
                return OPEN if value is ... else value
            case ast.Attribute(attr=name):
                return self.values[name] if name in self.values else self._read(name)
            case ast.List(elts=items) | ast.Tuple(elts=items) | ast.Set(elts=items):
                found = [self._value(item) for item in items]
                return OPEN if any(item is OPEN for item in found) else found
            case ast.Call(func=ast.Name(id=name), args=[of, *_]):
                return _measured(name, self._value(of))
            case ast.Subscript(value=of, slice=ast.Constant(value=int(index))):
                return _item(self._value(of), index)
        return self._decided(node)

    def _decided(self, node: ast.expr) -> object:
        """Return the value of a test, or of what a test decides."""
        match node:
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                truth = _truth(self._value(operand))
                return OPEN if truth is OPEN else not truth
            case ast.BoolOp():
                return self._junction(node)
            case ast.IfExp(test=test, body=body, orelse=otherwise):
                truth = _truth(self._value(test))
                one, other = self._value(body), self._value(otherwise)
                if truth is OPEN:
                    return one if _same(one, other) is True else OPEN
                return one if truth else other
            case ast.Compare(left=left, ops=[operator], comparators=[right]):
                return _compared(operator, self._value(left), self._value(right))
        return OPEN

    def _junction(self, node: ast.BoolOp) -> object:
        """``a and b``: the first that decides. One that is open leaves it to the others to."""
        decides = isinstance(node.op, ast.Or)
        is_open = False
        value: object = OPEN
        for part in node.values:
            value = self._value(part)
            truth = _truth(value)
            is_open |= truth is OPEN
            if truth is decides:
                return decides if is_open else value
        return OPEN if is_open else value


def _measured(function: str, value: object) -> object:
    """Evaluate ``len(value)`` or ``hasattr(value, "__len__")``."""
    if isinstance(value, _SIZED):
        return True if function == "hasattr" else len(value)
    return False if function == "hasattr" and isinstance(value, _PLAIN) else OPEN


def _item(value: object, index: int) -> object:
    if isinstance(value, str | list | tuple) and 0 <= index < len(value):
        return value[index]
    return OPEN


def _truth(value: object) -> Any:
    return bool(value) if isinstance(value, _PLAIN) else OPEN


def _same(left: object, right: object) -> bool | OpenType:
    if left is OPEN or right is OPEN:
        return OPEN
    if not isinstance(left, _PLAIN) or not isinstance(right, _PLAIN):
        # What a call makes is not None; more is not known of it.
        return False if left is None or right is None else left is right or OPEN
    return type(left) is type(right) and left == right


def _compared(operator: ast.cmpop, left: object, right: object) -> object:
    match operator:
        case ast.Is() | ast.Eq():
            return _same(left, right)
        case ast.IsNot() | ast.NotEq():
            same = _same(left, right)
            return OPEN if same is OPEN else not same
        case ast.In() | ast.NotIn() if isinstance(right, list) and isinstance(left, _PLAIN):
            return (left in right) is isinstance(operator, ast.In)
    if isinstance(left, int | float) and isinstance(right, int | float):
        match operator:
            case ast.Lt():
                return left < right
            case ast.LtE():
                return left <= right
            case ast.Gt():
                return left > right
            case ast.GtE():
                return left >= right
    return OPEN
