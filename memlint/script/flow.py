"""Where names are bound and read: what reaches a use, and what is still wanted after a loop.

Answers are about one scope (a function or the module) and follow statements, branches and loops as
they are written. Where a closure or another function may read a name, it counts as read.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from memlint.script.tree import Tree, walk

Loop = ast.For | ast.AsyncFor | ast.While
Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_SCOPES = (*_FUNCTIONS, ast.ClassDef)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_BRANCHES = (ast.If, ast.IfExp, ast.BoolOp, ast.ExceptHandler, ast.match_case)
_BLOCKS = ("body", "orelse", "finalbody")


class _Effect(NamedTuple):
    """What statements do to a name. reads: some path reads the value that it has before them.
    kills: after them that value is gone on every path."""

    reads: bool
    kills: bool


class Flow:
    """Definitions and uses of a script's names."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree

    # -- scopes ----------------------------------------------------------------------------------

    def scope(self, node: ast.AST) -> ast.AST:
        """The function, or the module, whose names a node uses."""
        around = self._tree.enclosing(node, *_FUNCTIONS)
        return around if around is not None else self._tree.tree

    def loops_around(self, node: ast.AST) -> tuple[Loop, ...]:
        """The loops around a node within its function, innermost first."""
        found: list[Loop] = []
        for around in self._tree.ancestors(node):
            if isinstance(around, _SCOPES):
                break
            if isinstance(around, ast.For | ast.AsyncFor | ast.While):
                found.append(around)
        return tuple(found)

    def block(self, statement: ast.stmt) -> list[ast.stmt]:
        """The statements beside a statement, itself included."""
        parent = self._tree.parent(statement)
        for name in _BLOCKS:
            block = getattr(parent, name, None)
            if isinstance(block, list) and statement in block:
                return block
        return [statement]

    # -- definitions and uses --------------------------------------------------------------------

    def uses(self, name: str, scope: ast.AST) -> tuple[ast.Name, ...]:
        """Where a name is read in a scope, closures within it included."""
        return tuple(
            node
            for node in self._tree.nodes(ast.Name)
            if node.id == name
            and isinstance(node.ctx, ast.Load)
            and (self.scope(node) is scope or self._is_free(node, scope))
        )

    def definitions(self, use: ast.Name) -> tuple[ast.AST, ...]:
        """The statements (or the parameter) that may have bound what a use reads.

        Empty where the name is bound nowhere in its scope, as a global read in a function.
        """
        found: list[ast.AST] = []
        statement = self._tree.statement(use)
        comprehension = self._tree.enclosing(use, *_COMPREHENSIONS)
        if comprehension is not None and _binds_in_comprehension(comprehension, use.id):
            return (comprehension,)
        self._reaching(statement, use.id, found)
        return tuple(dict.fromkeys(found))

    def _reaching(self, statement: ast.stmt, name: str, found: list[ast.AST]) -> None:
        """Add the definitions of ``name`` that reach the start of ``statement``."""
        current: ast.stmt = statement
        while True:
            block = self.block(current)
            for before in reversed(block[: block.index(current)]):
                found += [one for one in _bindings(before, name) if one not in found]
                if _assigns_in(before, name):
                    return
            parent = self._tree.parent(current)
            if isinstance(parent, _LOOPS) and current in parent.body:
                found += [
                    one
                    for inner in parent.body
                    for one in _bindings(inner, name)
                    if one not in found
                ]
                if not isinstance(parent, ast.While) and _stores(parent.target, name):
                    found.append(parent)
                    return
            if isinstance(parent, ast.With | ast.AsyncWith) and _with_target(parent, name):
                found.append(parent)
                return
            if isinstance(parent, ast.FunctionDef | ast.AsyncFunctionDef):
                found += [one for one in _parameters(parent) if one.arg == name]
                return
            if isinstance(parent, ast.ExceptHandler | ast.match_case):
                parent = self._tree.parent(parent)
            if not isinstance(parent, ast.stmt):
                return
            current = parent

    # -- loops -----------------------------------------------------------------------------------

    def is_run_each_turn(self, loop: ast.AST, node: ast.AST) -> bool:
        """Whether a turn of a loop runs a node of its own function whatever it meets: no branch, no
        handler and no inner loop is around it. An early ``continue`` is not looked at."""
        for around in self._tree.ancestors(node):
            if around is loop:
                return True
            if isinstance(around, (*_SCOPES, *_LOOPS, *_BRANCHES)):
                return False
        return False

    def last_use(self, loop: ast.AST, names: Iterable[str]) -> ast.stmt | None:
        """The last statement of a loop's body that mentions one of the names.

        None where nothing can follow it: a closure may read them later, or it leaves the step.
        """
        wanted = set(names)
        last: ast.stmt | None = None
        assert isinstance(loop, ast.For | ast.AsyncFor | ast.While)
        for statement in loop.body:
            nodes = walk([statement])
            if any(isinstance(node, _SCOPES) and _mentions(node, wanted) for node in nodes):
                return None
            if _mentions(statement, wanted):
                last = statement
        leaves = isinstance(last, ast.Return | ast.Continue | ast.Break | ast.Raise)
        return None if leaves else last

    def is_carried(self, loop: ast.AST, name: str) -> bool:
        """Whether a turn of a loop may read what the turn before it left under a name."""
        assert isinstance(loop, ast.For | ast.AsyncFor | ast.While)
        return _head(loop, name).reads

    def carried(self, loop: ast.AST) -> frozenset[str]:
        """The names that a loop binds, by more than ``n += 1``, and of which a turn may read what
        the turn before it left."""
        assert isinstance(loop, ast.For | ast.AsyncFor | ast.While)
        bound = {
            node.id
            for node in walk(loop.body)
            if isinstance(node, ast.Name)
            and isinstance(node.ctx, ast.Store)
            and not isinstance(self._tree.parent(node), ast.AugAssign)
        }
        return frozenset(name for name in bound if self.is_carried(loop, name))

    def is_read_after(self, loop: ast.AST, name: str) -> bool:
        """Whether anything outside a loop may read what the loop left under a name."""
        assert isinstance(loop, ast.For | ast.AsyncFor | ast.While)
        scope = self.scope(loop)
        if self._is_read_elsewhere(scope, name):
            return True
        effect = _block_effect(loop.orelse, name)
        if effect.reads:
            return True
        return not effect.kills and self._is_read_from(loop, name)

    def is_live_after(self, statement: ast.stmt, name: str) -> bool:
        """Whether what a name holds after a statement may be read: later, or in a next turn."""
        return self._is_read_elsewhere(self.scope(statement), name) or self._is_read_from(
            statement, name
        )

    def is_bound_each_turn(self, loop: ast.AST, name: str, until: ast.stmt | None = None) -> bool:
        """Whether every turn of a loop binds a name, before ``until`` has been left."""
        assert isinstance(loop, ast.For | ast.AsyncFor | ast.While)
        if not isinstance(loop, ast.While) and _stores(loop.target, name):
            return True
        body = loop.body
        if until is not None and until in body:
            body = body[: body.index(until) + 1]
        return _assigns(body, name)

    def _is_read_from(self, statement: ast.stmt, name: str) -> bool:
        """Whether a path from the end of a statement reads a name before it is bound again."""
        current: ast.stmt = statement
        while True:
            block = self.block(current)
            effect = _block_effect(block[block.index(current) + 1 :], name)
            if effect.reads:
                return True
            if effect.kills:
                return False
            parent = self._tree.parent(current)
            if isinstance(parent, _LOOPS):
                if current in parent.body:
                    head = _head(parent, name)
                    if head.reads:
                        return True
                effect = _block_effect(parent.orelse, name)
                if effect.reads:
                    return True
            if isinstance(parent, ast.ExceptHandler | ast.match_case):
                parent = self._tree.parent(parent)
            if isinstance(parent, ast.Try):
                effect = _block_effect(parent.finalbody, name)
                if effect.reads:
                    return True
            if not isinstance(parent, ast.stmt) or isinstance(parent, _SCOPES):
                return False
            current = parent

    def _is_read_elsewhere(self, scope: ast.AST, name: str) -> bool:
        """Whether a function other than ``scope`` may read its name."""
        if isinstance(scope, ast.FunctionDef | ast.AsyncFunctionDef) and any(
            isinstance(node, ast.Global | ast.Nonlocal) and name in node.names
            for node in walk(scope.body)
        ):
            return True
        return any(self.scope(use) is not scope for use in self.uses(name, scope))

    def _is_free(self, use: ast.Name, scope: ast.AST) -> bool:
        """Whether a name that a function within ``scope`` reads is that of ``scope``."""
        current = self.scope(use)
        while current is not scope:
            if isinstance(current, ast.Module) or _is_local(current, use.id):
                return False
            current = self.scope(current)
        return True


# -- what statements do to a name ------------------------------------------------------------------


def _block_effect(body: Sequence[ast.stmt], name: str) -> _Effect:
    for statement in body:
        effect = _effect(statement, name)
        if effect.reads:
            return _Effect(True, False)
        if effect.kills:
            return _Effect(False, True)
    return _Effect(False, False)


def _head(loop: Loop, name: str) -> _Effect:
    """One turn of a loop, from its head."""
    if isinstance(loop, ast.While):
        if _reads(loop.test, name):
            return _Effect(True, False)
    elif _stores(loop.target, name):
        return _Effect(False, True)
    return _block_effect(loop.body, name)


def _then(first: _Effect, second: _Effect) -> _Effect:
    """One after the other."""
    if first.reads or first.kills:
        return first
    return second


def _either(*arms: _Effect) -> _Effect:
    return _Effect(any(arm.reads for arm in arms), all(arm.kills for arm in arms))


_NOTHING = _Effect(False, False)


def _read(*expressions: ast.AST | None, name: str) -> _Effect:
    return _Effect(any(one is not None and _reads(one, name) for one in expressions), False)


def _effect(statement: ast.stmt, name: str) -> _Effect:
    match statement:
        case ast.Assign(targets=targets, value=value):
            read = _read(value, *(one for one in targets if not _stores(one, name)), name=name)
            return _then(read, _Effect(False, any(_stores(one, name) for one in targets)))
        case ast.AnnAssign(target=target, value=value):
            if value is None:
                return _NOTHING
            return _then(_read(value, name=name), _Effect(False, _stores(target, name)))
        case ast.AugAssign(target=target, value=value):
            named = isinstance(target, ast.Name) and target.id == name
            return _Effect(named or _reads(value, name) or _reads(target, name), False)
        case ast.Delete(targets=targets):
            return _then(
                _read(*targets, name=name),
                _Effect(False, any(_deletes(one, name) for one in targets)),
            )
        case ast.If(test=test, body=body, orelse=orelse):
            arms = _either(_block_effect(body, name), _block_effect(orelse, name))
            return _then(_read(test, name=name), arms)
        case ast.While():
            turn = _head(statement, name)
            return _then(
                _Effect(turn.reads, False),
                _Effect(_block_effect(statement.orelse, name).reads, False),
            )
        case ast.For(iter=iterated) | ast.AsyncFor(iter=iterated):
            first = _read(iterated, name=name)
            turn = _head(statement, name)
            after = _block_effect(statement.orelse, name)
            return _then(first, _Effect(turn.reads or after.reads, False))
        case ast.With(items=items, body=body) | ast.AsyncWith(items=items, body=body):
            read = _read(*(item.context_expr for item in items), name=name)
            bound = _Effect(False, _with_target(statement, name))
            return _then(read, _then(bound, _block_effect(body, name)))
        case ast.Try() | ast.TryStar():
            return _try_effect(statement, name)
        case ast.Match(subject=subject, cases=cases):
            arms = _either(_NOTHING, *(_block_effect(case.body, name) for case in cases))
            return _then(_read(subject, name=name), arms)
        case ast.FunctionDef(name=bound) | ast.AsyncFunctionDef(name=bound):
            return _then(_read(statement, name=name), _Effect(False, bound == name))
        case ast.ClassDef(name=bound):
            return _then(_read(statement, name=name), _Effect(False, bound == name))
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            bound_names = [alias.asname or alias.name.split(".")[0] for alias in names]
            return _Effect(False, name in bound_names)
        case ast.Return() | ast.Raise():
            return _Effect(_reads(statement, name), not _reads(statement, name))
    return _read(statement, name=name)


def _try_effect(statement: ast.Try | ast.TryStar, name: str) -> _Effect:
    body = _block_effect([*statement.body, *statement.orelse], name)
    handlers = [_block_effect(handler.body, name) for handler in statement.handlers]
    last = _block_effect(statement.finalbody, name)
    reads = body.reads or last.reads or any(one.reads for one in handlers)
    return _Effect(reads, last.kills or (body.kills and all(one.kills for one in handlers)))


def _assigns(body: Sequence[ast.stmt], name: str) -> bool:
    """Whether statements bind a name on every path that goes on."""
    return any(_assigns_in(statement, name) for statement in body)


def _assigns_in(statement: ast.stmt, name: str) -> bool:
    match statement:
        case ast.If(body=body, orelse=orelse):
            return (_assigns(body, name) or _leaves(body)) and (
                _assigns(orelse, name) or _leaves(orelse)
            )
        case ast.With(body=body) | ast.AsyncWith(body=body):
            return _with_target(statement, name) or _assigns(body, name)
        case (
            ast.Try(body=body, handlers=handlers, finalbody=last)
            | ast.TryStar(body=body, handlers=handlers, finalbody=last)
        ):
            arms = all(_assigns(one.body, name) or _leaves(one.body) for one in handlers)
            return _assigns(last, name) or (_assigns(body, name) and arms)
        case ast.For() | ast.AsyncFor() | ast.While() | ast.Match() | ast.Delete():
            return False
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return statement.name == name
    return _binds_itself(statement, name)


def _leaves(body: Sequence[ast.stmt]) -> bool:
    return bool(body) and isinstance(body[-1], ast.Return | ast.Raise | ast.Continue | ast.Break)


def _bindings(statement: ast.stmt, name: str) -> list[ast.AST]:
    """The statements within a statement that bind a name."""
    found: list[ast.AST] = []
    pending: list[ast.AST] = [statement]
    for node in pending:  # grows meanwhile
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            if node.name == name:
                found.append(node)
            continue
        if isinstance(node, ast.stmt) and _binds_itself(node, name):
            found.append(node)
        pending += [
            child
            for child in ast.iter_child_nodes(node)
            if isinstance(child, ast.stmt | ast.ExceptHandler | ast.match_case)
        ]
    return found


def _binds_itself(statement: ast.stmt, name: str) -> bool:
    match statement:
        case ast.Assign(targets=targets):
            return any(_stores(one, name) for one in targets)
        case ast.AnnAssign(target=target, value=value):
            return value is not None and _stores(target, name)
        case ast.AugAssign(target=target):
            return _stores(target, name)
        case ast.For(target=target) | ast.AsyncFor(target=target):
            return _stores(target, name)
        case ast.With() | ast.AsyncWith():
            return _with_target(statement, name)
        case ast.Import() | ast.ImportFrom():
            return _effect(statement, name).kills
    return False


def _stores(target: ast.AST, name: str) -> bool:
    match target:
        case ast.Name(id=bound):
            return bound == name
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            return any(_stores(part, name) for part in parts)
        case ast.Starred(value=inner):
            return _stores(inner, name)
    return False


def _deletes(target: ast.AST, name: str) -> bool:
    return _stores(target, name)


def _with_target(statement: ast.AST, name: str) -> bool:
    items = statement.items if isinstance(statement, ast.With | ast.AsyncWith) else []
    return any(
        item.optional_vars is not None and _stores(item.optional_vars, name) for item in items
    )


def _reads(tree: ast.AST, name: str) -> bool:
    """Whether an expression or a definition reads a name of the scope that it is written in."""
    pending: list[ast.AST] = [tree]
    for node in pending:  # grows meanwhile
        if isinstance(node, ast.Name):
            if node.id == name and isinstance(node.ctx, ast.Load):
                return True
            continue
        if isinstance(node, _FUNCTIONS) and _is_local(node, name):
            arguments = node.args
            pending += [*arguments.defaults, *(one for one in arguments.kw_defaults if one)]
            continue
        if isinstance(node, _COMPREHENSIONS) and _binds_in_comprehension(node, name):
            pending.append(node.generators[0].iter)
            continue
        pending += ast.iter_child_nodes(node)
    return False


def _binds_in_comprehension(node: ast.AST, name: str) -> bool:
    return any(_stores(one.target, name) for one in getattr(node, "generators", ()))


def _is_local(function: ast.AST, name: str) -> bool:
    """Whether a function binds a name itself."""
    if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        if any(one.arg == name for one in _parameters(function)):
            return True
        body = list(walk(function.body if isinstance(function.body, list) else [function.body]))
        if any(isinstance(one, ast.Global | ast.Nonlocal) and name in one.names for one in body):
            return False
        return any(
            isinstance(one, ast.Name) and one.id == name and not isinstance(one.ctx, ast.Load)
            for one in body
        )
    return False


def _parameters(function: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> list[ast.arg]:
    arguments = function.args
    return [
        *arguments.posonlyargs,
        *arguments.args,
        *arguments.kwonlyargs,
        *(one for one in (arguments.vararg, arguments.kwarg) if one is not None),
    ]


def _mentions(tree: ast.AST, names: set[str]) -> bool:
    return any(isinstance(node, ast.Name) and node.id in names for node in walk([tree]))
