"""Make the drafts of one pass into splices: sequences, imports, blocks and levels together.

What several fixes do to one call, one import or one block has to be laid out once, with all of it
known: whether a trailing comma is the last, whether an import is still used, whether a block is
left empty.
"""

from __future__ import annotations

import libcst as cst

from memlint.fix.draft import Draft, Drop, Splice
from memlint.fix.import_lines import settle_imports
from memlint.fix.joined_drafts import Pass, arranged
from memlint.fix.spans import Tree
from memlint.fix.statement_edits import block_of
from memlint.fix.wrapping import wrapped


def merged(tree: Tree, drafts: list[Draft]) -> list[Splice]:
    """Return the splices that carry out ``drafts``, in order, none overlapping another."""
    work = Pass(tree, drafts)
    for node in work.touched():
        if not isinstance(node, cst.Import | cst.ImportFrom):
            work.splices += arranged(tree, node, work.added_to(node), work.removed_from(node))
    settle_imports(work)
    work.splices += _dropped(tree, work.drops, work.splices)
    for wrap in sorted(work.wraps, key=lambda one: one.span.end - one.span.start):
        work.splices = wrapped(tree, wrap, work.splices)
    return sorted(work.splices, key=lambda one: (one.span.start, one.span.end, one.rank))


def _dropped(tree: Tree, drops: list[Drop], splices: list[Splice]) -> list[Splice]:
    """Return the lines of removed statements; ``pass`` where nothing would be left of a block."""
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
