"""Items of dict displays: set, remove and rename string keys."""

import libcst as cst

from memlint.fix.draft import Addition, Draft
from memlint.fix.keywords import remove_entry, replace_value
from memlint.fix.new_expressions import check_f_string, fitted, substituted
from memlint.fix.outcome import FixError
from memlint.fix.sequences import Sequence, item_of
from memlint.fix.spans import Tree
from memlint.source import Span
from memlint.source.edits import RemoveItem, RenameItem, SetItem


def _mapping_at(tree: Tree, span: Span) -> cst.Dict:
    node = tree.find(span, cst.Dict)
    if not isinstance(node, cst.Dict):
        raise FixError("there is no dict display at the place of the fix")
    return node


def item_sequence(tree: Tree, node: cst.Dict) -> Sequence:
    items = tuple(
        item_of(tree, one, Span(tree.outer(one).start, tree.outer(one.value).end))
        for one in node.elements
    )
    return Sequence(tree.outer(node.lbrace).start + 1, tree.outer(node.rbrace).end - 1, items)


def _find(node: cst.Dict, key: str) -> tuple[int, cst.DictElement, cst.SimpleString] | None:
    """Return the item that counts for ``key``: the last one of several."""
    for index, element in reversed(list(enumerate(node.elements))):
        if isinstance(element, cst.DictElement) and isinstance(element.key, cst.SimpleString):
            try:
                value = element.key.evaluated_value
            except (SyntaxError, ValueError):
                continue
            if value == key:
                return index, element, element.key
    return None


def _quoted(key: str, like: cst.Dict) -> str:
    quote = '"'
    for element in reversed(like.elements):
        if isinstance(element, cst.DictElement) and isinstance(element.key, cst.SimpleString):
            quote = element.key.quote[0]
            break
    text = repr(key)
    if quote == "'" or "'" in key or '"' in key:
        return text
    return f'"{text[1:-1]}"'


def _colon(tree: Tree, node: cst.Dict) -> str:
    for element in reversed(node.elements):
        if isinstance(element, cst.DictElement):
            colon = tree.slice(Span(tree.outer(element.key).end, tree.outer(element.value).start))
            if colon.strip(" \t") == ":":
                return colon
    return ": "


def set_item(draft: Draft, edit: SetItem) -> None:
    tree = draft.tree
    node = _mapping_at(tree, edit.mapping)
    key = ("item", node, edit.key)
    found = _find(node, edit.key)
    if found is not None:
        index, element, _ = found
        if any(isinstance(one, cst.StarredDictElement) for one in node.elements[index + 1 :]):
            raise FixError(f"a mapping unpacked behind {edit.key!r} may override it")
        replace_value(draft, element.value, edit.source)
        draft.claim(tree.outer(element.value), *key, payload=edit.source)
        return
    value = fitted(substituted(edit.source, draft.names), 2)
    text = f"{_quoted(edit.key, node)}{_colon(tree, node)}{value}"
    check_f_string(tree, node, text)
    place = tree.span(node).start
    draft.additions.append(Addition(node, edit.key, text, last=True))
    draft.claim(Span(place, place), *key, payload=edit.source, exclusive=False)
    draft.regions.append(tree.span(node))


def remove_item(draft: Draft, edit: RemoveItem) -> None:
    tree = draft.tree
    node = _mapping_at(tree, edit.mapping)
    found = _find(node, edit.key)
    if found is None:
        raise FixError(f"the dict has no key {edit.key!r}")
    index, element, _ = found
    key = ("item", node, edit.key)
    sequence = item_sequence(tree, node)
    remove_entry(draft, node, sequence, index, edit.key, element.value, key)


def rename_item(draft: Draft, edit: RenameItem) -> None:
    tree = draft.tree
    node = _mapping_at(tree, edit.mapping)
    found = _find(node, edit.old)
    if found is None:
        raise FixError(f"the dict has no key {edit.old!r}")
    if _find(node, edit.new) is not None:
        raise FixError(f"the dict has a key {edit.new!r} already")
    _, _, key = found
    span = tree.span(key)
    text = _quoted(edit.new, node)
    check_f_string(tree, key, text)
    draft.splice(span, text)
    place = tree.span(node).start
    draft.rename(span, Span(place, place), "item", node, (edit.old, edit.new))
