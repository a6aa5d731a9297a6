"""What changes between two versions of the same code: findings, and the memory that runs need."""

from __future__ import annotations

import os
import tarfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from io import BytesIO

from memlint.project.commits import git, where_it_left
from memlint.reports.readable import fit_words, plural
from memlint.reports.style import visible
from memlint.rule.file_rules import BROKEN_FILE
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
    def phases(self) -> dict[str, tuple[int, int]]:
        """Bytes of each phase before and after; empty where they are not known for both."""
        if self.before is None or self.after is None:
            return {}
        old, new = dict(self.before.phases), dict(self.after.phases)
        return {name: (old.get(name, 0), new.get(name, 0)) for name in {**old, **new}}

    @property
    def moved(self) -> bool:
        """True if a phase changes by a twentieth of a GiB, or is known for one side alone."""
        one_known = (self.before is None) != (self.after is None)
        return one_known or any(abs(new - old) > _GIB // 20 for old, new in self.phases.values())


def differences(
    before: Mapping[str, FileResult], after: Mapping[str, FileResult]
) -> list[Difference]:
    """Return the files in which anything changed, by their names below the two folders."""
    found = []
    renamed = _renamed(before, after)
    for path in sorted({*before, *after}.difference(renamed.values())):
        old = before.get(renamed.get(path, path), FileResult(path))
        new = after.get(path, FileResult(path))
        left = list(old.findings)
        fresh = _unmatched(_unmatched(new.findings, left, exact=True), left, exact=False)
        if any(finding.code == BROKEN_FILE.code for finding in fresh):
            left = []  # nothing is mended where nothing can be read
        each = Difference(path, tuple(fresh), tuple(left), old.footprint, new.footprint)
        if each.new or each.mended or each.moved:
            found.append(each)
    return found


def _renamed(before: Mapping[str, FileResult], after: Mapping[str, FileResult]) -> dict[str, str]:
    """Return the old names of files that are new, where most of what is found in them was found in
    a file that is gone."""
    gone = {path: _keys(before[path]) for path in before if path not in after}
    old_names = {}
    for path in sorted(set(after).difference(before)):
        keys = _keys(after[path])
        old = max(gone, key=lambda one: (keys & gone[one]).total(), default="")
        if old and 2 * (keys & gone[old]).total() > max(keys.total(), gone[old].total()):
            old_names[path] = old
            del gone[old]
    return old_names


def _keys(result: FileResult) -> Counter[tuple[str, str]]:
    return Counter(_key(each, True) for each in result.findings)


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


def lines(found: Sequence[Difference], title: str, *, markdown: bool) -> Iterator[str]:
    """Yield the differences as text, or as Markdown for a comment on a pull request. title: what
    is compared."""
    if markdown:
        yield f"### memlint: {title}"
        yield ""
    signs = ("- **new** ", "- mended: ") if markdown else ("  + ", "  - ")
    for each in found:
        yield f"{shown_code(each.path) if markdown else visible(each.path)}{_peaks(each)}"
        yield from [""] * markdown
        if each.moved and each.phases:
            yield f"{'-' if markdown else ' '} GiB by phase: {', '.join(_phases(each))}"
        yield from (f"{signs[0]}{_told(finding)}" for finding in each.new)
        yield from (f"{signs[1]}{_told(finding, 'was ')}" for finding in each.mended)
        yield from [""] * markdown
    new = sum(len(each.new) for each in found)
    mended = sum(len(each.mended) for each in found)
    yield f"{new} new, {mended} mended, in {plural(len(found), 'file')}."


def unchanged(before: Mapping[str, FileResult], after: Mapping[str, FileResult]) -> str:
    """Say what there is on both sides of which nothing changed."""
    count = sum(len(each.findings) for each in after.values())
    peaks = [_peak(each.footprint) for each in after.values() if each.footprint is not None]
    if not count and not peaks and not any(each.footprint for each in before.values()):
        return (
            "Nothing to compare: on neither side is a finding, or one training run whose memory "
            "memlint can estimate."
        )
    peak = f", peak {peaks[0]}" if len(peaks) == len(after) == 1 else ""
    return f"No finding and no peak changed: {plural(count, 'finding')}{peak}."


def shown_code(text: str) -> str:
    """Write a path or a version as Markdown's code."""
    return f"`{visible(text).replace('`', chr(39))}`"


def _told(finding: Rendered, was: str = "") -> str:
    cell = "" if finding.start.cell is None else f"cell {finding.start.cell}, "
    level = "" if finding.counts else f" ({finding.level})"
    return f"{finding.code}{level} {was}{cell}line {finding.start.row}: {visible(finding.message)}"


def _peaks(each: Difference) -> str:
    """Return how the peak moves: what is shown of it adds up."""
    if each.before is None or each.after is None:
        known, when = each.before or each.after, "after" if each.before is None else "before"
        return "" if known is None else f": peak {_peak(known)} {when}, the other is not known"
    before, after = (round(one.peak / _GIB, 1) for one in (each.before, each.after))
    if before == after:
        return f": peak {_peak(each.after)}, as before"
    moved = f"{after - before:+.1f} GiB"
    return f": peak {_peak(each.before)} -> {_peak(each.after)}, {moved}"


def _phases(each: Difference) -> Iterator[str]:
    """Yield what each phase needs: ``load 0.9``, ``loss 2.1 -> 1.4``."""
    for name, pair in each.phases.items():
        yield f"{name} {' -> '.join(dict.fromkeys(f'{size / _GIB:.1f}' for size in pair))}"


def _peak(footprint: Footprint) -> str:
    return f"{footprint.peak / _GIB:.1f} GiB{fit_words(footprint, footprint.peak)}"


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
