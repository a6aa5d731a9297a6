"""What one fix wants to do to one file, before anything is done.

Every edit of a fix is turned into splices (bytes to replace), insertions into and removals from
comma-separated sequences, and import requests. Each carries claims: which bytes it replaces, which
argument or name it settles. Two fixes go into the same pass only if their claims agree; a fix whose
own claims disagree is refused. Claims are made in terms of the tree as it was read, so the order
in which fixes arrive plays no part.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from memlint.source import Span

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

    import libcst as cst

    from memlint.fix.spans import Tree


@dataclass(frozen=True, slots=True)
class Splice:
    """Bytes ``span`` of the file become ``text``.

    rank: order among insertions at one place. lines: ``text`` is whole lines, indented.
    """

    span: Span
    text: str
    rank: int = 0
    lines: bool = False


@dataclass(frozen=True, slots=True)
class Claim:
    """One thing that a fix settles.

    span: the bytes it replaces or, if not ``exclusive``, the place it adds to.
    key, payload: the same key means the same thing is settled, which two fixes may do only with
    the same payload. nests: the fix itself may do more inside ``span``, other fixes may not.
    """

    span: Span
    key: tuple[Hashable, ...]
    payload: Hashable = None
    exclusive: bool = True
    nests: bool = False

    def conflicts(self, other: Claim, *, same_fix: bool) -> bool:
        if self.key == other.key:
            return self.payload != other.payload
        if same_fix and (self.nests or other.nests):
            return False
        if self.exclusive and other.exclusive:
            return self.span.overlaps(other.span)
        if self.exclusive:
            return _within(other.span, self.span)
        if other.exclusive:
            return _within(self.span, other.span)
        return False


def _within(place: Span, region: Span) -> bool:
    if place.start == place.end:
        return region.start < place.start < region.end
    return region.overlaps(place)


@dataclass(frozen=True, slots=True)
class Addition:
    """``text`` as a new item of the sequence that ``node`` has.

    ``name`` orders what several fixes add. ``last``: behind everything, ``**`` items included.
    """

    node: cst.CSTNode
    name: str
    text: str
    last: bool = False


@dataclass(frozen=True, slots=True)
class Removal:
    """Item ``index`` of the sequence of ``node`` goes."""

    node: cst.CSTNode
    index: int


@dataclass(frozen=True, slots=True)
class NewImport:
    """A line ``from module import clause`` (or ``import module``) at byte ``offset``."""

    offset: int
    indent: str
    module: str
    clause: str | None
    blank_before: bool = False
    blank_after: bool = False


@dataclass(frozen=True, slots=True)
class Unimport:
    """Name ``alias`` leaves import ``statement``, unless it is used and ``unless_used``."""

    statement: cst.ImportFrom
    alias: cst.ImportAlias
    bound: str
    unless_used: bool


@dataclass(frozen=True, slots=True)
class Reimport:
    """Alias number ``index`` of ``statement`` imports ``new_name`` of ``new_module``."""

    statement: cst.ImportFrom
    index: int
    bound: str
    explicit: bool
    new_module: str
    new_name: str


@dataclass(frozen=True, slots=True)
class Wrap:
    """The lines in ``span`` go one level deeper, under ``header``."""

    span: Span
    indent: str
    header: str


@dataclass(frozen=True, slots=True)
class Drop:
    """Statement ``node`` and its lines ``span`` go."""

    node: cst.CSTNode
    span: Span
    indent: str


@dataclass(slots=True)
class Draft:
    """Collects what the edits of one fix do. ``names`` spells imported names as the file does.

    comments: spans whose comments go with what is removed.
    regions: the bytes that the edits name; nothing outside them may change.
    """

    tree: Tree
    names: dict[str, str] = field(default_factory=dict)
    claims: list[Claim] = field(default_factory=list)
    splices: list[Splice] = field(default_factory=list)
    additions: list[Addition] = field(default_factory=list)
    removals: list[Removal] = field(default_factory=list)
    new_imports: list[NewImport] = field(default_factory=list)
    unimports: list[Unimport] = field(default_factory=list)
    reimports: list[Reimport] = field(default_factory=list)
    wraps: list[Wrap] = field(default_factory=list)
    drops: list[Drop] = field(default_factory=list)
    comments: list[Span] = field(default_factory=list)
    regions: list[Span] = field(default_factory=list)

    def claim(
        self,
        span: Span,
        *key: Hashable,
        payload: Hashable = None,
        exclusive: bool = True,
        nests: bool = False,
    ) -> None:
        self.claims.append(Claim(span, key, payload, exclusive, nests))

    def splice(self, span: Span, text: str) -> None:
        if self.tree.slice(span) != text:
            self.splices.append(Splice(span, text))

    def contradicts_itself(self) -> bool:
        """Whether two of the edits cannot both be made."""
        return any(
            claim.conflicts(other, same_fix=True)
            for number, claim in enumerate(self.claims)
            for other in self.claims[:number]
        )

    def conflicts(self, accepted: Iterable[Draft]) -> bool:
        """Whether one of ``accepted`` must not go into the same pass."""
        return any(
            mine.conflicts(theirs, same_fix=False)
            for draft in accepted
            for theirs in draft.claims
            for mine in self.claims
        )
