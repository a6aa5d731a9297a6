"""Where names are bound and read: what reaches a use, and what is still wanted after a loop.

Answers are about one scope (a function or the module) and follow statements, branches and loops as
they are written. Where a closure or another function may read a name, it counts as read.
"""

import ast
from collections.abc import Iterable, Iterator

from memlint.engine import name_uses
from memlint.engine.nodes import walk
from memlint.engine.tree import Tree

_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_SCOPES = (*name_uses.FUNCTIONS, ast.ClassDef)
_BRANCHES = (ast.If, ast.IfExp, ast.BoolOp, ast.ExceptHandler, ast.match_case)
_BLOCKS = ("body", "orelse", "finalbody")


class Flow:
    """Definitions and uses of a script's names."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree

    # -- scopes ----------------------------------------------------------------------------------

    def scope(self, node: ast.AST) -> ast.AST:
        """The function, or the module, whose names a node uses."""
        around = self._tree.enclosing(node, *name_uses.FUNCTIONS)
        return around if around is not None else self._tree.tree

    def loops_around(self, node: ast.AST) -> tuple[name_uses.Loop, ...]:
        """The loops around a node within its function, innermost first."""
        found: list[name_uses.Loop] = []
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

    def definitions(self, use: ast.expr) -> tuple[ast.AST, ...]:
        """The statements (or the parameter) that may have bound what a use reads.

        Empty where the name is bound nowhere in its scope, as a global read in a function, and for
        what is no name.
        """
        if not isinstance(use, ast.Name):
            return ()
        comprehension = self._tree.enclosing(use, *name_uses.COMPREHENSIONS)
        if comprehension is not None and name_uses.binds_in_comprehension(comprehension, use.id):
            return (comprehension,)
        return tuple(dict.fromkeys(self._reaching(self._tree.statement(use), use.id)))

    def _reaching(self, statement: ast.stmt, name: str) -> Iterator[ast.AST]:
        """The definitions of ``name`` that reach the start of ``statement``."""
        current: ast.stmt = statement
        while True:
            block = self.block(current)
            for before in reversed(block[: block.index(current)]):
                yield from name_uses.bindings(before, name)
                if name_uses.assigns(before, name):
                    return
            parent = self._tree.parent(current)
            bound, always = _bound_around(current, parent, name)
            yield from bound
            if isinstance(parent, ast.ExceptHandler | ast.match_case):
                parent = self._tree.parent(parent)
            if always or not isinstance(parent, ast.stmt):
                return
            current = parent

    # -- loops -----------------------------------------------------------------------------------

    def is_run_each_turn(self, loop: ast.AST, node: ast.AST) -> bool:
        """True if a turn of a loop runs a node of its own function whatever it meets: no branch, no
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
        if any(map(self._tree.is_shared, wanted)):
            return None
        assert isinstance(loop, ast.For | ast.AsyncFor | ast.While)
        for statement in loop.body:
            nodes = walk([statement])
            if any(
                isinstance(node, _SCOPES) and name_uses.mentions(node, wanted) for node in nodes
            ):
                return None
            if name_uses.mentions(statement, wanted):
                last = statement
        leaves = isinstance(last, ast.Return | ast.Continue | ast.Break | ast.Raise)
        return None if leaves else last

    def is_carried(self, loop: ast.AST, name: str) -> bool:
        """True if a turn of a loop may read what the turn before it left under a name."""
        assert isinstance(loop, ast.For | ast.AsyncFor | ast.While)
        return name_uses.head_effect(loop, name).reads

    def carried(self, loop: ast.AST) -> frozenset[str]:
        """The names that a loop binds, counters aside, and a turn may read from the turn before."""
        if not name_uses.is_loop(loop):
            return frozenset({"self"})  # a method that runs each turn
        bound = {
            node.id
            for node in walk(loop.body)
            if isinstance(node, ast.Name)
            and isinstance(node.ctx, ast.Store)
            and not isinstance(self._tree.parent(node), ast.AugAssign)
        }
        return frozenset(name for name in bound if self.is_carried(loop, name))

    def is_read_after(self, loop: ast.AST, name: str) -> bool:
        """True if anything outside a loop may read what the loop left under a name."""
        assert isinstance(loop, ast.For | ast.AsyncFor | ast.While)
        scope = self.scope(loop)
        if self._is_read_elsewhere(scope, name):
            return True
        effect = name_uses.block_effect(loop.orelse, name)
        return effect.reads or (not effect.kills and self._is_read_from(loop, name))

    def is_bound_each_turn(self, loop: ast.AST, name: str, until: ast.stmt | None = None) -> bool:
        """True if every turn of a loop binds a name, before ``until`` has been left."""
        assert isinstance(loop, ast.For | ast.AsyncFor | ast.While)
        if not isinstance(loop, ast.While) and name_uses.stores(loop.target, name):
            return True
        body = loop.body
        if until is not None and until in body:
            body = body[: body.index(until) + 1]
        return name_uses.assigns_in_block(body, name)

    def _is_read_from(self, statement: ast.stmt, name: str) -> bool:
        """True if a path from the end of a statement reads a name before it is bound again."""
        current: ast.stmt = statement
        while True:
            block = self.block(current)
            effect = name_uses.block_effect(block[block.index(current) + 1 :], name)
            if effect.reads:
                return True
            if effect.kills:
                return False
            parent = self._tree.parent(current)
            if isinstance(parent, _LOOPS):
                if current in parent.body:
                    head = name_uses.head_effect(parent, name)
                    if head.reads:
                        return True
                effect = name_uses.block_effect(parent.orelse, name)
                if effect.reads:
                    return True
            if isinstance(parent, ast.ExceptHandler | ast.match_case):
                parent = self._tree.parent(parent)
            if isinstance(parent, ast.Try):
                effect = name_uses.block_effect(parent.finalbody, name)
                if effect.reads:
                    return True
            if not isinstance(parent, ast.stmt) or isinstance(parent, _SCOPES):
                return False
            current = parent

    def _is_read_elsewhere(self, scope: ast.AST, name: str) -> bool:
        """True if a function other than ``scope`` may read its name."""
        if isinstance(scope, ast.FunctionDef | ast.AsyncFunctionDef) and any(
            isinstance(node, ast.Global | ast.Nonlocal) and name in node.names
            for node in walk(scope.body)
        ):
            return True
        return any(self.scope(use) is not scope for use in self.uses(name, scope))

    def _is_free(self, use: ast.Name, scope: ast.AST) -> bool:
        """True if a name that a function within ``scope`` reads is that of ``scope``."""
        current = self.scope(use)
        while current is not scope:
            if isinstance(current, ast.Module) or name_uses.is_local(current, use.id):
                return False
            current = self.scope(current)
        return True


def _bound_around(
    statement: ast.stmt, parent: ast.AST | None, name: str
) -> tuple[list[ast.AST], bool]:
    """What binds a name around a statement of a block, before the block runs or in an earlier turn
    of it, and whether that hides what is further out."""
    match parent:
        case ast.For() | ast.AsyncFor() | ast.While() if statement in parent.body:
            found = [one for inner in parent.body for one in name_uses.bindings(inner, name)]
            at_head = not isinstance(parent, ast.While) and name_uses.stores(parent.target, name)
            return ([*found, parent] if at_head else found), at_head
        case ast.With() | ast.AsyncWith() if name_uses.with_target(parent, name):
            return [parent], True
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            return [one for one in name_uses.parameters(parent) if one.arg == name], True
    return [], False
