"""Make the drafts of one pass into splices: sequences, imports, blocks and levels together.

What several fixes do to one call, one import or one block has to be laid out once, with all of it
known: whether a trailing comma is the last, whether an import is still used, whether a block is
left empty.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import libcst as cst

from memlint.fix.draft import MARK, Addition, Draft, Drop, NewImport, Reimport, Splice, Wrap
from memlint.fix.expressions import is_reference
from memlint.fix.imports import earlier_import, import_sequence, module_name
from memlint.fix.items import item_sequence
from memlint.fix.keywords import argument_sequence, arguments, line_indent, opening
from memlint.fix.sequences import Layout, Sequence
from memlint.fix.spans import Tree
from memlint.fix.statements import block_of, drop_statement, own_lines, placed, rank_behind
from memlint.source import Span

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_LINE = re.compile(r"\r\n|\r|\n")
_NAME_IN_STRING = re.compile(r"[\w.\[\]]+(?:(?:, ?| ?\| ?)[\w.\[\]]+)*")


def merged(tree: Tree, drafts: list[Draft]) -> list[Splice]:
    """The splices that carry out ``drafts``, in order, none overlapping another."""
    splices = list(dict.fromkeys(one for draft in drafts for one in draft.splices))
    drops = list(dict.fromkeys(one for draft in drafts for one in draft.drops))
    additions = list(dict.fromkeys(one for draft in drafts for one in draft.additions))
    removals = {(one.node, one.index) for draft in drafts for one in draft.removals}
    above = {(one.node, one.index): one.above for draft in drafts for one in draft.removals}
    lines = list(dict.fromkeys(one for draft in drafts for one in draft.new_imports))

    statements = (cst.Import, cst.ImportFrom)
    for node in _touched(additions, removals):
        if not isinstance(node, statements):
            added = [one for one in additions if one.node is node]
            gone_items = {at: above.get((one, at), 0) for one, at in removals if one is node}
            splices += _arranged(tree, node, added, gone_items)

    gone = [splice.span for splice in splices] + [drop.span for drop in drops]
    texts = [MARK.sub("", splice.text) for splice in splices]

    def used(name: str) -> bool:
        return _used(tree, name, gone, texts)

    _unimport(drafts, removals, used)
    splices += _reimport(tree, drafts, additions, removals, lines, used)
    for node in _touched(additions, removals):
        if not isinstance(node, cst.ImportFrom):
            continue
        added = [one for one in additions if one.node is node]
        removed = {at for one, at in removals if one is node}
        assert not isinstance(node.names, cst.ImportStar)
        if len(removed) == len(node.names) and not added:
            scratch = Draft(tree)
            drop_statement(scratch, node)
            splices += scratch.splices
            drops += scratch.drops
        else:
            splices += _arranged(tree, node, added, dict.fromkeys(removed, 0))
    splices += _new_lines(tree, lines)
    splices += _dropped(tree, drops, splices)
    wraps = list(dict.fromkeys(one for draft in drafts for one in draft.wraps))
    for wrap in sorted(wraps, key=lambda one: one.span.end - one.span.start):
        splices = _wrapped(tree, wrap, splices)
    return sorted(splices, key=lambda one: (one.span.start, one.span.end, one.rank))


def _touched(
    additions: Iterable[Addition], removals: Iterable[tuple[cst.CSTNode, int]]
) -> list[cst.CSTNode]:
    return list(dict.fromkeys([one.node for one in additions] + [node for node, _ in removals]))


def _sequence(tree: Tree, node: cst.CSTNode) -> Sequence | None:
    if isinstance(node, cst.Dict):
        return item_sequence(tree, node)
    if isinstance(node, cst.ImportFrom):
        return import_sequence(tree, node)
    assert isinstance(node, cst.Call | cst.ClassDef)
    return argument_sequence(tree, node)


def _arranged(
    tree: Tree, node: cst.CSTNode, additions: list[Addition], removals: dict[int, int]
) -> list[Splice]:
    """The sequence of ``node`` with ``additions`` and without ``removals``: each item's index, with
    how many lines of comments above it go."""
    sequence = _sequence(tree, node)
    if sequence is None:
        assert isinstance(node, cst.ClassDef)
        items = ", ".join(one.text for one in additions)
        return [Splice(opening(tree, node), f"({items})")]
    result: list[Splice] = []
    layout = Layout(
        tree.data,
        sequence,
        newline=tree.newline,
        indent=tree.indent,
        outside=line_indent(tree, sequence.start),
    )
    if additions and isinstance(node, cst.Call) and len(node.args) == 1:
        value = node.args[0].value
        if isinstance(value, cst.GeneratorExp) and not value.lpar:
            start, end = tree.span(value)
            result += [Splice(Span(start, start), "("), Splice(Span(end, end), ")")]
    for one in additions:
        layout.insert(_place(node, layout, one), one.text)
    for index in sorted(removals):
        layout.remove(layout.position(index), removals[index])
    return result + [Splice(span, text) for span, text in layout.changes()]


def _place(node: cst.CSTNode, layout: Layout, addition: Addition) -> int:
    """Before which item ``addition`` goes."""
    count = len(layout.entries)
    if isinstance(node, cst.Call | cst.ClassDef) and not addition.last:
        written = arguments(node)
        while count:
            index = layout.entries[count - 1].index
            if index is None or written[index].star != "**":
                break
            count -= 1
    elif isinstance(node, cst.ImportFrom) and not isinstance(node.names, cst.ImportStar):
        names = [
            layout.data[slice(*layout.sequence.items[entry.index].span)].decode()
            if entry.index is not None
            else entry.text
            for entry in layout.entries
        ]
        for key in (str, str.lower):
            if names == sorted(names, key=key):
                before = [name for name in names if key(name) <= key(addition.text)]
                return len(before)
    return count


def _used(tree: Tree, name: str, gone: list[Span], texts: list[str]) -> bool:
    """Whether ``name`` is still referred to when ``gone`` has become ``texts``."""
    word = re.compile(rf"\b{re.escape(name)}\b")
    if any(word.search(text) for text in texts):
        return True
    for node in tree.nodes(cst.Name):
        if node.value == name and is_reference(tree, node):
            span = tree.span(node)
            if not any(region.contains(span) for region in gone):
                return True
    # ``__all__`` and annotations name things in strings.
    return any(
        name in node.value
        and _NAME_IN_STRING.fullmatch(node.raw_value)
        and word.search(node.raw_value)
        for node in tree.nodes(cst.SimpleString)
    )


def _unimport(
    drafts: list[Draft],
    removals: set[tuple[cst.CSTNode, int]],
    used: Callable[[str], bool],
) -> None:
    for draft in drafts:
        for one in draft.unimports:
            # A name that the same fix imports from elsewhere is no use of the old import.
            replaced = one.bound in draft.names.values()
            if one.unless_used and not replaced and used(one.bound):
                continue
            assert not isinstance(one.statement.names, cst.ImportStar)
            index = next(at for at, alias in enumerate(one.statement.names) if alias is one.alias)
            removals.add((one.statement, index))


def _reimport(
    tree: Tree,
    drafts: list[Draft],
    additions: list[Addition],
    removals: set[tuple[cst.CSTNode, int]],
    lines: list[NewImport],
    used: Callable[[str], bool],
) -> list[Splice]:
    splices: list[Splice] = []
    requests = list(dict.fromkeys(one for draft in drafts for one in draft.reimports))
    for one in requests:
        statement = one.statement
        assert not isinstance(statement.names, cst.ImportStar)
        alias = statement.names[one.index]
        together = {other.new_module for other in requests if other.statement is statement}
        clause = _clause(one, used(one.bound) if not one.explicit else True)
        if not one.new_module:
            # A module of its own: ``import new_name`` behind the statement that loses the name.
            removals.add((statement, one.index))
            span, indent = own_lines(tree, statement)
            lines.append(NewImport(span.end, indent, clause, None))
            continue
        if one.new_module == module_name(statement):
            splices.append(Splice(tree.span(alias), clause))
            continue
        target = earlier_import(tree, one.statement, one.new_module)
        # A statement that another fix adds a name to stays what it is.
        whole = (
            len(together) == 1
            and len(statement.names) == sum(other.statement is statement for other in requests)
            and not any(added.node is statement for added in additions)
        )
        if target is None and whole:
            splices.append(Splice(tree.span(alias), clause))
            splices.append(Splice(_module_span(tree, statement), one.new_module))
            continue
        removals.add((statement, one.index))
        if target is None:
            span, indent = own_lines(tree, statement)
            lines.append(NewImport(span.end, indent, one.new_module, clause))
        elif clause not in _clauses(tree, target):
            additions.append(Addition(target, clause, clause))
    return list(dict.fromkeys(splices))


def _clause(request: Reimport, used: bool) -> str:
    if request.bound == request.new_name or not used:
        return request.new_name
    return f"{request.new_name} as {request.bound}"


def _clauses(tree: Tree, statement: cst.ImportFrom) -> set[str]:
    assert not isinstance(statement.names, cst.ImportStar)
    return {tree.slice(tree.span(alias)) for alias in statement.names}


def _module_span(tree: Tree, statement: cst.ImportFrom) -> Span:
    parts = [tree.outer(dot) for dot in statement.relative]
    if statement.module is not None:
        parts.append(tree.outer(statement.module))
    return Span(parts[0].start, parts[-1].end)


def _new_lines(tree: Tree, lines: list[NewImport]) -> list[Splice]:
    """One splice for each place at which import lines are inserted."""
    result: list[Splice] = []
    for offset in sorted({one.offset for one in lines}):
        here = [one for one in lines if one.offset == offset]
        newline, indent = tree.newline, here[0].indent
        plain = sorted({one.module for one in here if one.clause is None})
        text = "".join(f"{indent}import {module}{newline}" for module in plain)
        for module in sorted({one.module for one in here if one.clause is not None}):
            clauses = sorted({one.clause for one in here if one.module == module and one.clause})
            text += f"{indent}from {module} import {', '.join(clauses)}{newline}"
        following = tree.slice(Span(offset, tree.line_end(offset)))
        if any(one.blank_before for one in here):
            text = newline + text
            if following.strip() and not re.match(r"\s*(?:import|from)\b", following):
                text += newline
        if any(one.blank_after for one in here):
            text += newline
        first = any(one.blank_after for one in here)
        result.append(placed(tree, offset, text, -1 if first else rank_behind(indent) - 1))
    return result


def _dropped(tree: Tree, drops: list[Drop], splices: list[Splice]) -> list[Splice]:
    """The lines of removed statements; ``pass`` where nothing would be left of a block."""
    result: list[Splice] = []
    gone = {id(drop.node) for drop in drops}
    filled: set[int] = set()
    for drop in sorted(drops, key=lambda one: one.span):
        text = ""
        node = drop.node
        assert isinstance(node, cst.BaseSmallStatement | cst.BaseCompoundStatement)
        block = block_of(tree, node)
        if isinstance(block, cst.IndentedBlock) and id(block) not in filled:
            filled.add(id(block))
            left = any(id(_only(line)) not in gone for line in block.body)
            span = tree.span(block)
            inserted = any(
                splice.lines and drop.span.start <= splice.span.start <= span.end + 1
                for splice in splices
            )
            if not left and not inserted:
                text = f"{drop.indent}pass{tree.newline}"
        result.append(Splice(drop.span, text, lines=True))
    return result


def _only(line: cst.CSTNode) -> cst.CSTNode:
    """The statement of a line that holds one; else the line itself, which cannot be removed."""
    if isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1:
        return line.body[0]
    return line


def _wrapped(tree: Tree, wrap: Wrap, splices: list[Splice]) -> list[Splice]:
    """Put the lines of ``wrap`` one level deeper, with what other splices write there."""
    result: list[Splice] = []
    for splice in splices:
        outside = splice.span == (wrap.span.start, wrap.span.start) and splice.rank <= 0
        if outside or not wrap.span.contains(splice.span) or splice.span.start == wrap.span.end:
            result.append(splice)
            continue
        text = _LINE.sub(lambda match: match.group() + tree.indent, splice.text)
        rank = splice.rank
        if splice.span.start == splice.span.end == tree.line_start(splice.span.start):
            # It stands before the first character of a line that will be indented, too.
            if _LINE.search(splice.text[-2:]):
                text = tree.indent + text.removesuffix(tree.indent)
            else:
                rank = 4
        elif splice.lines and text:
            text = tree.indent + text.removesuffix(tree.indent)
        result.append(Splice(splice.span, text, rank, splice.lines))
    strings = [*map(tree.span, tree.nodes(cst.SimpleString))]
    strings += map(tree.span, tree.nodes(cst.FormattedString))
    inside = [span for span in strings if wrap.span.overlaps(span)]
    replaced = [splice.span for splice in splices if splice.span.start < splice.span.end]
    header = f"{wrap.indent}{wrap.header}{tree.newline}"
    result.append(Splice(Span(wrap.span.start, wrap.span.start), header, rank=1, lines=True))
    start = wrap.span.start
    while start < wrap.span.end:
        end = tree.line_end(start)
        blank = not tree.data[start:end].strip()
        in_string = any(span.start < start < span.end for span in inside)
        in_splice = any(
            span.start < start < span.end or (span.start == start and span.end >= end)
            for span in replaced
        )
        if not (blank or in_string or in_splice):
            result.append(Splice(Span(start, start), tree.indent, rank=2))
        start = end
    return result
