"""What changes between two versions of the same code: findings, and the memory that runs need."""

from __future__ import annotations

import os
import tarfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from io import BytesIO

from memlint.adopt.commits import git, where_it_left
from memlint.reports.readable import plural
from memlint.reports.style import visible
from memlint.rule.savings import Footprint
from memlint.run.results import FileResult, Rendered
from memlint.source.record import NamedTuple

_GIB = 2**30


class Difference(NamedTuple):
    """What changed in one file; ``before`` and ``after`` are what its run needs, where known."""

    path: str
    new: tuple[Rendered, ...]
    mended: tuple[Rendered, ...]
    before: Footprint | None
    after: Footprint | None

    @property
    def moved(self) -> int:
        """Bytes that the peak rises by."""
        if self.before is None or self.after is None:
            return 0
        return self.after.peak - self.before.peak


def differences(
    before: Mapping[str, FileResult], after: Mapping[str, FileResult]
) -> list[Difference]:
    """Return the files in which anything changed, by their names below the two folders."""
    found = []
    for path in sorted({*before, *after}):
        old, new = before.get(path, FileResult(path)), after.get(path, FileResult(path))
        left = list(old.findings)
        fresh = _unmatched(_unmatched(new.findings, left, exact=True), left, exact=False)
        each = Difference(path, tuple(fresh), tuple(left), old.footprint, new.footprint)
        if each.new or each.mended or abs(each.moved) > _GIB // 20:
            found.append(each)
    return found


def _unmatched(new: Iterable[Rendered], old: list[Rendered], *, exact: bool) -> list[Rendered]:
    """Return the findings that are not among ``old``, from which those found are taken.

    exact: on a line of the same text; else of the same rule anywhere in the file.
    """
    left = []
    for finding in new:
        same = next((each for each in old if _key(each, exact) == _key(finding, exact)), None)
        if same is None:
            left.append(finding)
        else:
            old.remove(same)
    return left


def _key(finding: Rendered, exact: bool) -> tuple[str, str]:
    return finding.code, " ".join(finding.line.split()) if exact else ""


def lines(found: Sequence[Difference], *, markdown: bool) -> Iterator[str]:
    """Yield the differences as text, or as Markdown for a comment on a pull request."""
    if markdown:
        yield "### memlint"
        yield ""
    for each in found:
        if not markdown:
            yield f"{visible(each.path)}{_peaks(each)}"
            for sign, findings in (("+", each.new), ("-", each.mended)):
                yield from (f"  {sign} {_told(finding)}" for finding in findings)
    if markdown and found:
        yield "| file | peak | findings |"
        yield "| --- | --- | --- |"
        for each in found:
            told = [f"**new** {_told(finding)}" for finding in each.new]
            told += [f"~~{_told(finding)}~~" for finding in each.mended]
            cells = (f"`{each.path}`", _peaks(each).removeprefix(": "), "<br>".join(told))
            yield f"| {' | '.join(_cell(cell) for cell in cells)} |"
        yield ""
    new = sum(len(each.new) for each in found)
    mended = sum(len(each.mended) for each in found)
    if not found:
        yield "No finding and no peak changed."
    else:
        yield f"{new} new, {mended} mended, in {plural(len(found), 'file')}."


def _cell(text: str) -> str:
    return visible(text).replace("|", "\\|").replace("`\\|", "`|")


def _told(finding: Rendered) -> str:
    return f"{finding.code} line {finding.start.row}: {visible(finding.message)}"


def _peaks(each: Difference) -> str:
    if each.before is None and each.after is None:
        return ""
    if each.before is None or each.after is None:
        known = each.before or each.after
        assert known is not None
        word = "after" if each.before is None else "before"
        return f": peak {known.peak / _GIB:.1f} GiB {word}"
    sizes = f"{each.before.peak / _GIB:.1f} -> {each.after.peak / _GIB:.1f} GiB"
    return f": peak {sizes} ({each.moved / _GIB:+.1f})"


def check_out(ref: str, folder: str) -> str:
    """Write the files of the commit where this branch left ``ref`` below ``folder``, and return
    the top of the repository here. Raises ``HistoryError``."""
    top = git("rev-parse", "--show-toplevel").rstrip("\n")
    base = where_it_left(ref)
    data = os.fsencode(git("-C", top, "archive", "--format=tar", base))
    with tarfile.open(fileobj=BytesIO(data)) as archive:
        archive.extractall(folder, filter="data")
    # Versions that only an environment names hold for both.
    for name in (".venv", "venv"):
        environment = os.path.join(top, name)
        if os.path.isdir(environment) and not os.path.lexists(os.path.join(folder, name)):
            os.symlink(environment, os.path.join(folder, name))
    return os.path.realpath(top)
