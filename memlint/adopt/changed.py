"""What a change touches: the lines that git says were added or changed since a commit."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence

from memlint.project.commits import git, where_it_left
from memlint.run.results import FileResult, Rendered
from memlint.source.record import NamedTuple

_HUNK = re.compile(r"@@ -\d{1,9}(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@")


class Changes(NamedTuple):
    """Lines by file (absolute): ranges of rows, counted from 1; None where the file is new."""

    rows: dict[str, list[range] | None]

    def touches_file(self, path: str) -> bool:
        """True if any line of the file was changed."""
        return os.path.realpath(path) in self.rows

    def touches(self, finding: Rendered) -> bool:
        """True if the finding stands on a changed line.

        The rows of a notebook's cells are not the rows of its file: any change to it counts.
        """
        rows = self.rows.get(os.path.realpath(finding.path), [])
        if rows is None or finding.start.cell is not None:
            return True
        first, last = finding.start.row, max(finding.start.row, finding.end.row)
        return any(first < each.stop and each.start <= last for each in rows)


def changes_since(ref: str) -> Changes:
    """Return what the working tree has changed since it left ``ref``, files git ignores apart.

    Compared is the commit where this branch left ``ref``, as a pull request shows it. Raises
    ``HistoryError``.
    """
    top = git("rev-parse", "--show-toplevel").rstrip("\n")
    base = where_it_left(ref)
    text = git(
        "-C", top, "-c", "core.quotePath=true", "diff", "--unified=0", "--no-color",
        "--find-renames", "--no-ext-diff", "--no-textconv", "--no-relative",
        "--src-prefix=a/", "--dst-prefix=b/", base, "--",
    )  # fmt: skip
    rows: dict[str, list[range] | None] = {
        os.path.realpath(os.path.join(top, name)): ranges for name, ranges in read_patch(text)
    }
    new = git("-C", top, "ls-files", "--others", "--exclude-standard", "-z")
    rows |= {os.path.realpath(os.path.join(top, name)): None for name in new.split("\0") if name}
    return Changes(rows)


def read_patch(text: str) -> Iterable[tuple[str, list[range]]]:
    """Yield each file of a patch without context, with the rows that it adds or changes."""
    name, ranges, skip = "", list[range](), 0
    for line in text.split("\n"):
        if skip and line[:1] in "+-":
            skip -= 1
        elif hunk := _HUNK.match(line):
            removed, start, count = (int(each or 1) for each in hunk.groups())
            # Lines that are only removed go from between ``start`` and the next one.
            first = start if count else start + 1
            ranges.append(range(first, first + count))
            skip = count + removed
        elif line.startswith("+++ "):
            if name:
                yield name, ranges
            name, ranges = _name(line[4:]), []
    if name:
        yield name, ranges


def on_changed_lines(changes: Changes, results: Sequence[FileResult]) -> list[FileResult]:
    """Return ``results`` with the findings on changed lines alone."""
    return [
        result._replace(findings=tuple(filter(changes.touches, result.findings)))
        for result in results
    ]


def _name(text: str) -> str:
    """Return the path of a ``+++`` line; empty for a file that was deleted."""
    text = text.rstrip("\t\r")
    if text.startswith('"'):
        body = text.strip('"').encode("latin-1", "backslashreplace").decode("unicode_escape")
        text = os.fsdecode(body.encode("latin-1"))
    return text.removeprefix("b/") if text != "/dev/null" else ""
