"""What checking one file comes to, as reports show it and the cache keeps it.

Places are rows and columns, source lines and fixes are text: nothing here needs the file again.
Plain named tuples, because making a dataclass costs start-up time and JSON writes tuples as lists.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from memlint.rule.findings import Level
from memlint.rule.savings import Footprint, Saving
from memlint.source import Location
from memlint.source.diagnostics import FileError
from memlint.source.reading import Stamp
from memlint.source.record import NamedTuple

_LEVELS = tuple(Level)  # worst first


class TextEdit(NamedTuple):
    """Put ``content`` where the text from ``start`` to ``end`` stands."""

    start: Location
    end: Location
    content: str


class DiffLine(NamedTuple):
    """A line of a fix's diff: ``sign`` is ``-`` or ``+``, ``row`` counts in that version."""

    sign: str
    row: int
    text: str


class RenderedFix(NamedTuple):
    """A fix as text. Without ``edits`` it is advice.

    requires: the command that installs what the fixed script imports, where the fix adds that.
    """

    message: str
    applicability: str
    edits: tuple[TextEdit, ...] = ()
    diff: tuple[DiffLine, ...] = ()
    requires: str = ""


class Rendered(NamedTuple):
    """A finding as it is shown.

    line: the source line that it begins on. why: a sentence on what the fault costs. url: where to
    read on. Both are the rule's, kept here so that a report from the cache imports no rule.
    saving: what its fix saves, where the memory model can say.
    """

    path: str
    code: str
    name: str
    level: str
    message: str
    start: Location
    end: Location
    line: str
    fix: RenderedFix | None = None
    why: str = ""
    url: str | None = None
    saving: Saving | None = None

    @property
    def counts(self) -> bool:
        """True if it is a finding in the summary's words, not a notice or a hint."""
        return self.fails(Level.WASTE)

    def fails(self, level: str) -> bool:
        """True if it is as bad as ``level`` or worse: what the exit status counts."""
        return _LEVELS.index(self.level) <= _LEVELS.index(level)


class FixResult(NamedTuple):
    """What fixing a file came to. Nothing is written yet.

    checked: what was found in the file as it is.
    after: its bytes once it is fixed; None where nothing is to be written.
    patch: the change as a unified diff.
    fixed: what was fixed, in the order of passes; the first ``first_pass`` of them were found in
        the file as it is, the others followed from a fix.
    left: what the file has once it is fixed.
    refused: findings of ``left`` whose fix could not be applied, with the reason.
    diagnostics: what kept it from being read, checked or fixed.
    stamp: of the file as it was read; None if it was not read from a file.
    withheld: how many fixes were not applied because they are not right for every version, where
        versions are only assumed.
    """

    path: str
    checked: FileResult
    after: bytes | None = None
    patch: str = ""
    fixed: tuple[Rendered, ...] = ()
    first_pass: int = 0
    left: tuple[Rendered, ...] = ()
    refused: tuple[tuple[Rendered, str], ...] = ()
    diagnostics: tuple[FileError, ...] = ()
    stamp: Stamp | None = None
    withheld: int = 0


class FileResult(NamedTuple):
    """All that was found in one file.

    assumed: the libraries that it depends on whose version is only assumed (``trl 1.16.0``).
    naming: what ``--target`` must be given to name the versions that it was checked for, where
        they are assumed or a range.
    relied_on: other files of the project that it depends on, each with a digest of its content,
        which is empty for a file that was looked for in vain.
    footprint: what the script's run needs, where the memory model knows it.
    """

    path: str
    findings: tuple[Rendered, ...] = ()
    diagnostics: tuple[FileError, ...] = ()
    assumed: tuple[str, ...] = ()
    naming: str = ""
    relied_on: tuple[tuple[str, str], ...] = ()
    footprint: Footprint | None = None

    @property
    def told(self) -> Iterator[Rendered]:
        """Yield the findings, and what kept the file from being read as one without a code."""
        yield from self.findings
        for each in self.diagnostics:
            here = Location(each.row or 1, each.column or 1, each.cell)
            yield Rendered(each.path, "", "unreadable", "error", each.message, here, here, "")

    def to_json(self) -> list[Any]:
        """Lists and plain values; the path is the cache's key and left out."""
        return [
            [finding[1:] for finding in self.findings],
            [(d.message, d.row, d.column, d.cell) for d in self.diagnostics],
            self.assumed,
            self.naming,
            self.relied_on,
            self.footprint,
        ]

    @staticmethod
    def from_json(path: str, value: list[Any]) -> FileResult:
        """The inverse of ``to_json``; raises ``TypeError`` or ``ValueError`` on anything else."""
        findings, diagnostics, assumed, naming, relied_on, footprint = value
        return FileResult(
            path,
            tuple(
                Rendered(
                    path, code, name, level, message, Location(*start), Location(*end), line,
                    None if fix is None else _fix(*fix), why, url,
                    None if saving is None else Saving(*saving),
                )
                for code, name, level, message, start, end, line, fix, why, url, saving in findings
            ),
            tuple(FileError(path, *each) for each in diagnostics),
            tuple(map(str, assumed)),
            str(naming),
            tuple((str(path), str(digest)) for path, digest in relied_on),
            None if footprint is None else _footprint(*footprint),
        )  # fmt: skip


def _footprint(*values: Any) -> Footprint:
    footprint = Footprint(*values)
    return footprint._replace(
        assumed=tuple(map(str, footprint.assumed)),
        safe_range=_pair(footprint.safe_range),
        every_range=_pair(footprint.every_range),
        phases=tuple((str(name), int(size)) for name, size in footprint.phases),
    )


def _pair(ends: Any) -> tuple[int, int] | None:
    return None if ends is None else (int(ends[0]), int(ends[1]))


def _fix(
    message: str, applicability: str, edits: list[Any], diff: list[Any], requires: str
) -> RenderedFix:
    return RenderedFix(
        message,
        applicability,
        tuple(TextEdit(Location(*start), Location(*end), text) for start, end, text in edits),
        tuple(DiffLine(*line) for line in diff),
        str(requires),
    )
