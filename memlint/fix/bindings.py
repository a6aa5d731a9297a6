"""What the names of a file mean: which imports bind them, where these have run, who shadows them.

A name that an import binds can be used where that import has certainly run, and where nothing else
in sight binds the same name.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from memlint.fix.new_expressions import dotted
from memlint.fix.spans import Tree
from memlint.fix.statement_edits import block_of

Scope = cst.FunctionDef | cst.Lambda | cst.ClassDef
# Blocks that may not run even where nothing is guarded.
_Conditional = (
    cst.ExceptHandler
    | cst.ExceptStarHandler
    | cst.Finally
    | cst.Else
    | cst.For
    | cst.While
    | cst.MatchCase
)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a fix uses a name: ``scopes`` are the functions and classes around, innermost first."""

    node: cst.CSTNode
    offset: int
    scopes: tuple[Scope, ...]


@dataclass(frozen=True, slots=True)
class Binding:
    """What an import statement binds: ``spelled`` in the file is ``full`` in the world.

    kind: ``direct`` runs whenever its scope does; ``guarded`` is in a ``try`` or an ``if``;
    ``typing`` and ``elsewhere`` (fallbacks, loops) cannot be relied on.
    """

    statement: cst.Import | cst.ImportFrom
    full: str
    spelled: str
    kind: str
    scope: Scope | None

    @property
    def root(self) -> str:
        return self.spelled.partition(".")[0]


def module_name(node: cst.ImportFrom) -> str:
    """Return the module of a ``from`` import, leading dots included."""
    return "." * len(node.relative) + (dotted(node.module) or "")


def alias_name(alias: cst.ImportAlias) -> str:
    return dotted(alias.name) or ""


def bound_name(alias: cst.ImportAlias) -> str:
    """Return the name that ``alias`` binds (the first part of a dotted one)."""
    if alias.asname is not None and isinstance(alias.asname.name, cst.Name):
        return alias.asname.name.value
    return alias_name(alias).partition(".")[0]


def _scopes(tree: Tree, node: cst.CSTNode) -> tuple[Scope, ...]:
    """Return the functions and classes in whose bodies ``node`` is, innermost first."""
    result: list[Scope] = []
    child = node
    for above in tree.ancestors(node):
        # Decorators, defaults and bases belong to the scope outside.
        if isinstance(above, Scope) and child is above.body:
            result.append(above)
        child = above
    return tuple(result)


def functions_of(scopes: tuple[Scope, ...]) -> tuple[Scope, ...]:
    return tuple(scope for scope in scopes if not isinstance(scope, cst.ClassDef))


def _kind(tree: Tree, node: cst.CSTNode) -> str:
    kind = "direct"
    child: cst.CSTNode = node
    for above in tree.ancestors(node):
        if isinstance(above, Scope):
            break
        if isinstance(above, cst.If):
            test = tree.slice(tree.span(above.test))
            if child is not above.body:
                return "elsewhere"
            if "TYPE_CHECKING" in test:
                return "typing"
            if "__name__" in test:
                return "elsewhere"
            kind = "guarded"
        elif isinstance(above, cst.Try | cst.TryStar):
            if child is not above.body:
                return "elsewhere"
            kind = "guarded"
        elif isinstance(above, _Conditional):
            return "elsewhere"
        child = above
    return kind


def bindings(tree: Tree) -> Iterator[Binding]:
    """Everything that the import statements of the file bind, in order."""
    statements: list[cst.Import | cst.ImportFrom] = [
        *tree.nodes(cst.Import),
        *tree.nodes(cst.ImportFrom),
    ]
    for node in sorted(statements, key=tree.span):
        if isinstance(node.names, cst.ImportStar):
            continue
        kind = _kind(tree, node)
        scopes = _scopes(tree, node)
        scope = scopes[0] if scopes else None
        for alias in node.names:
            name = alias_name(alias)
            if isinstance(node, cst.ImportFrom):
                full = f"{module_name(node)}.{name}"
                yield Binding(node, full, bound_name(alias), kind, scope)
            elif alias.asname is not None:
                yield Binding(node, name, bound_name(alias), kind, scope)
            else:
                parts = name.split(".")
                for length in range(len(parts), 0, -1):
                    part = ".".join(parts[:length])
                    yield Binding(node, part, part, kind, scope)


def is_visible(tree: Tree, binding: Binding, place: Place) -> bool:
    """True if the import has run when the code at ``place`` does."""
    end = tree.span(binding.statement).end
    if binding.kind == "typing" or isinstance(binding.scope, cst.ClassDef):
        return False
    functions = functions_of(place.scopes)
    if binding.scope is not None and binding.scope not in functions:
        return False
    innermost = functions[0] if functions else None
    before = end <= place.offset
    if binding.scope is innermost and not before:
        return False
    if binding.kind == "elsewhere":
        small = isinstance(binding.statement, cst.BaseSmallStatement)
        block = block_of(tree, binding.statement) if small else None
        return before and block in tuple(tree.ancestors(place.node))
    return True


def _target_of(tree: Tree, node: cst.Name) -> cst.CSTNode | None:
    """Return the node that binds the name ``node``; None if the name is only read."""
    child: cst.CSTNode = node
    parent = tree.parent(child)
    while isinstance(parent, cst.Tuple | cst.List | cst.Element | cst.StarredElement):
        child, parent = parent, tree.parent(parent)
    bound = (
        isinstance(parent, cst.AssignTarget)
        or (isinstance(parent, cst.AnnAssign | cst.For | cst.AugAssign) and parent.target is child)
        or (isinstance(parent, cst.NamedExpr) and parent.target is child)
        or (isinstance(parent, cst.FunctionDef | cst.ClassDef | cst.Param) and parent.name is child)
        or (isinstance(parent, cst.AsName) and not isinstance(tree.parent(parent), cst.ImportAlias))
    )
    return parent if bound else None


def _rebinding(tree: Tree, name: str) -> Iterator[tuple[Scope | None, cst.CSTNode]]:
    """Yield the scopes in which something other than an import binds ``name``."""
    for node in tree.nodes(cst.Name):
        if node.value != name:
            continue
        target = _target_of(tree, node)
        if target is None:
            continue
        if isinstance(target, cst.Param):
            owner = next((one for one in tree.ancestors(target) if isinstance(one, Scope)), None)
            yield owner, node
            continue
        if any(isinstance(one, cst.ExceptHandler) for one in tree.ancestors(node)):
            continue  # ``except ImportError: torch = None`` is a fallback of the same thing.
        scopes = _scopes(tree, target)
        yield (scopes[0] if scopes else None), node


def is_shadowed(tree: Tree, binding: Binding, places: list[Place]) -> bool:
    """True if the name means something else than the import at one of ``places``."""
    return is_taken(tree, binding.root, binding.scope, places, binding.full, frozenset())


def is_taken(
    tree: Tree,
    name: str,
    home: Scope | None,
    places: list[Place],
    full: str,
    leaving: frozenset[cst.CSTNode],
) -> bool:
    """True if ``name``, bound to ``full`` in ``home``, is also bound to something else in sight."""
    inner: set[Scope | None] = {home}
    for place in places:
        for scope in place.scopes:
            if scope is home:
                break
            inner.add(scope)
    if any(scope in inner for scope, _ in _rebinding(tree, name)):
        return True
    return any(
        other.root == name
        and other.spelled == name
        and other.scope in inner
        and other.statement not in leaving
        and other.kind not in ("typing", "elsewhere")
        and not (full == other.full or full.startswith(other.full + "."))
        for other in bindings(tree)
    )


def places_of(tree: Tree, nodes: list[tuple[cst.CSTNode, int]]) -> list[Place]:
    return [Place(node, offset, _scopes(tree, node)) for node, offset in nodes]
