"""Scripts that look for versions themselves: they catch the error, or ask a signature first.

What counts is what a handler does: where it does the same thing another way (another import,
another call, a name that says that the thing is missing) the script runs with both versions. Where
it logs, prints, raises again or ends the program, the error is only reported.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING

from memlint.engine.nodes import walk
from memlint.script.guesses import may_ask_for_a_version

if TYPE_CHECKING:
    from memlint.script.calls import Call
    from memlint.script.model import Script


def is_guarded(script: Script, node: ast.AST) -> bool:
    """True if the script itself minds versions here: it catches the error, or asks first."""
    for around in script.ancestors(node):
        if isinstance(around, ast.Try) and _within(node, around.body, script):
            if any(_makes_up(handler, around, node) for handler in around.handlers):
                return True
        elif isinstance(around, ast.ExceptHandler):
            # What is done where the new name fails.
            if _catches(around, anything=False):
                return True
        elif isinstance(around, ast.If | ast.IfExp) and may_ask_for_a_version(script, around.test):
            return True
    return False


def retries_of(script: Script, call: Call) -> tuple[Call, ...]:
    """The calls of the same thing where a handler has caught what ``call`` raises."""
    handlers = [
        handler
        for around in script.ancestors(call.node)
        if isinstance(around, ast.Try) and _within(call.node, around.body, script)
        for handler in around.handlers
    ]
    nodes = {node for handler in handlers for one in handler.body for node in ast.walk(one)}
    return tuple(
        found
        for node in nodes
        if isinstance(node, ast.Call)
        and (found := script.call_at(node)) is not None
        and found.name == call.name
    )


def _within(node: ast.AST, body: list[ast.stmt], script: Script) -> bool:
    span = script.span(node)
    return any(script.span(statement).contains(span) for statement in body)


_OF_VERSIONS = frozenset({"ImportError", "ModuleNotFoundError", "TypeError", "AttributeError"})
# Handlers of anything at all mean versions where their ``try`` holds little else.
_FEW = 3


def _makes_up(handler: ast.ExceptHandler, around: ast.Try, node: ast.AST) -> bool:
    """True if a handler catches what another version raises, and does without it."""
    if not _catches(handler, anything=len(around.body) <= _FEW):
        return False
    if isinstance(node, ast.Import | ast.ImportFrom):
        # ``except ImportError: HAS_TRL = False``: what needs the name asks first.
        return not all(_only_reports(one) for one in handler.body) and not any(
            _leaves(one) for one in handler.body
        )
    return not _names(around.body).isdisjoint(_names(handler.body))


def _only_reports(statement: ast.stmt) -> bool:
    """A call, whatever it says: what was to be imported stays unknown."""
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call)


def _leaves(statement: ast.stmt) -> bool:
    """True if a handler's statement raises, or ends the whole program."""
    match statement:
        case ast.Raise():
            return True
        case ast.Expr(value=ast.Call(func=ast.Name(id="exit" | "quit"))):
            return True
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr="exit" | "_exit"))):
            return True
        case _:
            return False


def _names(body: Iterable[ast.stmt]) -> frozenset[str]:
    """What statements import, bind or call, by the last part of the name."""
    return frozenset(_named(body))


def _named(body: Iterable[ast.stmt]) -> Iterator[str]:
    for node in (one for statement in body for one in ast.walk(statement)):
        match node:
            case ast.Import() | ast.ImportFrom():
                yield from (alias.asname or alias.name for alias in node.names)
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) if (
                name not in _REPORTERS
            ):
                yield name
            case ast.Assign(targets=targets):
                yield from (one.id for one in targets if isinstance(one, ast.Name))


# Calls that say what happened, on both sides.
_REPORTERS = frozenset(
    {"print", "info", "warning", "warn", "error", "exception", "debug", "log", "str", "format"}
)


def _catches(handler: ast.ExceptHandler, *, anything: bool) -> bool:
    if handler.type is None:
        return anything
    names = {node.id for node in ast.walk(handler.type) if isinstance(node, ast.Name)}
    return not names.isdisjoint(_OF_VERSIONS) or (anything and "Exception" in names)


def names_looked_up(script: Script) -> frozenset[str]:
    """Options that the script looks for in a signature before it passes them: those that it names,
    or all words of the script where it goes through names."""
    asked = {call.node for call in script.calls_to(*_SIGNATURES)}
    if not asked:
        return frozenset()
    names = _names_of(script, asked)
    tests = [
        node
        for node in script.nodes(ast.Compare)
        if isinstance(node.ops[0], ast.In | ast.NotIn)
        and _is_of_signature(node.comparators[0], asked, names)
    ]
    named = [node.left.value for node in tests if isinstance(node.left, ast.Constant)]
    if named and len(named) == len(tests):
        return frozenset(one for one in named if isinstance(one, str))
    return frozenset(
        node.value for node in script.nodes(ast.Constant) if isinstance(node.value, str)
    )


_SIGNATURES = ("inspect.signature", "inspect.getfullargspec", "dataclasses.fields")


def _names_of(script: Script, asked: AbstractSet[ast.AST]) -> frozenset[str]:
    """What the values with these calls in them are assigned to."""
    return frozenset(
        target.id
        for call in asked
        for around in script.ancestors(call)
        if isinstance(around, ast.Assign)
        for target in around.targets
        if isinstance(target, ast.Name)
    )


def _is_of_signature(node: ast.expr, asked: AbstractSet[ast.AST], names: AbstractSet[str]) -> bool:
    """True if an expression is made of the parameters of something, by a name of them too."""
    return any(
        inner in asked
        or (isinstance(inner, ast.Name) and inner.id in names)
        or (isinstance(inner, ast.Attribute) and inner.attr == "parameters")
        for inner in walk([node])
    )
