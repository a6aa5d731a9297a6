"""Imports: find the name a file already has for a thing, add it where it is safe, take it out."""

from collections.abc import Iterator

import libcst as cst

from memlint.fix.bindings import (
    Binding,
    Place,
    alias_name,
    bindings,
    bound_name,
    is_shadowed,
    is_taken,
    is_visible,
    module_name,
)
from memlint.fix.draft import Addition, Draft, NewImport, Reimport, Unimport
from memlint.fix.import_places import import_anchor
from memlint.fix.outcome import FixError
from memlint.fix.sequences import Sequence, item_of
from memlint.fix.spans import Tree
from memlint.fix.statement_edits import block_of, own_lines
from memlint.source import Span
from memlint.source.edits import AddImport, RemoveImport, RenameImport


def import_sequence(tree: Tree, node: cst.ImportFrom) -> Sequence:
    assert not isinstance(node.names, cst.ImportStar)
    items = tuple(item_of(tree, alias) for alias in node.names)
    if node.lpar is not None and node.rpar is not None:
        return Sequence(tree.outer(node.lpar).start + 1, tree.outer(node.rpar).end - 1, items)
    return Sequence(items[0].span.start, items[-1].span.end, items, bracketed=False)


def add_import(
    draft: Draft, edit: AddImport, places: list[Place], leaving: frozenset[cst.CSTNode]
) -> None:
    """Make the import available at ``places``; note in ``draft.names`` how it is spelled.

    ``leaving``: import statements out of which the same fix takes the name.
    """
    tree = draft.tree
    written = edit.module if edit.name is None else edit.name
    known = list(bindings(tree))
    target = _extendable(tree, known, edit, places or _anywhere(tree))
    spelled = _spelled_already(tree, known, edit, places, leaving, extendable=target is not None)
    if spelled is not None:
        draft.names[written] = spelled
        return
    name = written.partition(".")[0]
    home = target.scope if target is not None else None
    if is_taken(tree, name, home, places, _qualified(edit) if edit.name else name, leaving):
        raise FixError(f"the name {name!r} already means something else in this file")
    draft.names[written] = written
    if target is not None and isinstance(target.statement, cst.ImportFrom) and edit.name:
        _extend(draft, target.statement, edit.name)
        return
    _add_line(draft, edit, places, known)


def _qualified(edit: AddImport) -> str:
    return edit.module if edit.name is None else f"{edit.module}.{edit.name}"


def _anywhere(tree: Tree) -> list[Place]:
    """Return the end of the file, the place of names that are asked for without a place."""
    return [Place(tree.module, len(tree.data), ())]


def _spelled_already(
    tree: Tree,
    known: list[Binding],
    edit: AddImport,
    places: list[Place],
    leaving: frozenset[cst.CSTNode],
    *,
    extendable: bool,
) -> str | None:
    """Return the file's spelling of a name that it already imports; None if it has no import.

    extendable: an import of the module can take the name, which reads better than ``module.name``.
    """
    wanted = _qualified(edit)
    for binding in known:
        exact = binding.full == wanted and binding.statement not in leaving
        through = not extendable and edit.name is not None and binding.full == edit.module
        if (
            (exact or through)
            and all(is_visible(tree, binding, place) for place in places or _anywhere(tree))
            and not is_shadowed(tree, binding, places)
        ):
            return binding.spelled if exact else f"{binding.spelled}.{edit.name}"
    return None


def _extendable(
    tree: Tree, known: list[Binding], edit: AddImport, places: list[Place]
) -> Binding | None:
    """Return the ``from`` import of the module that serves all places; unguarded ones first.

    None for a module as a whole, which no such import brings in.
    """
    if edit.name is None:
        return None
    found = [
        binding
        for binding in known
        if isinstance(binding.statement, cst.ImportFrom)
        and module_name(binding.statement) == edit.module
        and binding.kind in ("direct", "guarded", "elsewhere")
        and all(is_visible(tree, binding, place) for place in places)
    ]
    order = ("direct", "guarded", "elsewhere")
    return min(found, key=lambda binding: order.index(binding.kind), default=None)


def _extend(draft: Draft, statement: cst.ImportFrom, clause: str) -> None:
    tree = draft.tree
    start = tree.span(statement).start
    draft.additions.append(Addition(statement, clause, clause, imported=True))
    draft.claim(Span(start, start), "import", statement, clause, exclusive=False)
    draft.regions.append(tree.span(statement))


def _add_line(draft: Draft, edit: AddImport, places: list[Place], known: list[Binding]) -> None:
    """A line of its own for the import, as early as is safe."""
    tree = draft.tree
    anchor = import_anchor(tree, edit.module.partition(".")[0], places, known)
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


def remove_import(draft: Draft, edit: RemoveImport) -> None:
    tree = draft.tree
    found = False
    for statement, alias in _aliases(tree, edit.module, edit.name):
        draft.unimports.append(Unimport(statement, alias, bound_name(alias), edit.unless_used))
        draft.claim(tree.span(alias), "unimport", alias, payload=edit.unless_used)
        draft.regions.append(_lines(tree, statement))
        draft.comments.append(Span(tree.span(alias).start, tree.line_end(item_of(tree, alias).end)))
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
            if alias_name(alias) == name:
                yield statement, alias


def leaving(tree: Tree, edits: tuple[object, ...]) -> frozenset[cst.CSTNode]:
    """Return the import statements from which ``edits`` take a name away."""
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
    found = [at for at, one in enumerate(statement.names) if alias_name(one) == edit.name]
    if module_name(statement) != edit.module or not found:
        raise FixError(f"{edit.name!r} is not imported from {edit.module!r} there")
    index = found[0]
    alias = statement.names[index]
    whole = len(statement.names) == 1
    if not edit.new_module and whole:
        draft.comments.append(_lines(tree, statement))
    if edit.new_module != edit.module and not (whole and edit.new_module):
        draft.comments.append(Span(tree.span(alias).start, tree.line_end(item_of(tree, alias).end)))
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
    """Return an import of ``module`` in the block of ``statement`` and before it."""
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
