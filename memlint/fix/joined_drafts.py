"""The drafts of one pass together: each call, dictionary and import gets and loses items once."""

from collections.abc import Iterable
from typing import TypeVar

import libcst as cst

from memlint.fix.draft import Addition, Draft, Splice
from memlint.fix.imports import import_sequence
from memlint.fix.items import item_sequence
from memlint.fix.keywords import argument_sequence, arguments, line_indent, opening
from memlint.fix.sequences import Layout, Sequence
from memlint.fix.spans import Tree
from memlint.source import Span

_T = TypeVar("_T")


class Pass:
    """The drafts of one pass as one: what they do together to each sequence, import and block.

    removals: the items that leave a sequence, each with how many lines of comments above it go.
    """

    def __init__(self, tree: Tree, drafts: list[Draft]) -> None:
        self.tree = tree
        self.drafts = drafts
        self.splices = unique(splice for draft in drafts for splice in draft.splices)
        self.drops = unique(one for draft in drafts for one in draft.drops)
        self.additions = unique(addition for draft in drafts for addition in draft.additions)
        self.wraps = unique(one for draft in drafts for one in draft.wraps)
        self.new_imports = unique(one for draft in drafts for one in draft.new_imports)
        self.removals = {
            (removal.node, removal.index): removal.above
            for draft in drafts
            for removal in draft.removals
        }

    def touched(self) -> list[cst.CSTNode]:
        """Return the nodes whose sequences get or lose an item."""
        nodes = [addition.node for addition in self.additions] + [node for node, _ in self.removals]
        return unique(nodes)

    def added_to(self, node: cst.CSTNode) -> list[Addition]:
        """Return the items that the sequence of ``node`` gets."""
        return [addition for addition in self.additions if addition.node is node]

    def removed_from(self, node: cst.CSTNode) -> dict[int, int]:
        """Return the items that it loses, by index, with how many lines of comments above them."""
        return {at: above for (one, at), above in self.removals.items() if one is node}


def unique(items: Iterable[_T]) -> list[_T]:
    """Return the items without repetitions, in order."""
    return list(dict.fromkeys(items))


def _sequence(tree: Tree, node: cst.CSTNode) -> Sequence | None:
    if isinstance(node, cst.Dict):
        return item_sequence(tree, node)
    if isinstance(node, cst.ImportFrom):
        return import_sequence(tree, node)
    assert isinstance(node, cst.Call | cst.ClassDef)
    return argument_sequence(tree, node)


def arranged(
    tree: Tree, node: cst.CSTNode, additions: list[Addition], removals: dict[int, int]
) -> list[Splice]:
    """The sequence of ``node`` with ``additions`` and without ``removals``: each item's index, with
    how many lines of comments above it go."""
    sequence = _sequence(tree, node)
    if sequence is None:
        assert isinstance(node, cst.ClassDef)
        items = ", ".join(addition.text for addition in additions)
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
    for addition in additions:
        layout.insert(_place(node, layout, addition), addition.text)
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
