"""A recipe as rules see it: settings by the path of their key.

A setting's path is the keys that lead to it, joined by dots: ``optimizer._component_``. What a
program works out later (``${output_dir}``, a tagged value, a value that an override replaces) is
unknown: never a fault and never overwritten.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, TypeVar

from memlint.recipes.document import (
    Document,
    Entry,
    MappingNode,
    Node,
    Scalar,
    merged,
    read_document,
    resolved,
    values,
)
from memlint.recipes.kinds import Kind, Reader, reader_by_keys
from memlint.source import Source, Span
from memlint.source.edits import Edit, RemoveItem, RenameItem, SetItem
from memlint.source.patterns import lazy_pattern
from memlint.source.record import NamedTuple, Record

if TYPE_CHECKING:
    from memlint.recipes.launch import Command

_INTERPOLATED = lazy_pattern(r"\$\{|\{\{")
# How people call checkpoints whose weights are quantized already.
_QUANTIZED = lazy_pattern(
    r"(?i)(?<![a-z])(awq|gptq|aqlm|eetq|hqq|bnb|nvfp4|mxfp4|fp8|int[48]|w[48]a\d+|[248]bit|q[48])(?![a-z])"
)


def is_interpolated(text: str) -> bool:
    """True if another program puts a value in the place of the text, or of a part of it."""
    return _INTERPOLATED.search(text) is not None


def names_quantized(name: object) -> bool:
    """True if a checkpoint's name says that its weights are quantized."""
    return isinstance(name, str) and _QUANTIZED.search(name) is not None


Answer = TypeVar("Answer")


class _Unknown:
    def __repr__(self) -> str:
        return "UNKNOWN"


# The value is there and nobody can tell what it will be.
UNKNOWN: Final = _Unknown()


class Option(NamedTuple):
    """One setting of a recipe.

    path: its keys, joined by dots. given: whether the recipe writes it. value: plain data, or
    UNKNOWN; None where it is not given. span: its key with its value; where it is not given, the
    first key of the mapping that would hold it.
    """

    path: str
    given: bool
    value: object
    span: Span

    @property
    def key(self) -> str:
        return self.path.rpartition(".")[2]

    def is_value(self, *values: object) -> bool:
        """True if the value is definitely one of ``values`` (``True`` and ``1`` differ)."""
        return any(type(self.value) is type(value) and self.value == value for value in values)


class Recipe(Record):
    """A recipe that was read, of a known kind.

    base: the recipe below it, for the flags of a command. complete: what neither says is not
    given; otherwise it is unknown. name, config: what the command calls what it starts, and the
    recipe that it names and that is not at hand. command: the one that the recipe is.
    overridden: paths that every command that is known to run the recipe sets anew. release: that of
    its program; None where the newest one is meant.
    reader: what reads it; None: its program, with classes of its own.
    """

    source: Source
    document: Document
    kind: Kind
    base: Recipe | None = None
    complete: bool = True
    name: str = ""
    config: str = ""
    command: Command | None = None
    overridden: frozenset[str] = frozenset()
    reader: Reader | None = None
    release: str | None = None

    @cached_property
    def _known(self) -> dict[Callable[[Recipe], Any], Any]:
        return {}

    @cached_property
    def _options(self) -> dict[str, Option]:
        """What is asked of a recipe again and again by several rules."""
        return {}

    def once(self, find: Callable[[Recipe], Answer]) -> Answer:
        """What ``find`` answers of the recipe, asked once."""
        if find not in self._known:
            self._known[find] = find(self)
        answer: Answer = self._known[find]
        return answer

    @property
    def is_of_program(self) -> bool:
        """True if what is not at hand is a recipe that torchtune ships: it is named and no path."""
        return bool(self.config) and not self.config.endswith((".yaml", ".yml"))

    @property
    def is_complete(self) -> bool:
        """True if what the recipe does not say is not given."""
        return self.complete or self.base is not None

    def option(self, path: str) -> Option:
        """The setting at ``path``."""
        known = self._options.get(path)
        if known is None:
            known = self._options[path] = self._option(path)
        return known

    def _option(self, path: str) -> Option:
        holder, entry = self._find(path)
        if path in self.overridden:
            span = entry.key.span if entry is not None else self._start(holder)
            return Option(path, True, UNKNOWN, span)
        if entry is None and self.base is not None:
            # Its place is in another file: at none of the command's own settings.
            return self.base.option(path)._replace(span=self.document.root.span)
        if entry is None and not self.is_complete:
            return Option(path, True, UNKNOWN, self._start(holder))
        if entry is None:
            inherited = merged(holder).get(path.rpartition(".")[2]) if holder else None
            value = None if inherited is None else _data(inherited)
            return Option(path, inherited is not None, value, self._start(holder))
        return Option(path, True, _data(entry.value), _extent(entry))

    def component(self, section: str) -> str:
        """The dotted path of torchtune's component of a section; empty where there is none."""
        value = self.option(f"{section}._component_").value
        return value if isinstance(value, str) else ""

    def has(self, path: str) -> bool:
        """True if the recipe writes the setting."""
        return self.option(path).given

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys at the top, in order."""
        return tuple(
            key.value for key, _ in self.document.root.entries if isinstance(key.value, str)
        )

    @property
    def sections(self) -> tuple[str, ...]:
        """The keys at the top that hold others, in this recipe or in the one below it."""
        if self.base is not None:
            return self.keys
        return tuple(
            key.value
            for key, value in self.document.root.entries
            if isinstance(key.value, str) and isinstance(value, MappingNode)
        )

    @property
    def is_off_cuda(self) -> bool:
        """True if the recipe trains on another device than a GPU of CUDA."""
        device = self.option("device").value
        other = isinstance(device, str) and not device.startswith("cuda")
        return other or self.option("use_cpu").is_value(True)

    def holder(self, path: str) -> Span | None:
        """The mapping that holds, or would hold, the setting at ``path``; None where there is none
        in this file, or where the setting's value is unknown."""
        holder, _ = self._find(path)
        return None if holder is None or self.option(path).value is UNKNOWN else holder.span

    def is_written(self, path: str) -> bool:
        """True if the key stands in its own mapping, and is not inherited from another."""
        return self._find(path)[1] is not None

    # -- places ----------------------------------------------------------------------------------

    def _find(self, path: str) -> tuple[MappingNode | None, Entry | None]:
        """The mapping that holds, or would hold, the last key of ``path``, and its entry.

        The mapping is None where a key on the way is missing, or belongs to several places.
        """
        holder: MappingNode | None = self.document.root
        *above, last = path.split(".")
        for key in above:
            entry = holder.entry(key) if holder is not None else None
            node = entry.value if entry is not None else None
            holder = node if isinstance(node, MappingNode) else None
        return holder, holder.entry(last) if holder is not None else None

    def _start(self, holder: MappingNode | None) -> Span:
        mapping = holder if holder is not None and holder.entries else self.document.root
        return mapping.entries[0].key.span if mapping.entries else mapping.span


def read_recipe(
    source: Source, reader_of: Callable[[MappingNode], Reader | None] = reader_by_keys
) -> Recipe | None:
    """The recipe in ``source``; None where it is none. Raises ``DocumentError``.

    reader_of: what reads a file with such a mapping.
    """
    document = read_document(source)
    reader = reader_of(document.root)
    if reader is None or reader.kind is None:
        return None
    return Recipe(source, document, reader.kind, reader=reader)


def _extent(entry: Entry) -> Span:
    """A key with its value on the same line; the key alone where a block follows."""
    value = entry.value
    if getattr(value, "flow", True) and not getattr(value, "block", False):
        return Span(entry.key.span.start, max(entry.key.span.end, value.span.end))
    return entry.key.span


def _data(node: Node) -> object:
    one = resolved(node)
    if isinstance(one, Scalar):
        if one.tagged or (isinstance(one.value, str) and is_interpolated(one.value)):
            return UNKNOWN
        return one.value
    try:
        return values(one)
    except ValueError:
        return UNKNOWN


# -- edits -----------------------------------------------------------------------------------------


def set_key(recipe: Recipe, path: str, source: str) -> tuple[Edit, ...] | None:
    """Edits that give the setting at ``path`` a value, a Python literal.

    None where its mapping is missing or shared, or its value is unknown.
    """
    holder = recipe.holder(path)
    return None if holder is None else (SetItem(holder, path.rpartition(".")[2], source),)


def remove_key(recipe: Recipe, path: str) -> tuple[Edit, ...] | None:
    """Edits that take the setting at ``path`` out; none where it is not written."""
    if not recipe.is_written(path):
        return ()
    holder = recipe.holder(path)
    return None if holder is None else (RemoveItem(holder, path.rpartition(".")[2]),)


def rename_key(recipe: Recipe, path: str, new: str) -> tuple[Edit, ...] | None:
    """Edits that call the last key of ``path`` ``new``; None where it is not written here."""
    holder = recipe.holder(path)
    if holder is None or not recipe.is_written(path):
        return None
    return (RenameItem(holder, path.rpartition(".")[2], new),)
