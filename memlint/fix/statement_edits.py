"""Whole statements: insert, remove, put under a ``with``, decorate."""

import re

import libcst as cst

from memlint.fix.draft import Draft, Drop, Note, Removal, Splice, Wrap
from memlint.fix.new_expressions import fitted, reindented, substituted
from memlint.fix.notes import behind
from memlint.fix.outcome import FixError
from memlint.fix.spans import Tree
from memlint.source import Span
from memlint.source.edits import AddDecorator, InsertStatement, RemoveStatement, WrapStatements

_BLANK = re.compile(r"[ \t\f]*")
_REST = re.compile(rb"[ \t\f]*+;?[ \t\f]*+(?:#[^\r\n]*)?(?:\r\n|\r|\n|\Z)")

Statement = cst.BaseSmallStatement | cst.BaseCompoundStatement


def statement_at(tree: Tree, span: Span) -> Statement:
    node = tree.find(span, cst.BaseSmallStatement, cst.BaseCompoundStatement)
    if not isinstance(node, cst.BaseSmallStatement | cst.BaseCompoundStatement):
        raise FixError("there is no statement at the place of the fix")
    return node


def statement_of(tree: Tree, node: cst.CSTNode) -> Statement:
    """Return the innermost statement that ``node`` is or is part of."""
    for above in (node, *tree.ancestors(node)):
        if isinstance(above, cst.BaseSmallStatement | cst.BaseCompoundStatement):
            return above
    raise FixError("the place of the fix is in no statement")


def _begin(tree: Tree, node: Statement) -> int:
    """Return where the text of ``node`` begins, decorators included."""
    if isinstance(node, cst.FunctionDef | cst.ClassDef) and node.decorators:
        return tree.span(node.decorators[0]).start
    return tree.span(node).start


def line_indentation(tree: Tree, offset: int) -> str:
    """The white space before ``offset`` on its line; FixError if anything else stands there."""
    text = tree.slice(Span(tree.line_start(offset), offset))
    if not _BLANK.fullmatch(text):
        raise FixError("the statement shares its line with another")
    return text[text.rfind("\f") + 1 :]


def own_lines(tree: Tree, node: Statement) -> tuple[Span, str]:
    """The lines of ``node``, its comment at the end of the last included, and its indentation."""
    start, end = _begin(tree, node), tree.span(node).end
    parent = tree.parent(node)
    elif_branch = isinstance(node, cst.If) and isinstance(parent, cst.If)
    if elif_branch or not _REST.match(tree.data, end):
        raise FixError("the statement shares its line with another")
    indent = line_indentation(tree, start)
    return Span(tree.line_start(start), tree.line_end(end)), indent


def new_lines(draft: Draft, source: str, indent: str) -> str:
    """Return the statements ``source`` as lines of the file, the last one's newline included."""
    tree = draft.tree
    source = substituted(source.strip("\r\n"), draft.names)
    try:
        cst.parse_module(source)
    except (cst.ParserSyntaxError, RecursionError) as error:
        raise FixError(f"the new statement does not parse: {source!r}") from error
    text = reindented(source, indent, indent=tree.indent, newline=tree.newline)
    return indent + text + tree.newline


def placed(tree: Tree, offset: int, lines: str, rank: int) -> Splice:
    """``lines`` inserted at the line that begins at ``offset``, or behind an unended last line."""
    if offset == len(tree.data) and not tree.data.endswith((b"\n", b"\r")) and tree.data:
        lines = tree.newline + lines.removesuffix(tree.newline)
    return Splice(Span(offset, offset), lines, rank=rank, lines=True)


def rank_behind(indent: str) -> int:
    """The rank of lines that follow a statement: a block that ends there ends before the next."""
    return -10 - 2 * len(indent)


def check_beginning(tree: Tree, offset: int) -> None:
    """FixError if something new before ``offset`` would stand above ``from __future__``."""
    for node in tree.nodes(cst.ImportFrom):
        module = node.module
        if (
            isinstance(module, cst.Name)
            and module.value == "__future__"
            and offset < tree.span(node).end
        ):
            raise FixError("nothing may stand above the imports from __future__")


def insert_statement(draft: Draft, edit: InsertStatement) -> None:
    tree = draft.tree
    node = statement_at(tree, edit.anchor)
    span, indent = own_lines(tree, node)
    offset = span.start if edit.where == "before" else span.end
    if edit.where == "before":
        begin = _begin(tree, node)
        # A form feed that begins the line stays at its beginning.
        offset = begin - len(indent.encode())
    lines = new_lines(draft, edit.source, indent)
    if edit.source.endswith("\n") and edit.where == "before":
        # A blank line, as it stands above a definition.
        lines += tree.newline
    check_beginning(tree, offset)
    rank = 0 if edit.where == "before" else rank_behind(indent)
    draft.splices.append(placed(tree, offset, lines, rank))
    draft.inserted.append(draft.splices[-1])
    draft.claim(Span(offset, offset), "insert", node, edit.where, edit.source, exclusive=False)
    draft.regions.append(span)


def insert_comments(draft: Draft, node: cst.CSTNode, comments: list[str]) -> None:
    """Put ``comments`` on lines of their own above the statement of ``node``."""
    tree = draft.tree
    span, indent = own_lines(tree, statement_of(tree, node))
    lines = "".join(f"{indent}{comment}{tree.newline}" for comment in comments)
    draft.splices.append(placed(tree, span.start, lines, 0))
    draft.regions.append(span)


def remove_statement(draft: Draft, edit: RemoveStatement) -> None:
    tree, node = draft.tree, statement_at(draft.tree, edit.span)
    drop_statement(draft, node)
    if isinstance(node, cst.Assign) and draft.drops and draft.drops[-1].node is node:
        said = tuple(Note(text) for text, _ in behind(tree, tree.span(node).end))
        source = tree.slice(tree.span(node.value))
        draft.departures.append(Removal(node, 0, comments=said, source=source))


def drop_statement(draft: Draft, node: Statement) -> None:
    """Remove ``node``; the block it leaves empty gets a ``pass`` when all edits are known."""
    tree = draft.tree
    parent = tree.parent(node)
    kinds = (cst.SimpleStatementLine, cst.SimpleStatementSuite)
    siblings = list(parent.body) if isinstance(parent, kinds) else []
    if len(siblings) > 1:
        span = _beside_siblings(tree, node, siblings)
        draft.splice(span, "")
    elif isinstance(parent, cst.SimpleStatementSuite):
        span = tree.span(node)
        draft.splice(span, "pass")
    else:
        span, indent = own_lines(tree, node)
        draft.drops.append(Drop(node, span, indent))
    draft.claim(span, "statement", node, payload="removed")
    draft.regions.append(span)
    draft.comments.append(span)


def _beside_siblings(tree: Tree, node: Statement, siblings: list[cst.BaseSmallStatement]) -> Span:
    """The statement with the semicolon that parts it from the one before, or behind, it."""
    index = next(at for at, one in enumerate(siblings) if one is node)
    if index:
        return Span(tree.span(siblings[index - 1]).end, tree.span(node).end)
    return Span(tree.span(node).start, tree.span(siblings[1]).start)


def block_of(tree: Tree, node: Statement) -> cst.CSTNode | None:
    """Return the block, or module, whose statement ``node`` is."""
    parent = tree.parent(node)
    return tree.parent(parent) if isinstance(parent, cst.SimpleStatementLine) else parent


def wrap_statements(draft: Draft, edit: WrapStatements) -> None:
    tree = draft.tree
    first, last = statement_at(tree, edit.first), statement_at(tree, edit.last)
    if block_of(tree, first) is not block_of(tree, last) or edit.last.start < edit.first.start:
        raise FixError("the statements to wrap are not of one block")
    header = substituted(edit.header.strip() + "\n    pass\n", draft.names)
    try:
        cst.parse_module(header)
    except (cst.ParserSyntaxError, RecursionError) as error:
        raise FixError(f"the new header does not parse: {edit.header!r}") from error
    begin, indent = own_lines(tree, first)
    end, _ = own_lines(tree, last)
    span = Span(begin.start, end.end)
    check_beginning(tree, span.start)
    text = reindented(
        header.removesuffix("\n    pass\n"), indent, indent=tree.indent, newline=tree.newline
    )
    draft.wraps.append(Wrap(span, indent, text))
    draft.claim(span, "wrap", first, last, payload=edit.header, nests=True)
    draft.regions.append(span)


def add_decorator(draft: Draft, edit: AddDecorator) -> None:
    tree = draft.tree
    node = tree.find(edit.definition, cst.FunctionDef, cst.ClassDef)
    if not isinstance(node, cst.FunctionDef | cst.ClassDef):
        raise FixError("there is no function or class at the place of the fix")
    source = fitted(substituted(edit.source, draft.names), 0)
    if any(tree.slice(tree.span(decorator.decorator)) == source for decorator in node.decorators):
        return
    begin = _begin(tree, node)
    indent = line_indentation(tree, begin)
    offset = begin - len(indent.encode())
    text = reindented(source, indent, indent=tree.indent, newline=tree.newline)
    draft.splices.append(placed(tree, offset, f"{indent}@{text}{tree.newline}", 3))
    draft.claim(Span(offset, offset), "decorate", node, edit.source, exclusive=False)
    draft.regions.append(Span(offset, tree.span(node).end))
