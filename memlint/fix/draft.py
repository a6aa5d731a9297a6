"""What one fix wants to do to one file, before anything is done.

Every edit of a fix is turned into splices (bytes to replace), insertions into and removals from
comma-separated sequences, and import requests. Each carries claims: which bytes it replaces, which
argument or name it settles. Two fixes go into the same pass only if their claims agree; a fix whose
own claims disagree is refused. Claims are made in terms of the tree as it was read, so the order
in which fixes arrive plays no part.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from memlint.source import Span

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

    import libcst as cst

    from memlint.fix.spans import Tree


# A comment on its way to a line stands between these, which no Python source holds outside of
# strings; what becomes of it is in ``memlint.fix.notes``.
_OPEN, _CLOSE, _ABOVE = "\ue0f0", "\ue0f1", "\ue0f2"
MARK = re.compile(f"{_OPEN}({_ABOVE}?)([^{_OPEN}{_CLOSE}]*){_CLOSE}")


def marked(note: Note) -> str:
    """Return ``note`` as it travels at the end of new text."""
    return f"{_OPEN}{_ABOVE if note.above else ''}{note.text}{_CLOSE}"


def _marks(notes: Iterable[Note], text: str) -> str:
    """``notes`` for the end of ``text``, without those that a moved value brings along in it."""
    lines = [line.rstrip() for line in text.splitlines()]
    return "".join(
        marked(note)
        for note in notes
        if not (note.inside and any(line.endswith(note.text.rstrip()) for line in lines))
    )


def _without_blanks(source: str) -> str:
    return "".join(source.split())


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
        return other.exclusive and _within(self.span, other.span)


def _within(place: Span, region: Span) -> bool:
    if place.start == place.end:
        return region.start < place.start < region.end
    return region.overlaps(place)


@dataclass(frozen=True, slots=True)
class Addition:
    """``text`` as a new item of the sequence that ``node`` has.

    ``name`` orders what several fixes add. ``last``: behind everything, ``**`` items included.
    ``imported``: the sequence is that of an import, which takes nothing's place.
    """

    node: cst.CSTNode
    name: str
    text: str
    last: bool = False
    imported: bool = False


@dataclass(frozen=True, slots=True)
class Removal:
    """Item ``index`` of the sequence of ``node`` goes, with ``above`` lines of comments over it.

    comments: its comments, which follow what takes its place. source: its value as written.
    own: whether the lines above are about it alone.
    """

    node: cst.CSTNode
    index: int
    above: int = 0
    comments: tuple[Note, ...] = ()
    source: str = ""
    own: bool = True


@dataclass(frozen=True, slots=True)
class Note:
    """A comment to be written at the end of a line, or on a line of its own over it.

    inside: it stood inside of the value.
    """

    text: str
    above: bool = False
    inside: bool = False


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
    replaced: the splices that write a new value for an option. inserted: new statements.
    departures: the assignments that go, which an option of a call may take the place of.
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
    replaced: list[Splice] = field(default_factory=list)
    inserted: list[Splice] = field(default_factory=list)
    departures: list[Removal] = field(default_factory=list)

    def claim(
        self,
        span: Span,
        *key: Hashable,
        payload: Hashable = None,
        exclusive: bool = True,
        nests: bool = False,
    ) -> None:
        self.claims.append(Claim(span, key, payload, exclusive, nests))

    def rename(
        self, span: Span, place: Span, kind: str, node: cst.CSTNode, names: tuple[str, str]
    ) -> None:
        """Rename what stands at ``span``: the new name is claimed at ``place``, where it would be
        added. names: the old one and the new one."""
        old, new = names
        self.claim(span, kind, node, old, payload=("renamed", new))
        self.claim(place, kind, node, new, payload=("renamed", old), exclusive=False)
        self.regions.append(span)

    def splice(self, span: Span, text: str) -> None:
        if self.tree.slice(span) != text:
            self.splices.append(Splice(span, text))

    def carry_comments(self) -> list[Removal]:
        """Let the comments of what goes follow what the same edits put in its place; the removals
        whose place nothing takes."""
        left = []
        if self.additions:
            for departure in self.departures:
                self._follow(departure)
        for number, removal in enumerate(self.removals):
            if removal.comments and not self._follow(removal):
                above = removal.above if removal.own else 0
                self.removals[number] = replace(removal, above=above)
                left.append(removal)
        return left

    def _follow(self, removal: Removal) -> bool:
        """Mark the comments of what goes in what takes its place; True if anything does."""
        texts = {at: one.text for at, one in enumerate(self.additions) if not one.imported}
        if texts:
            source = _without_blanks(removal.source)
            fitting = [at for at, text in texts.items() if source in _without_blanks(text)]
            at = fitting[0] if source and fitting else min(texts)
            marks = _marks(removal.comments, texts[at])
            self.additions[at] = replace(self.additions[at], text=texts[at] + marks)
        elif self.replaced or self.inserted:
            old = (self.replaced or self.inserted)[0]
            text = old.text.rstrip("\r\n")
            marks = _marks(removal.comments, text)
            new = replace(old, text=text + marks + old.text[len(text) :])
            self.splices[self.splices.index(old)] = new
            (self.replaced or self.inserted)[0] = new
        else:
            return False
        return True

    def contradicts_itself(self) -> bool:
        """True if two of the edits cannot both be made."""
        return any(
            claim.conflicts(other, same_fix=True)
            for number, claim in enumerate(self.claims)
            for other in self.claims[:number]
        )

    def conflicts(self, accepted: Iterable[Draft]) -> bool:
        """True if one of ``accepted`` must not go into the same pass."""
        return any(
            mine.conflicts(theirs, same_fix=False)
            for draft in accepted
            for theirs in draft.claims
            for mine in self.claims
        )
