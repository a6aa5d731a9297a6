"""Edits of recipes: keys set, removed and renamed by splices into the file's own bytes.

What no edit names is copied: comments, order, quotes, anchors, indentation, line ends. The new
text is read again, and its values must be the old ones with the edits made, else it is thrown away.
"""

import ast
import json
import re
from collections.abc import Collection, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any

from memlint.fix.draft import Splice
from memlint.fix.outcome import Applied, FixError, TextEdit
from memlint.fix.splicing import first_of_each_place, planned, spliced
from memlint.recipes.document import (
    Document,
    DocumentError,
    Entry,
    MappingNode,
    Node,
    Scalar,
    SequenceNode,
    nodes_in,
    read_document,
    values,
)
from memlint.source import Source, Span
from memlint.source.edits import Edit, RemoveItem, RenameItem, ReplaceExpression, SetItem

_WRONG = "memlint's fix went wrong and was thrown away, please report this"
# Plain scalars that mean the string they show, in block and in flow.
_BARE = re.compile(r"[A-Za-z_./][\w./-]*")

_COMMENT = re.compile(rb"(?m)(?:^|(?<=\s))#")


class _Recipe:
    def __init__(self, source: Source) -> None:
        self.source = source
        try:
            self.document: Document = read_document(source)
        except DocumentError as error:
            raise FixError(f"the file cannot be rewritten: {error}") from None
        self.newline = "\r\n" if b"\r\n" in source.data else "\n"

    @cached_property
    def capitals(self) -> bool:
        """True if it writes ``True`` and not ``true``."""
        booleans = [
            self.source.slice(node.span)
            for node in self._all
            if isinstance(node, Scalar) and isinstance(node.value, bool) and node.plain
        ]
        words = [text for text in booleans if text.lower() in ("true", "false")]
        return sum(text[:1].isupper() for text in words) * 2 > len(words)

    @cached_property
    def _all(self) -> list[Node]:
        return nodes_in(self.document.root)

    def mapping(self, span: Span) -> MappingNode:
        """Return the mapping at ``span``; raises FixError."""
        root = self.document.root
        if root.span == span:
            return root
        for node in self._all:
            if isinstance(node, MappingNode) and node.span == span:
                return node
        raise FixError("there is no mapping at the place of the fix")

    def entry(self, span: Span, key: str) -> Entry:
        """Return the entry of ``key``; raises FixError."""
        entry = self.mapping(span).entry(key)
        if entry is None:
            raise FixError(f"there is no key {key!r} at the place of the fix")
        return entry

    # -- writing ---------------------------------------------------------------------------------

    def written(self, value: object, *, flow: bool) -> str:
        """Return ``value`` on one line."""
        if self.document.json:
            return json.dumps(value)
        match value:
            case bool():
                text = "true" if value else "false"
                return text.capitalize() if self.capitals else text
            case None:
                return "null"
            case int() | float():
                return _number(value)
            case str():
                return self._string(value)
            case list() | tuple():
                return f"[{', '.join(self.written(one, flow=True) for one in value)}]"
            case dict():
                inner = ", ".join(
                    f"{self._string(str(key))}: {self.written(one, flow=True)}"
                    for key, one in value.items()
                )
                return f"{{{inner}}}"
        raise FixError("the value cannot be written into a recipe")

    def _string(self, value: str) -> str:
        if _BARE.fullmatch(value):
            import yaml

            if yaml.safe_load(value) == value:
                return value
        return json.dumps(value, ensure_ascii=False)

    def entry_text(self, key: str, value: object, indent: str) -> str:
        """Return ``key: value`` of a block mapping; mappings stand below their key."""
        name = self._string(key)
        if isinstance(value, dict) and value:
            below = indent + "  "
            inner = [below + self.entry_text(str(k), one, below) for k, one in value.items()]
            return self.newline.join([f"{name}:", *inner])
        return f"{name}: {self.written(value, flow=False)}"

    # -- edits -----------------------------------------------------------------------------------

    def splices(self, edit: Edit) -> list[Splice]:
        """Return the splices of one edit. Raise FixError if it is impossible."""
        match edit:
            case SetItem(mapping=span, key=key, source=source):
                return [self._set(self.mapping(span), key, _literal(source))]
            case ReplaceExpression(span=span, source=source):
                return [self._replace(self._node(span), _literal(source))]
            case RemoveItem(mapping=span, key=key):
                return [self._remove(self.mapping(span), self.entry(span, key))]
            case RenameItem(mapping=span, old=old, new=new):
                if self.mapping(span).entry(new) is not None:
                    raise FixError(f"the key {new!r} is there already")
                name = self.entry(span, old).key
                return [Splice(name.span, self._quoted_like(name, new))]
        raise FixError("a recipe cannot be changed that way")

    def _node(self, span: Span) -> Node:
        for node in self._all:
            if node.span == span:
                return node
        raise FixError("there is no value at the place of the fix")

    def _quoted_like(self, name: Scalar, text: str) -> str:
        old = self.source.slice(name.span)
        return f"{old[0]}{text}{old[0]}" if old[:1] in ("'", '"') else self._string(text)

    def _set(self, mapping: MappingNode, key: str, value: object) -> Splice:
        entry = mapping.entry(key)
        if entry is not None:
            return self._replace(entry.value, value, entry.key)
        if mapping.anchored:
            raise FixError("other places refer to the mapping")
        if mapping.flow:
            return self._insert_in_flow(mapping, key, value)
        return self._insert_in_block(mapping, key, value)

    def _replace(self, node: Node, value: object, key: Scalar | None = None) -> Splice:
        if getattr(node, "anchored", False):
            raise FixError("other places refer to the value")
        if isinstance(node, MappingNode | SequenceNode) and not node.flow:
            raise FixError("a block stands at the place of the fix")
        if isinstance(node, Scalar) and (node.block or node.tagged):
            raise FixError("a block or a tagged value stands at the place of the fix")
        text = self.written(value, flow=True)
        if node.span.start == node.span.end and key is not None:
            text = f" {text}"  # ``key:`` without a value
            colon = self.source.data.index(b":", key.span.end) + 1
            return Splice(Span(colon, colon), text)
        return Splice(node.span, text)

    def _insert_in_flow(self, mapping: MappingNode, key: str, value: object) -> Splice:
        name = json.dumps(key) if self.document.json else self._string(key)
        item = f"{name}: {self.written(value, flow=True)}"
        if not mapping.entries:
            return Splice(Span(mapping.span.start + 1, mapping.span.start + 1), item)
        after = _neighbour(mapping, key)
        line = self.source.line_starts[self.source.line(after.key.span.start)]
        before = self.source.data[line : after.key.span.start].decode("utf-8", "replace")
        lead = f",{self.newline}{before}" if not before.strip() else ", "
        return Splice(Span(after.value.span.end, after.value.span.end), f"{lead}{item}", rank=1)

    def _insert_in_block(self, mapping: MappingNode, key: str, value: object) -> Splice:
        after = _neighbour(mapping, key)
        data = self.source.data
        first = mapping.entries[0].key.span.start
        line_start = self.source.line_starts[self.source.line(first)]
        indent = " " * len(data[line_start:first].decode("utf-8", "replace"))
        end = after.key.span.start + len(
            data[after.key.span.start : max(after.value.span.end, after.key.span.end)].rstrip()
        )
        if isinstance(after.value, Scalar) and after.value.block:
            header = data[after.value.span.start : after.value.span.start + 3]
            if b"+" in header:
                raise FixError("the text before the new key keeps its line ends")
        line_end = _line_end(data, end)
        text = self.entry_text(key, value, indent)
        return Splice(Span(line_end, line_end), f"{self.newline}{indent}{text}", rank=1)

    def _remove(self, mapping: MappingNode, entry: Entry) -> Splice:
        if any(getattr(node, "anchored", False) for node in nodes_in(entry.value)):
            raise FixError("other places refer to the value")
        if len(mapping.entries) == 1:
            raise FixError("the mapping would be left without a value")
        data = self.source.data
        end = max(entry.value.span.end, entry.key.span.end)
        if mapping.flow:
            return Splice(self._flow_item(mapping, entry), "")
        start = self.source.line_starts[self.source.line(entry.key.span.start)]
        if data[start : entry.key.span.start].strip():
            raise FixError("the key shares its line with another value")
        end = entry.key.span.start + len(data[entry.key.span.start : end].rstrip())
        is_block = isinstance(entry.value, MappingNode | SequenceNode)
        if is_block and _COMMENT.search(data, entry.key.span.end, end):
            raise FixError("comments stand in the value")
        line_end = _line_end(data, end)
        comment = data.find(b"#", end, line_end)
        if comment >= 0:
            return Splice(Span(entry.key.span.start, comment), "")
        following = re.compile(rb"\r\n|\r|\n").match(data, line_end)
        return Splice(Span(start, following.end() if following else line_end), "")

    def _flow_item(self, mapping: MappingNode, entry: Entry) -> Span:
        """Return an item of a flow mapping with the comma and the space that go with it."""
        at = mapping.entries.index(entry)
        if at + 1 < len(mapping.entries):
            return Span(entry.key.span.start, mapping.entries[at + 1].key.span.start)
        return Span(mapping.entries[at - 1].value.span.end, entry.value.span.end)


def apply_recipe_edits(source: Source, fixes: Sequence[Sequence[Edit]]) -> Applied:
    """Carry out each of ``fixes`` on a recipe wholly or not; a second at a place waits."""
    text = source.text
    try:
        recipe = _Recipe(source)
    except FixError as error:
        return Applied(text, refused=dict.fromkeys(range(len(fixes)), str(error)))
    wanted, refused = planned(fixes, recipe.splices)
    taken, accepted = first_of_each_place(wanted)
    try:
        # Reading the text again takes longest: once for all of them, if all is well.
        _checked(recipe, [edit for number in accepted for edit in fixes[number]], taken)
    except FixError:
        for number, splices in list(wanted.items()):
            try:
                _checked(recipe, fixes[number], splices)
            except FixError as error:
                refused[number] = str(error)
                del wanted[number]
        taken, accepted = first_of_each_place(wanted)
    taken.sort(key=lambda one: (one.span, one.rank))
    done = spliced(source.data, taken).decode("utf-8", "surrogatepass")
    changes = tuple(TextEdit(one.span, one.text) for one in taken)
    return Applied(done, tuple(accepted), refused, changes)


def impossible_recipe_edits(source: Source, fixes: Sequence[Sequence[Edit]]) -> Collection[int]:
    """The numbers of the fixes that cannot be made where they stand; nothing is written for it."""
    try:
        return planned(fixes, _Recipe(source).splices)[1].keys()
    except FixError:
        return range(len(fixes))


def _checked(recipe: _Recipe, edits: Sequence[Edit], splices: list[Splice]) -> None:
    """Raises FixError unless the new text says what the edits say, and nothing else."""
    ordered = sorted(splices, key=lambda one: (one.span, one.rank))
    if any(a.span.end > b.span.start for a, b in pairwise(ordered)):
        raise FixError("its edits overlap each other")
    data = spliced(recipe.source.data, ordered)
    changed = Source(recipe.source.path, data.decode("utf-8", "surrogatepass"))
    try:
        after = values(read_document(changed).root)
        expected = _expected(recipe, edits)
    except (DocumentError, ValueError, KeyError) as error:
        raise FixError(f"{_WRONG}: {error}") from None
    if after != expected:
        raise FixError(_WRONG)


def _expected(recipe: _Recipe, edits: Sequence[Edit]) -> Any:
    data = values(recipe.document.root)
    for edit in edits:
        span = edit.span if isinstance(edit, ReplaceExpression) else getattr(edit, "mapping", None)
        assert span is not None
        path = _path(recipe.document.root, span)
        if isinstance(edit, ReplaceExpression):
            around: Any = data
            for step in path[:-1]:
                around = around[step]
            around[path[-1]] = _as_data(_literal(edit.source))
            continue
        inner: Any = data
        for step in path:
            inner = inner[step]
        match edit:
            case SetItem(key=key, source=source):
                inner[key] = _as_data(_literal(source))
            case RemoveItem(key=key):
                del inner[key]
            case RenameItem(old=old, new=new):
                inner[new] = inner.pop(old)
    return data


def _as_data(value: object) -> object:
    """Return ``value`` as a recipe that is read again holds it."""
    match value:
        case tuple() | list():
            return [_as_data(one) for one in value]
        case dict():
            return {str(key): _as_data(one) for key, one in value.items()}
    return value


def _path(root: Node, span: Span) -> list[Any]:
    """Return the keys and positions that lead to the node at ``span``."""
    waiting: list[tuple[Node, list[Any]]] = [(root, [])]
    while waiting:
        node, path = waiting.pop()
        if node.span == span:
            return path
        if isinstance(node, MappingNode):
            waiting += [(value, [*path, key.value]) for key, value in node.entries]
        elif isinstance(node, SequenceNode):
            waiting += [(item, [*path, at]) for at, item in enumerate(node.items)]
    raise FixError("there is no value at the place of the fix")


def _neighbour(mapping: MappingNode, key: str) -> Entry:
    """The entry behind which ``key`` belongs: that of the most alike beginning, else the one that
    it qualifies (``neat_packing`` and ``packing``), else the last."""
    best, most = mapping.entries[-1], 3
    for entry in mapping.entries:
        name = str(entry.key.value)
        if most == 3 and key.endswith(f"_{name}"):
            best = entry
        shared = 0
        for left, right in zip(name.split("_"), key.split("_"), strict=False):
            if left != right:
                break
            shared += len(left) + 1
        if shared > most:
            best, most = entry, shared
    return best


def _line_end(data: bytes, offset: int) -> int:
    found = re.compile(rb"[\r\n]").search(data, offset)
    return found.start() if found else len(data)


def _literal(source: str) -> object:
    """Return the value of an edit's Python expression; a name of torch is its last word."""
    dotted = re.fullmatch(r"torch\.(\w+)", source.strip())
    if dotted:
        return dotted[1]
    try:
        return ast.literal_eval(source)
    except (ValueError, SyntaxError):
        raise FixError("the value cannot be written into a recipe") from None


def _number(value: float) -> str:
    text = repr(value)
    # YAML 1.1 reads ``1e-05`` as a word.
    return re.sub(r"^(-?\d+)e", r"\1.0e", text)
