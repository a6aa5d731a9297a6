"""Imports: find the name a file already has for a thing, add it where it is safe, take it out.

Where a new import may stand is a matter of what must run first. It never goes above a docstring,
``__future__``, code that sets an environment variable (the allocator reads its own when torch is
imported), an import that is guarded by ``try`` or ``if``, and never into a ``TYPE_CHECKING``
block. An import of the same module that runs before the place of use is extended instead, in its
own layout; a name that is there under an alias is used under it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from memlint.fix.draft import Addition, Draft, NewImport, Reimport, Unimport
from memlint.fix.expressions import dotted
from memlint.fix.sequences import Item, Sequence
from memlint.fix.spans import FixError, Tree
from memlint.fix.statements import block_of, own_lines
from memlint.rule.edits import AddImport, RemoveImport, RenameImport
from memlint.source import Span

if TYPE_CHECKING:
    from collections.abc import Iterator

# What must run before the imports below it; a masked line of a notebook may install or set things.
_SETS_UP = re.compile(
    r"\benviron\[[^\]]*\]\s*=(?!=)|\benviron\.(?:setdefault|update|pop)\b"
    r"|\b(?:putenv|unsetenv|load_dotenv|sys\.path)\b|^pass[ \t]*#"
)
# Whoever imports one of these has loaded torch, and what it reads from the environment.
_TORCH_FAMILY = frozenset({"torch", "transformers", "trl", "accelerate", "peft", "lightning"})
_WITH_TORCH = frozenset({"torch", "memlint_runtime"})

_Scope = cst.FunctionDef | cst.Lambda | cst.ClassDef
_Statement = cst.BaseSmallStatement | cst.BaseCompoundStatement
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
    scopes: tuple[_Scope, ...]


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
    scope: _Scope | None
    is_module: bool

    @property
    def root(self) -> str:
        return self.spelled.partition(".")[0]


def module_name(node: cst.ImportFrom) -> str:
    """The module of a ``from`` import, leading dots included."""
    return "." * len(node.relative) + (dotted(node.module) or "")


def _alias_name(alias: cst.ImportAlias) -> str:
    return dotted(alias.name) or ""


def bound_name(alias: cst.ImportAlias) -> str:
    """The name that ``alias`` binds (the first part of a dotted one)."""
    if alias.asname is not None and isinstance(alias.asname.name, cst.Name):
        return alias.asname.name.value
    return _alias_name(alias).partition(".")[0]


def import_sequence(tree: Tree, node: cst.ImportFrom) -> Sequence:
    assert not isinstance(node.names, cst.ImportStar)
    items = tuple(
        Item(
            tree.span(alias),
            tree.span(alias.comma).start if isinstance(alias.comma, cst.Comma) else None,
        )
        for alias in node.names
    )
    if node.lpar is not None and node.rpar is not None:
        return Sequence(tree.outer(node.lpar).start + 1, tree.outer(node.rpar).end - 1, items)
    return Sequence(items[0].span.start, items[-1].span.end, items, bracketed=False)


def _scopes(tree: Tree, node: cst.CSTNode) -> tuple[_Scope, ...]:
    """The functions and classes in whose bodies ``node`` is, innermost first."""
    result: list[_Scope] = []
    child = node
    for above in tree.ancestors(node):
        # Decorators, defaults and bases belong to the scope outside.
        if isinstance(above, _Scope) and child is above.body:
            result.append(above)
        child = above
    return tuple(result)


def _function(scopes: tuple[_Scope, ...]) -> tuple[_Scope, ...]:
    return tuple(scope for scope in scopes if not isinstance(scope, cst.ClassDef))


def _kind(tree: Tree, node: cst.CSTNode) -> str:
    kind = "direct"
    child: cst.CSTNode = node
    for above in tree.ancestors(node):
        if isinstance(above, _Scope):
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
            name = _alias_name(alias)
            if isinstance(node, cst.ImportFrom):
                full = f"{module_name(node)}.{name}"
                yield Binding(node, full, bound_name(alias), kind, scope, False)
            elif alias.asname is not None:
                yield Binding(node, name, bound_name(alias), kind, scope, True)
            else:
                parts = name.split(".")
                for length in range(len(parts), 0, -1):
                    part = ".".join(parts[:length])
                    yield Binding(node, part, part, kind, scope, True)


def _block(tree: Tree, node: cst.CSTNode) -> cst.CSTNode | None:
    return block_of(tree, node) if isinstance(node, cst.BaseSmallStatement) else None


def _visible(tree: Tree, binding: Binding, place: Place) -> bool:
    """Whether the import has run when the code at ``place`` does."""
    end = tree.span(binding.statement).end
    if binding.kind == "typing" or isinstance(binding.scope, cst.ClassDef):
        return False
    functions = _function(place.scopes)
    if binding.scope is not None and binding.scope not in functions:
        return False
    innermost = functions[0] if functions else None
    before = end <= place.offset
    if binding.scope is innermost and not before:
        return False
    if binding.kind == "elsewhere":
        return before and _block(tree, binding.statement) in tuple(tree.ancestors(place.node))
    return True


def _target_of(tree: Tree, node: cst.Name) -> cst.CSTNode | None:
    """What binds the name ``node``; None where it is only read."""
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


def _rebinding(tree: Tree, name: str) -> Iterator[tuple[_Scope | None, cst.CSTNode]]:
    """The scopes in which something other than an import binds ``name``."""
    for node in tree.nodes(cst.Name):
        if node.value != name:
            continue
        target = _target_of(tree, node)
        if target is None:
            continue
        if isinstance(target, cst.Param):
            owner = next((one for one in tree.ancestors(target) if isinstance(one, _Scope)), None)
            yield owner, node
            continue
        if any(isinstance(one, cst.ExceptHandler) for one in tree.ancestors(node)):
            continue  # ``except ImportError: torch = None`` is a fallback of the same thing.
        scopes = _scopes(tree, target)
        yield (scopes[0] if scopes else None), node


def _shadowed(tree: Tree, binding: Binding, places: list[Place]) -> bool:
    """Whether the name means something else than the import at one of ``places``."""
    return _taken(tree, binding.root, binding.scope, places, binding.full, frozenset())


def _taken(
    tree: Tree,
    name: str,
    home: _Scope | None,
    places: list[Place],
    full: str,
    leaving: frozenset[cst.CSTNode],
) -> bool:
    """Whether ``name``, bound to ``full`` in ``home``, is also bound to something else in sight."""
    inner: set[_Scope | None] = {home}
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


def add_import(
    draft: Draft, edit: AddImport, places: list[Place], leaving: frozenset[cst.CSTNode]
) -> None:
    """Make the import available at ``places``; note in ``draft.names`` how it is spelled.

    ``leaving``: import statements out of which the same fix takes the name.
    """
    tree = draft.tree
    wanted = edit.module if edit.name is None else f"{edit.module}.{edit.name}"
    written = edit.module if edit.name is None else edit.name
    anywhere = places or [Place(tree.module, len(tree.data), ())]
    known = list(bindings(tree))

    for binding in known:
        exact = binding.full == wanted and binding.statement not in leaving
        through = edit.name is not None and binding.full == edit.module
        if (
            (exact or through)
            and all(_visible(tree, binding, place) for place in anywhere)
            and not _shadowed(tree, binding, places)
        ):
            if exact:
                draft.names[written] = binding.spelled
                return
            if not _extendable(tree, known, edit, anywhere):
                draft.names[written] = f"{binding.spelled}.{edit.name}"
                return

    name = written.partition(".")[0]
    target = None if edit.name is None else _extendable(tree, known, edit, anywhere)
    home = target.scope if target is not None else None
    if _taken(tree, name, home, places, wanted if edit.name else name, leaving):
        raise FixError(f"the name {name!r} already means something else in this file")
    draft.names[written] = written
    if target is not None and isinstance(target.statement, cst.ImportFrom) and edit.name:
        _extend(draft, target.statement, edit.name)
        return
    _add_line(draft, edit, places, known)


def _extendable(
    tree: Tree, known: list[Binding], edit: AddImport, places: list[Place]
) -> Binding | None:
    """The ``from`` import of the module that serves all places; unguarded ones first."""
    found = [
        binding
        for binding in known
        if isinstance(binding.statement, cst.ImportFrom)
        and module_name(binding.statement) == edit.module
        and binding.kind in ("direct", "guarded", "elsewhere")
        and all(_visible(tree, binding, place) for place in places)
    ]
    order = ("direct", "guarded", "elsewhere")
    return min(found, key=lambda binding: order.index(binding.kind), default=None)


def _extend(draft: Draft, statement: cst.ImportFrom, clause: str) -> None:
    tree = draft.tree
    start = tree.span(statement).start
    draft.additions.append(Addition(statement, clause, clause))
    draft.claim(Span(start, start), "import", statement, clause, exclusive=False)
    draft.regions.append(tree.span(statement))


def _add_line(draft: Draft, edit: AddImport, places: list[Place], known: list[Binding]) -> None:
    """A line of its own for the import, as early as is safe."""
    tree = draft.tree
    anchor = _local_anchor(tree, edit, places, known) or _header_anchor(tree, edit, places, known)
    if anchor is None:
        _add_first_line(draft, edit)
        return
    span, indent = own_lines(tree, anchor)
    blank = _is_docstring_or_future(anchor)
    _new_import(draft, NewImport(span.end, indent, edit.module, edit.name, blank_before=blank))


def _new_import(draft: Draft, line: NewImport) -> None:
    draft.new_imports.append(line)
    draft.claim(
        Span(line.offset, line.offset),
        "new import",
        line.offset,
        line.module,
        line.clause,
        exclusive=False,
    )


def _add_first_line(draft: Draft, edit: AddImport) -> None:
    tree = draft.tree
    if not tree.module.body:
        _new_import(draft, NewImport(len(tree.data), "", edit.module, edit.name))
        return
    first = tree.module.body[0]
    node = first.body[0] if isinstance(first, cst.SimpleStatementLine) else first
    assert isinstance(node, cst.BaseSmallStatement | cst.BaseCompoundStatement)
    if isinstance(first, cst.SimpleStatementLine):
        offset = tree.line_start(tree.span(node).start)
    else:
        offset = own_lines(tree, node)[0].start
    _new_import(draft, NewImport(offset, "", edit.module, edit.name, blank_after=True))


def _is_docstring_or_future(node: cst.CSTNode) -> bool:
    if isinstance(node, cst.ImportFrom):
        return module_name(node) == "__future__"
    return isinstance(node, cst.Expr)


def _local_anchor(
    tree: Tree, edit: AddImport, places: list[Place], known: list[Binding]
) -> _Statement | None:
    """Where the function around all places, or a guard, brings the library in by itself."""
    package = edit.module.partition(".")[0]
    related = [
        binding
        for binding in known
        if binding.full.partition(".")[0] == package
        and all(_visible(tree, binding, place) for place in places)
        and binding.kind in ("direct", "guarded")
    ]
    if places and not any(binding.scope is None for binding in related):
        local = [binding for binding in related if binding.scope is not None]
        if local:
            return local[-1].statement
        functions = _function(places[0].scopes)
        loaded = any(
            _loads(binding, package)
            for binding in known
            if binding.scope is None and binding.kind == "direct"
        )
        if not loaded and functions and all(functions[0] in place.scopes for place in places):
            return _setup_in(tree, functions[0], min(place.offset for place in places))
        return None
    if any(binding.kind == "direct" for binding in related):
        return None
    return related[-1].statement if related else None


def _loads(binding: Binding, package: str) -> bool:
    """Whether what ``binding`` imports has loaded ``package`` or all that matters of it."""
    top = binding.full.partition(".")[0]
    return top == package or (package in _WITH_TORCH and top in _TORCH_FAMILY)


def _setup_in(tree: Tree, function: _Scope, limit: int) -> _Statement | None:
    """The last statement of ``function`` before ``limit`` that sets the environment."""
    if not isinstance(function, cst.FunctionDef) or not isinstance(
        function.body, cst.IndentedBlock
    ):
        return None
    last = None
    for node in _statements(function.body.body):
        if tree.span(node).end > limit:
            break
        sets_up = _SETS_UP.search(tree.slice(tree.span(node)))
        if sets_up or (last is not None and isinstance(node, cst.Import | cst.ImportFrom)):
            last = node
    return last


def _statements(
    body: object,
) -> Iterator[_Statement]:
    """The statements of a body, the last of those that share a line."""
    assert isinstance(body, list | tuple)
    for line in body:
        yield line.body[-1] if isinstance(line, cst.SimpleStatementLine) else line


def _header_anchor(
    tree: Tree, edit: AddImport, places: list[Place], known: list[Binding]
) -> _Statement | None:
    """The module's statement behind which the import goes; None: it goes first."""
    outside = [place for place in places if not _function(place.scopes)]
    limit = min((place.offset for place in outside), default=len(tree.data))
    around = {above for place in outside for above in tree.ancestors(place.node)}
    package = edit.module.partition(".")[0]
    last: _Statement | None = None
    related: _Statement | None = None
    header, loaded = True, False
    for number, node in enumerate(_statements(tree.module.body)):
        span = tree.span(node)
        if span.end > limit or node in around:
            break
        text = tree.slice(Span(span.start, tree.line_end(span.end)))
        if isinstance(node, cst.FunctionDef | cst.ClassDef):
            header = False
        elif isinstance(node, cst.Import | cst.ImportFrom):
            last = node if header else last
            here = [binding for binding in known if binding.statement is node]
            loaded = loaded or any(_loads(binding, package) for binding in here)
            same = any(binding.full.partition(".")[0] == package for binding in here)
            if same and (header or related is None):
                related = node
        elif not loaded and _SETS_UP.search(text):
            # Once it is loaded, what is set comes too late for it anyway.
            last = node
        elif isinstance(node, cst.If) and "__name__" in tree.slice(tree.span(node.test)):
            header = False
        elif (
            header
            and isinstance(node, cst.If | cst.Try | cst.TryStar | cst.With)
            and re.search(r"\bimport\b", text)
        ) or (number == 0 and _is_docstring(node)):
            last = node
    return related or last


def _is_docstring(node: cst.CSTNode) -> bool:
    return isinstance(node, cst.Expr) and isinstance(
        node.value, cst.SimpleString | cst.ConcatenatedString
    )


def remove_import(draft: Draft, edit: RemoveImport) -> None:
    tree = draft.tree
    found = False
    for statement, alias in _aliases(tree, edit.module, edit.name):
        draft.unimports.append(Unimport(statement, alias, bound_name(alias), edit.unless_used))
        draft.claim(tree.span(alias), "unimport", alias, payload=edit.unless_used)
        draft.regions.append(_lines(tree, statement))
        comma = alias.comma
        end = tree.span(comma if isinstance(comma, cst.Comma) else alias).end
        draft.comments.append(Span(tree.span(alias).start, tree.line_end(end)))
        if not isinstance(statement.names, cst.ImportStar) and len(statement.names) == 1:
            draft.comments.append(_lines(tree, statement))
        found = True
    if not found:
        raise FixError(f"{edit.name!r} is not imported from {edit.module!r}")


def _lines(tree: Tree, statement: cst.ImportFrom) -> Span:
    span = tree.span(statement)
    return Span(tree.line_start(span.start), tree.line_end(span.end))


def _aliases(
    tree: Tree, module: str, name: str
) -> Iterator[tuple[cst.ImportFrom, cst.ImportAlias]]:
    for statement in tree.nodes(cst.ImportFrom):
        if isinstance(statement.names, cst.ImportStar) or module_name(statement) != module:
            continue
        for alias in statement.names:
            if _alias_name(alias) == name:
                yield statement, alias


def leaving(tree: Tree, edits: tuple[object, ...]) -> frozenset[cst.CSTNode]:
    """The import statements from which ``edits`` take a name away."""
    result: set[cst.CSTNode] = set()
    for edit in edits:
        if isinstance(edit, RemoveImport):
            result.update(one for one, _ in _aliases(tree, edit.module, edit.name))
        elif isinstance(edit, RenameImport):
            node = tree.find(edit.span, cst.ImportFrom)
            if node is not None:
                result.add(node)
    return frozenset(result)


def rename_import(draft: Draft, edit: RenameImport) -> None:
    tree = draft.tree
    statement = tree.find(edit.span, cst.ImportFrom)
    if not isinstance(statement, cst.ImportFrom) or isinstance(statement.names, cst.ImportStar):
        raise FixError("there is no such import at the place of the fix")
    found = [at for at, one in enumerate(statement.names) if _alias_name(one) == edit.name]
    if module_name(statement) != edit.module or not found:
        raise FixError(f"{edit.name!r} is not imported from {edit.module!r} there")
    index = found[0]
    alias = statement.names[index]
    whole = len(statement.names) == 1
    if not edit.new_module and whole:
        draft.comments.append(_lines(tree, statement))
    if edit.new_module != edit.module and not (whole and edit.new_module):
        comma = alias.comma
        end = tree.span(comma if isinstance(comma, cst.Comma) else alias).end
        draft.comments.append(Span(tree.span(alias).start, tree.line_end(end)))
        own_lines(tree, statement)  # The new import goes on a line of its own behind this one.
    draft.reimports.append(
        Reimport(
            statement,
            index,
            bound_name(alias),
            alias.asname is not None,
            edit.new_module,
            edit.new_name,
        )
    )
    draft.claim(tree.span(alias), "reimport", alias, payload=(edit.new_module, edit.new_name))
    draft.regions.append(_lines(tree, statement))
    target = earlier_import(tree, statement, edit.new_module)
    if target is not None:
        draft.regions.append(tree.span(target))
        draft.comments.append(_lines(tree, statement))


def earlier_import(tree: Tree, statement: cst.ImportFrom, module: str) -> cst.ImportFrom | None:
    """An import of ``module`` in the block of ``statement`` and before it."""
    for other in tree.nodes(cst.ImportFrom):
        if other is statement:
            return None
        if (
            module_name(other) == module
            and not isinstance(other.names, cst.ImportStar)
            and block_of(tree, other) is block_of(tree, statement)
        ):
            return other
    return None
