"""YAML and JSON as data with places.

A document is read from the parser's events, in one pass and without recursion. Aliases are kept as
aliases, tags construct nothing, and depth and size are bounded: a file from elsewhere costs no more
than its length. PyYAML is imported when a YAML file is read and not before.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache, cached_property, lru_cache
from typing import TYPE_CHECKING, Any

from memlint.recipes.files import MAX_BYTES
from memlint.source import Source, Span
from memlint.source.diagnostics import FileError
from memlint.source.record import NamedTuple, Record
from memlint.source.text import ByteOffsets

if TYPE_CHECKING:
    import yaml

MAX_DEPTH = 40
_MOST_VALUES = 20_000
# Characters: what is longer is a text, whatever it is made of.
_LONGEST_NUMBER = 400


class Scalar(Record):
    """A leaf. value: as YAML 1.1 reads it; a ``str`` where its tag is none of the plain ones.

    plain: it is written without quotes. anchored: another place may refer to it. tagged: it has an
    explicit tag, so that its value is another program's.
    """

    span: Span
    value: object
    plain: bool = True
    anchored: bool = False
    tagged: bool = False
    block: bool = False


class Alias(Record):
    """``*name``, and the node that it stands for."""

    span: Span
    target: Node


class Entry(NamedTuple):
    """One key of a mapping and its value."""

    key: Scalar
    value: Node


class MappingNode(Record):
    """A mapping. flow: it is written in braces. inherited: what ``<<`` brings in."""

    span: Span
    entries: tuple[Entry, ...]
    flow: bool = False
    anchored: bool = False
    inherited: tuple[tuple[object, Node], ...] = ()

    def entry(self, key: str) -> Entry | None:
        """The entry of ``key`` that counts: the last one, as loaders take it."""
        return self._by_key.get(key)

    @cached_property
    def _by_key(self) -> dict[object, Entry]:
        return {one.key.value: one for one in self.entries}


class SequenceNode(Record):
    """A sequence. flow: it is written in brackets."""

    span: Span
    items: tuple[Node, ...]
    flow: bool = False
    anchored: bool = False


Node = Scalar | Alias | MappingNode | SequenceNode


class Document(Record):
    """The mapping at the top of a file. json: it is JSON, whose keys have quotes."""

    root: MappingNode
    json: bool = False
    duplicates: tuple[Scalar, ...] = ()


class DocumentError(Exception):
    """A file that cannot be read as one mapping; ``diagnostic`` says why."""

    def __init__(self, diagnostic: FileError) -> None:
        super().__init__(diagnostic.message)
        self.diagnostic = diagnostic


def read_document(source: Source) -> Document:
    """The mapping that ``source`` holds; raises ``DocumentError``."""
    return source.once(_read_document)


def _read_document(source: Source) -> Document:
    if len(source.data) > MAX_BYTES:
        size = len(source.data) / 1024
        raise _error(source, f"is {size:,.0f} KiB, more than the {MAX_BYTES >> 10} KiB of a recipe")
    builder = _Builder(source)
    if source.path.endswith(".json"):
        _read_json(source, builder)
    else:
        _read_yaml(source, builder)
    return builder.document(source.path.endswith(".json"))


def values(node: Node, *, depth: int = MAX_DEPTH) -> Any:
    """Plain Python data of a node; merge keys are followed. Aliases are expanded only where that
    stays small: raises ValueError beyond 20,000 values."""
    left = [_MOST_VALUES]

    def plain(one: Node, depth: int) -> Any:
        left[0] -= 1
        if left[0] < 0 or depth <= 0:
            raise ValueError("holds more than a recipe does")
        match one:
            case Alias(target=target):
                return plain(target, depth - 1)
            case MappingNode():
                return {key: plain(value, depth - 1) for key, value in merged(one).items()}
            case SequenceNode(items=items):
                return [plain(item, depth - 1) for item in items]
        return one.value

    return plain(node, depth)


def nodes_in(root: Node) -> list[Node]:
    """Return ``root`` and all nodes below it; aliases are not followed."""
    nodes: list[Node] = [root]
    for node in nodes:  # grows meanwhile
        if isinstance(node, MappingNode):
            nodes += [value for _, value in node.entries]
        elif isinstance(node, SequenceNode):
            nodes += node.items
    return nodes


def merged(mapping: MappingNode) -> dict[object, Node]:
    """The values of a mapping by key, those that ``<<`` brings in included."""
    found = dict(mapping.inherited)
    for key, value in mapping.entries:
        if not _is_merge(key):
            found[key.value] = value
    return found


def _is_merge(key: Scalar) -> bool:
    return key.value == "<<" and key.plain


def _bases(value: Node) -> Iterator[MappingNode]:
    node = resolved(value)
    for one in node.items if isinstance(node, SequenceNode) else (node,):
        base = resolved(one)
        if isinstance(base, MappingNode):
            yield base


def resolved(node: Node) -> Scalar | MappingNode | SequenceNode:
    """The node itself, or what it is an alias of."""
    while isinstance(node, Alias):
        node = node.target
    return node


class _Open:
    """A collection that is not closed yet."""

    __slots__ = ("anchor", "end", "entries", "flow", "items", "key", "keys", "start")

    def __init__(self, start: int, flow: bool, anchor: str | None, mapping: bool) -> None:
        self.start, self.flow, self.anchor = start, flow, anchor
        self.end = start
        self.entries: list[Entry] | None = [] if mapping else None
        self.keys: set[object] = set()
        self.items: list[Node] = []
        self.key: Scalar | None = None


class _Builder:
    """Puts nodes together from a stream of opening, closing and leaves."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._open: list[_Open] = []
        self._anchors: dict[str, Node] = {}
        self._duplicates: list[Scalar] = []
        self._root: Node | None = None
        self._merged = self._nodes = 0
        self.documents = 0

    def open(self, start: int, *, mapping: bool, flow: bool, anchor: str | None = None) -> None:
        if len(self._open) >= MAX_DEPTH:
            raise _error(self._source, f"is nested more than {MAX_DEPTH} levels deep", start)
        self._open.append(_Open(start, flow, anchor, mapping))

    def close(self, end: int) -> None:
        one = self._open.pop()
        # A block collection ends with its last value, not where the next token begins.
        span = Span(one.start, end if one.flow else one.end)
        anchored = one.anchor is not None
        node: Node
        if one.entries is None:
            node = SequenceNode(span, tuple(one.items), one.flow, anchored)
        else:
            inherited = self._inherited(one.entries, one.start)
            node = MappingNode(span, tuple(one.entries), one.flow, anchored, inherited)
        if one.anchor is not None:
            self._anchors[one.anchor] = node
        self.add(node)

    def _inherited(self, entries: list[Entry], start: int) -> tuple[tuple[object, Node], ...]:
        """What ``<<`` brings into a mapping. What it refers to is closed, and merged already."""
        found: dict[object, Node] = {}
        for key, value in entries:
            for base in _bases(value) if _is_merge(key) else ():
                self._merged += 1 + len(base.inherited) + len(base.entries)
                if self._merged > _MOST_VALUES:
                    raise _error(self._source, "merges more keys than a recipe has", start)
                for name, node in merged(base).items():
                    found.setdefault(name, node)
        return tuple(found.items())

    def leaf(self, node: Scalar, anchor: str | None = None) -> None:
        if anchor is not None:
            self._anchors[anchor] = node
        self.add(node)

    def alias(self, span: Span, anchor: str) -> None:
        target = self._anchors.get(anchor)
        if target is None:
            # Of itself, or of nothing: no value of a recipe.
            raise _error(self._source, f"refers to itself or to no anchor (*{anchor})", span.start)
        self.add(Alias(span, target))

    def add(self, node: Node) -> None:
        self._nodes += 1
        if self._nodes > _MOST_VALUES:
            raise _error(self._source, "holds more values than a recipe does", node.span.start)
        if not self._open:
            self.documents += 1
            self._root = node
            return
        around = self._open[-1]
        around.end = max(around.end, node.span.end)
        if around.entries is None:
            around.items.append(node)
        elif around.key is not None:
            around.entries.append(Entry(around.key, node))
            around.key = None
        else:
            around.key = self._key(node, around)

    def _key(self, node: Node, around: _Open) -> Scalar:
        key = node if isinstance(node, Scalar) else resolved(node)
        if not isinstance(key, Scalar):
            return Scalar(node.span, None, plain=False)
        if isinstance(node, Alias):
            return Scalar(node.span, key.value, plain=False)
        if key.value != "<<":
            if key.value in around.keys:
                self._duplicates.append(key)
            around.keys.add(key.value)
        return key

    def document(self, json: bool) -> Document:
        if self.documents > 1:
            raise _error(self._source, "holds several documents")
        if not isinstance(self._root, MappingNode):
            raise _error(self._source, "holds no mapping of keys to values")
        return Document(self._root, json, tuple(self._duplicates))


def _error(source: Source, message: str, offset: int | None = None) -> DocumentError:
    if offset is None:
        return DocumentError(FileError(source.path, message))
    place = source.location(offset)
    return DocumentError(FileError(source.path, message, place.row, place.column))


# -- YAML ------------------------------------------------------------------------------------------


def _read_yaml(source: Source, builder: _Builder) -> None:
    import yaml

    at = ByteOffsets(source.text)
    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    scalar = yaml.ScalarEvent
    try:
        for event in yaml.parse(source.text, Loader=loader):
            if isinstance(event, scalar):
                builder.leaf(_scalar(event, at, source), event.anchor)
                continue
            match event:
                case yaml.AliasEvent():
                    builder.alias(_span(event, at), str(event.anchor))
                case yaml.MappingStartEvent() | yaml.SequenceStartEvent():
                    builder.open(
                        _span(event, at).start,
                        mapping=isinstance(event, yaml.MappingStartEvent),
                        flow=bool(event.flow_style),
                        anchor=event.anchor,
                    )
                case yaml.CollectionEndEvent():
                    builder.close(_span(event, at).end)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        row, column = (mark.line + 1, mark.column + 1) if mark else (None, None)
        message = f"does not parse as YAML: {error.problem or error.context}"
        raise DocumentError(FileError(source.path, message, row, column)) from None
    except yaml.YAMLError as error:
        reason = str(error).splitlines()[0]
        raise _error(source, f"does not parse as YAML: {reason}") from None


def _scalar(event: yaml.ScalarEvent, at: ByteOffsets, source: Source) -> Scalar:
    span, style, tag = _span(event, at), event.style, event.tag
    anchored = event.anchor is not None
    plain = not style
    tagged = tag is not None and tag != "!"
    if anchored or tagged:
        span = _without_properties(source, span)
    value: object = event.value
    if plain and not tagged:
        value = _meaning(event.value)
    return Scalar(span, value, plain, anchored, tagged, style in ("|", ">"))


def _without_properties(source: Source, span: Span) -> Span:
    """Where the value itself begins, behind ``&anchor`` and ``!tag``."""
    properties = re.match(rb"(?:[&!]\S*\s+)*", source.data[span.start : span.end])
    return Span(span.start + (properties.end() if properties else 0), span.end)


@lru_cache(maxsize=8192)
def _meaning(text: str) -> object:
    """What a plain scalar means; the recipes of a folder have the same ones."""
    return _resolver()(text)


@cache
def _resolver() -> _Resolver:
    return _Resolver()


class _Resolver:
    """What a plain scalar means to PyYAML's safe loader."""

    def __init__(self) -> None:
        import yaml
        from yaml.constructor import SafeConstructor
        from yaml.resolver import Resolver

        self._node = yaml.ScalarNode
        self._resolver: Any = Resolver()
        # What a text that is none begins with.
        self._firsts = frozenset(self._resolver.yaml_implicit_resolvers)
        constructor: Any = SafeConstructor()
        self._makers: Mapping[str, Any] = {
            "tag:yaml.org,2002:bool": constructor.construct_yaml_bool,
            "tag:yaml.org,2002:int": constructor.construct_yaml_int,
            "tag:yaml.org,2002:float": constructor.construct_yaml_float,
        }

    def __call__(self, text: str) -> object:
        if text and (text[0] not in self._firsts or len(text) > _LONGEST_NUMBER):
            return text
        tag = self._resolver.resolve(self._node, text, (True, False))
        if tag == "tag:yaml.org,2002:null":
            return None
        maker = self._makers.get(tag)
        if maker is None:
            return text
        try:
            return maker(self._node(tag, text))
        except ValueError:
            return text


def _span(event: Any, at: ByteOffsets) -> Span:
    return at.span(event.start_mark.index, event.end_mark.index)


# -- JSON ------------------------------------------------------------------------------------------

# Compiled when the first JSON file is read: every check imports this module.
_JSON_TOKEN = (
    rb'(?s)(?:(?P<string>"(?:[^"\\]|\\.)*+"?)|(?P<mark>[{}\[\]:,])'
    rb"|(?P<word>-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null|NaN|-?Infinity))"
)


def _read_json(source: Source, builder: _Builder) -> None:
    """Nodes of JSON text. ``json`` says whether it is any; the tokens give the places."""
    import json

    try:
        json.loads(source.text)
    except json.JSONDecodeError as error:
        place = FileError(source.path, f"is broken JSON: {error.msg}", error.lineno, error.colno)
        raise DocumentError(place) from None
    except RecursionError:
        raise _error(source, f"is nested more than {MAX_DEPTH} levels deep") from None
    except ValueError:
        raise _error(source, "cannot be read as JSON") from None
    for token in re.finditer(_JSON_TOKEN, source.data):
        kind = token.lastgroup or "mark"
        text = token[kind]
        span = Span(*token.span(kind))
        if kind != "mark":
            builder.leaf(Scalar(span, json.loads(text), plain=kind == "word"))
        elif text in b"{[":
            builder.open(span.start, mapping=text == b"{", flow=True)
        elif text in b"}]":
            builder.close(span.end)
