"""Arguments of calls and class definitions: set, remove and rename keywords."""

import re

import libcst as cst

from memlint.fix.draft import Addition, Draft, Removal
from memlint.fix.new_expressions import check_f_string, fitted, reindented, substituted
from memlint.fix.notes import notes_of
from memlint.fix.outcome import FixError
from memlint.fix.sequences import Sequence, item_of
from memlint.fix.spans import Tree
from memlint.source import Span
from memlint.source.edits import RemoveKeyword, RenameKeyword, SetKeyword

_OPENING = re.compile(rb"(?:[ \t\f\\\r\n]|#[^\r\n]*+)*+\(")


def call_at(tree: Tree, span: Span) -> cst.Call | cst.ClassDef:
    """Return the call or class definition at ``span``."""
    node = tree.find(span, cst.Call, cst.ClassDef)
    if not isinstance(node, cst.Call | cst.ClassDef):
        raise FixError("there is no call at the place of the fix")
    return node


def arguments(node: cst.Call | cst.ClassDef) -> tuple[cst.Arg, ...]:
    if isinstance(node, cst.Call):
        return tuple(node.args)
    return (*node.bases, *node.keywords)


def argument_sequence(tree: Tree, node: cst.Call | cst.ClassDef) -> Sequence | None:
    """Return the arguments of ``node``; None for a class that is written without parentheses."""
    if isinstance(node, cst.Call):
        match = _OPENING.match(tree.data, tree.outer(node.func).end)
        assert match is not None
        start, end = match.end(), tree.span(node).end - 1
    elif isinstance(node.lpar, cst.LeftParen) and isinstance(node.rpar, cst.RightParen):
        start, end = tree.outer(node.lpar).start + 1, tree.outer(node.rpar).end - 1
    else:
        return None
    items = tuple(item_of(tree, argument) for argument in arguments(node))
    return Sequence(start, end, items)


def opening(tree: Tree, node: cst.Call | cst.ClassDef) -> Span:
    """Return a place outside every argument of ``node``, for what is added to it."""
    if isinstance(node, cst.Call):
        end = tree.outer(node.func).end
    else:
        end = tree.span(node.type_parameters or node.name).end
    return Span(end, end)


def _keyword(node: cst.Call | cst.ClassDef, name: str) -> tuple[int, cst.Arg] | None:
    for index, argument in enumerate(arguments(node)):
        if argument.keyword is not None and argument.keyword.value == name:
            return index, argument
    return None


def _equals(tree: Tree, node: cst.Call | cst.ClassDef) -> str:
    """Return ``=`` as this call writes it: with spaces around it or without."""
    for argument in reversed(arguments(node)):
        if argument.keyword is not None:
            equal = tree.slice(
                Span(tree.span(argument.keyword).end, tree.outer(argument.value).start)
            )
            if equal.strip(" \t") == "=":
                return equal
    return "="


def _may_hold(argument: cst.Arg, name: str) -> bool:
    """True if the ``**`` argument may bring keyword ``name``."""
    if argument.star != "**":
        return False
    if not isinstance(argument.value, cst.Dict):
        return True
    return any(
        not isinstance(element, cst.DictElement)
        or not isinstance(element.key, cst.SimpleString)
        or element.key.evaluated_value == name
        for element in argument.value.elements
    )


def line_indent(tree: Tree, offset: int) -> str:
    """Return the indentation of the line that holds ``offset``."""
    start = tree.line_start(offset)
    line = tree.slice(Span(start, tree.line_end(offset)))
    return line[: len(line) - len(line.lstrip(" \t\f"))]


def replace_value(draft: Draft, node: cst.BaseExpression, source: str) -> None:
    """Put ``source`` where ``node`` and its parentheses stand, behind ``=`` or ``:``."""
    tree = draft.tree
    span = tree.outer(node)
    text = reindented(
        fitted(substituted(source, draft.names), 2),
        line_indent(tree, span.start),
        indent=tree.indent,
        newline=tree.newline,
    )
    check_f_string(tree, node, text)
    if tree.slice(span) != text and b"#" in tree.data[span.start : span.end]:
        refuse_comments(tree, span)
    draft.splice(span, text)
    if tree.slice(span) != text:
        draft.replaced.append(draft.splices[-1])
    draft.regions.append(span)


def refuse_comments(tree: Tree, span: Span) -> None:
    """FixError if a comment would be lost with ``span``."""
    if any(span.contains(place) for _, place in tree.comments()):
        raise FixError("a comment stands in what would be replaced")


def set_keyword(draft: Draft, edit: SetKeyword) -> None:
    tree = draft.tree
    node = call_at(tree, edit.call)
    key = ("argument", node, edit.name)
    found = _keyword(node, edit.name)
    if found is not None:
        _, argument = found
        replace_value(draft, argument.value, edit.source)
        draft.claim(tree.outer(argument.value), *key, payload=edit.source)
        return
    if not edit.beside_unpacking and any(_may_hold(one, edit.name) for one in arguments(node)):
        raise FixError(f"the call unpacks a mapping, which may hold {edit.name!r} already")
    value = fitted(substituted(edit.source, draft.names), 2)
    check_f_string(tree, node, value)
    draft.additions.append(Addition(node, edit.name, f"{edit.name}{_equals(tree, node)}{value}"))
    draft.claim(opening(tree, node), *key, payload=edit.source, exclusive=False)
    draft.regions.append(tree.span(node))


def remove_entry(
    draft: Draft,
    node: cst.Call | cst.ClassDef | cst.Dict,
    sequence: Sequence,
    index: int,
    name: str,
    value: cst.BaseExpression,
    key: tuple[object, ...],
) -> None:
    """Take an item out of the sequence of ``node``, with its comments."""
    tree, item = draft.tree, sequence.items[index]
    notes, places, own = notes_of(tree, sequence, index, name)
    source = tree.slice(tree.outer(value))
    draft.removals.append(Removal(node, index, len(places), notes, source, own))
    draft.claim(item.span, *key, payload="removed")
    draft.regions += [tree.span(node), *places]
    draft.comments += [Span(item.span.start, tree.line_end(item.end)), *places]


def remove_keyword(draft: Draft, edit: RemoveKeyword) -> None:
    node = call_at(draft.tree, edit.call)
    found = _keyword(node, edit.name)
    if found is None:
        raise FixError(f"the call has no keyword {edit.name!r}")
    index, argument = found
    sequence = argument_sequence(draft.tree, node)
    assert sequence is not None
    key = ("argument", node, edit.name)
    remove_entry(draft, node, sequence, index, edit.name, argument.value, key)


def rename_keyword(draft: Draft, edit: RenameKeyword) -> None:
    tree = draft.tree
    node = call_at(tree, edit.call)
    found = _keyword(node, edit.old)
    if found is None or found[1].keyword is None:
        raise FixError(f"the call has no keyword {edit.old!r}")
    if _keyword(node, edit.new) is not None:
        raise FixError(f"the call has a keyword {edit.new!r} already")
    span = tree.span(found[1].keyword)
    draft.splice(span, edit.new)
    draft.rename(span, opening(tree, node), "argument", node, (edit.old, edit.new))
