"""Many files fixed: which have something to fix, and what each comes to.

A file is written by the caller, with what this module says that it becomes; here nothing is. Files
without a fix that is wanted are never parsed with libcst.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from memlint.project.targets import Targets
from memlint.rule import registry as rule_files
from memlint.run.checking import Job, usable_processes
from memlint.run.engine import check_source, shown_violations
from memlint.run.results import FileResult, Shown
from memlint.source.diagnostics import FileError, ReadError
from memlint.source.reading import encode, read_bytes, read_source

if TYPE_CHECKING:
    from memlint.api import Api
    from memlint.rule import Rule
    from memlint.rule.findings import Violation
    from memlint.source import Source

# libcst costs some ten times what ast does: with fixes a pool pays earlier.
_WEIGHT = 10


class Change(NamedTuple):
    """What fixing a file came to.

    before, after: its bytes; equal where nothing is to be written.
    patch: the change as a unified diff.
    fixed: what was fixed, in the order of passes. left: what the file still has.
    refused: findings whose fix could not be applied, with the reason.
    """

    path: str
    before: bytes = b""
    after: bytes = b""
    patch: str = ""
    fixed: tuple[Shown, ...] = ()
    left: tuple[Shown, ...] = ()
    refused: tuple[tuple[Shown, str], ...] = ()
    diagnostics: tuple[FileError, ...] = ()


def is_wanted(finding: Shown, unsafe: bool, hints: frozenset[str]) -> bool:
    """Whether this finding's fix is to be applied. hints: codes whose hints are fixed, too."""
    if finding.fix is None or not (finding.counts or finding.code in hints):
        return False
    kind = finding.fix.applicability
    return kind == "safe" or (unsafe and kind == "unsafe")


def candidates(jobs: Sequence[Job], results: Sequence[FileResult]) -> list[int]:
    """The positions of jobs with a finding whose fix is wanted."""
    return [
        index
        for index, (job, result) in enumerate(zip(jobs, results, strict=True))
        if any(is_wanted(finding, job.unsafe_fixes, job.hints) for finding in result.findings)
    ]


def fix_jobs(jobs: Sequence[Job], processes: int | None = None) -> Iterator[Change]:
    """What fixing the file of every job comes to, in their order."""
    if processes is None:
        import os

        size = sum(os.path.getsize(job.path) for job in jobs if os.path.exists(job.path))
        processes = usable_processes(size * _WEIGHT)
    if processes > 1 and len(jobs) > 1:
        from memlint.run.pool import in_processes

        yield from in_processes(Fixer, jobs, processes, _lost)
        return
    targets = Targets()
    for job in jobs:
        yield fix_file(job, None, targets)


class Fixer:
    """Fixes file after file in one process, keeping what it loaded for the files before."""

    def __init__(self) -> None:
        self._targets = Targets()

    def __call__(self, jobs: Sequence[Job]) -> list[Change]:
        return [fix_file(job, None, self._targets) for job in jobs]


def fix_file(job: Job, data: bytes | None, targets: Targets) -> Change:
    """What fixing ``job``'s file (or ``data``) comes to; never raises for bad input."""
    from memlint.fix import fix_source

    try:
        before = read_bytes(job.path) if data is None else data
        source = read_source(job.path, before)
    except ReadError as error:
        return Change(job.path, diagnostics=(error.diagnostic,))
    check = partial(
        _check, rules=rule_files.load(job.codes), api=targets.api(job.place, job.target)
    )
    try:
        fixed = fix_source(
            source,
            unsafe=job.unsafe_fixes,
            hints=job.hints,
            check=partial(check, unused=rule_files.UNUSED_SUPPRESSION in job.codes),
            reread=partial(_reread, source.path, [source]),
        )
        after = fixed.source.raw
        patch = _patch(source, fixed.source) if after != before else ""
    except SyntaxError:
        # Told by the check that came before; there is nothing to fix in it.
        return Change(job.path, before, before)
    except (RecursionError, MemoryError):
        message = "is nested too deeply to be rewritten"
        return Change(job.path, before, before, diagnostics=(FileError(job.path, message),))
    except Exception as error:
        message = (
            f"could not be fixed ({type(error).__name__}: {error}) and was left as it was. "
            "This is a defect of memlint: please report it with the script"
        )
        return Change(job.path, before, before, diagnostics=(FileError(job.path, message),))
    if fixed.error is not None:
        diagnostics = (FileError(job.path, fixed.error),)
        left = tuple(shown_violations(source, fixed.left))
        return Change(job.path, before, before, left=left, diagnostics=diagnostics)
    reasons = [reason for _, reason in fixed.refused]
    refused = shown_violations(fixed.source, [one for one, _ in fixed.refused])
    return Change(
        job.path,
        before,
        after,
        patch,
        tuple(_fixed_shown(source, fixed.fixed)),
        tuple(shown_violations(fixed.source, fixed.left)),
        tuple(zip(refused, reasons, strict=True)),
    )


def _fixed_shown(source: Source, violations: Sequence[Violation]) -> list[Shown]:
    """Fixed findings. Their places are those of the pass that found them, so that only the first
    pass's are true of ``source``; they are told by message, not by place."""
    from memlint.source import Span

    return shown_violations(
        source, [one._replace(span=Span(0, 0)) for one in violations], render=False
    )


def _check(source: Source, rules: Sequence[Rule], api: Api, unused: bool) -> list[Violation]:
    return check_source(
        source, rules, api, unused_suppressions=unused, on_error=lambda rule, error: None
    )


def _reread(path: str, latest: list[Source], text: str) -> Source:
    """The file as it would be read once its text is ``text``; bytes follow from pass to pass."""
    latest[0] = read_source(path, encode(latest[0], text))
    return latest[0]


def _patch(before: Source, after: Source) -> str:
    from memlint.fix import unified_diff

    if not before.is_notebook:
        return "".join(unified_diff(before.text, after.text, _slashes(before.path)))
    from memlint.source.notebook import cell_texts

    old, new = cell_texts(before, before.text), cell_texts(after, after.text)
    return "".join(
        line
        for number in old
        if old[number] != new.get(number, "")
        for line in unified_diff(
            old[number], new.get(number, ""), f"{_slashes(before.path)}:cell {number}"
        )
    )


def _slashes(path: str) -> str:
    return path.replace("\\", "/").lstrip("/")


def _lost(job: Job, message: str) -> Change:
    return Change(job.path, diagnostics=(FileError(job.path, message),))
