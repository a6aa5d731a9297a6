"""Many files: prefilter, cache and processes between the jobs and the results.

The parent reads each file once, hashes it and looks it up; only files that name what a rule looks
for and that changed since the last run are parsed, over several processes where there is enough to
parse. They get the bytes that were read and begin while the parent still reads.

Cost: on two cores a pool wins from about two megabytes of scripts that must be parsed (some 160
files); below that starting it costs more than it saves.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import Any, TypeVar

from memlint.project.targets import Targets
from memlint.recipes.files import (
    MAX_BYTES,
    is_notebook_of_commands,
    is_recipe_file,
    may_hold_recipe,
)
from memlint.rule import registry as rule_files
from memlint.run.cache import Cache
from memlint.run.engine import Prefilter
from memlint.run.jobs import Job
from memlint.run.results import FileResult, FixResult
from memlint.run.session import CheckWork, Doing, FixWork, Work, failed_fix, is_wanted, not_fixed
from memlint.source.bounded import read_regular
from memlint.source.diagnostics import FileError, ReadError
from memlint.source.reading import Stamp, read_file
from memlint.source.record import NamedTuple

_POOL_BYTES = 1_500_000
# libcst costs some ten times what ast does, but not every file is fixed.
_FIX_WEIGHT = 4

Result = TypeVar("Result")


class Progress(NamedTuple):
    """Called as work goes on: for each file read, with how many are to be parsed, for each done."""

    start: Callable[[int], None] = lambda total: None
    step: Callable[[], None] = lambda: None
    read: Callable[[], None] = lambda: None


def check_jobs(
    jobs: Sequence[Job],
    *,
    show_fixes: bool = False,
    cache: Cache | None = None,
    processes: int | None = None,
    progress: Progress | None = None,
) -> list[FileResult]:
    """The result of every job whose file is a script or may be a recipe, in their order.

    processes: None chooses a number by the work."""
    files = _Files(jobs, cache, show_fixes)
    pending = _Pending(files, processes, 1, progress or Progress())
    results = dict(_done(pending, partial(CheckWork, show_fixes), _lost))
    files.keep(results)
    return [
        files.known[n] if n in files.known else results[n]
        for n in range(len(jobs))
        if n not in files.passed_over
    ]


def fix_jobs(
    jobs: Sequence[Job],
    *,
    cache: Cache | None = None,
    processes: int | None = None,
    progress: Progress | None = None,
) -> Iterator[FixResult]:
    """What fixing the file of every job comes to, in their order; nothing is written."""
    files = _Files(jobs, cache, show_fixes=False, fixing=True)
    pending = _Pending(files, processes, _FIX_WEIGHT, progress or Progress())
    checked: dict[int, FileResult] = {}
    following = 0  # the first job whose result is not given yet
    for index, result in _done(pending, FixWork, _lost_fix):
        yield from _untouched(files, range(following, index))
        following = index + 1
        checked[index] = result.checked
        yield result._replace(stamp=files.stamps[index])
    yield from _untouched(files, range(following, len(jobs)))
    files.keep(checked)


def _done(
    pending: _Pending, make: Callable[[], Doing[Result]], lost: Callable[[Work, str], Result]
) -> Iterator[tuple[int, Result]]:
    """Yield the numbers of jobs with their results, as they are done. make: what does the work, in
    each process. lost: the result for a file whose process died, with a message that says so."""
    if pending.processes > 1:
        from memlint.run.pool import in_processes

        results = in_processes(make, pending, pending.processes, lost)
    else:
        results = make().each(pending)
    for number, result in enumerate(results):
        yield pending.done(number), result


def _untouched(files: _Files, numbers: Iterable[int]) -> Iterator[FixResult]:
    for number in numbers:
        if number not in files.passed_over:
            yield not_fixed(files.known[number])


class _Pending:
    """The files that are to be worked on, the first of them read ahead.

    Other processes begin with what is there as soon as they pay, while this one reads on.
    """

    def __init__(
        self, files: _Files, processes: int | None, weight: int, progress: Progress
    ) -> None:
        self._files = files
        self._progress = progress
        self._work = files.pending(progress.read)
        self._first: list[Work] = []
        expected = size = 0
        for work in self._work:
            self._first.append(work)
            size += len(work.data) * weight
            expected = size * len(files.jobs) // files.taken
            enough = len(self._first) > 16 and usable_processes(expected) > 1
            if (processes or 0) > 1 or (processes is None and enough) or _cores() == 1:
                break
        else:
            expected = size
        self.processes = processes or usable_processes(expected)
        if len(self._first) < 2 and self._is_last():
            self.processes = 1

    def _is_last(self) -> bool:
        """True if nothing follows what was read ahead."""
        following = next(self._work, None)
        if following is not None:
            self._first.append(following)
        return following is None

    def __iter__(self) -> Iterator[Work]:
        """Each file once."""
        if self.processes > 1:
            # What all workers need is imported once, before they are forked.
            import memlint.script.model  # noqa: F401

            # What must be read of libraries that the tables do not know is read once, and rules.
            for work in self._first:
                self._files.resolve(work.job)
            for codes in {work.job.codes for work in self._first}:
                rule_files.import_all(rule_files.load(codes))
        first, self._first = self._first, []
        return chain(first, self._work)

    def done(self, number: int) -> int:
        """Return which job a result is of; called for each with its number."""
        if not number:
            self._progress.start(len(self._files.selected))
        self._progress.step()
        return self._files.selected[number]


class _Files:
    """Which files are known from the last run, which select no rule, and which are to be worked on.

    known: results by the job's number, as they become known. selected: the numbers of the jobs
    that ``pending`` gave out, in their order. passed_over: those of files that are no recipes.
    taken: how many jobs were looked at.
    fixing: a known result with a fix to be applied is no result.
    """

    def __init__(
        self, jobs: Sequence[Job], cache: Cache | None, show_fixes: bool, fixing: bool = False
    ) -> None:
        self.jobs = jobs
        self._cache = cache
        self._show_fixes = show_fixes
        self._fixing = fixing
        self._targets = Targets()
        self._keys: dict[int, str] = {}
        self.known: dict[int, FileResult] = {}
        self.selected: list[int] = []
        self.passed_over: set[int] = set()
        self.stamps: dict[int, Stamp] = {}
        self.taken = 0

    def resolve(self, job: Job) -> None:
        """Find the versions for ``job``."""
        self._targets.key(job.place, job.target)

    def pending(self, on_read: Callable[[], None]) -> Iterator[Work]:
        """The files that are to be worked on; reads every file once."""
        conditions: dict[tuple[Any, ...], bytes] = {}
        filters: dict[frozenset[str], Prefilter] = {}
        for index, job in enumerate(self.jobs):
            self.taken = index + 1
            on_read()
            is_recipe = is_recipe_file(job.path)
            try:
                if is_recipe and not job.named and not is_maybe_recipe(job.path):
                    self.passed_over.add(index)
                    continue
                data, stamp = read_file(job.path)
            except ReadError as error:
                self.known[index] = FileResult(job.path, diagnostics=(error.diagnostic,))
                continue
            if self._cache is not None:
                what = (job.codes, job.by_code, job.named, job.runtime, job.pricing, job.in_tests)
                if what not in conditions:
                    conditions[what] = Cache.conditions(*what)
                if self._is_known(self._cache, index, Cache.key(data, conditions[what])):
                    continue
            prefilter = filters.get(job.codes)
            if prefilter is None:
                prefilter = filters[job.codes] = Prefilter(rule_files.load(job.codes))
            if is_recipe or job.named or job.only or _is_asked(job.path, data, prefilter):
                self.selected.append(index)
                if self._fixing:
                    self.stamps[index] = stamp
                yield Work(job, data)
            else:
                self.known[index] = FileResult(job.path)

    def _is_known(self, cache: Cache, index: int, key: str) -> bool:
        job = self.jobs[index]
        known = cache.get(
            job.place,
            job.path,
            key,
            self._show_fixes,
            partial(self._targets.key, job.place, job.target),
        )
        if known is None:
            self._keys[index] = key
            return False
        if self._fixing and (
            job.only or any(is_wanted(each, job.unsafe_fixes) for each in known.findings)
        ):
            return False
        self.known[index] = known
        return True

    def keep(self, results: dict[int, FileResult]) -> None:
        """Remember what is new for the next run. ``results``: of the selected jobs."""
        if self._cache is None:
            return
        for index, key in self._keys.items():
            job, result = self.jobs[index], results.get(index) or self.known[index]
            # What memlint failed on is not to be remembered.
            failed = any("defect of memlint" in each.message for each in result.diagnostics)
            if job.only is None and not failed:
                target = self._targets.key(job.place, job.target) if index in results else None
                self._cache.put(job.place, key, self._show_fixes, target, result)
        self._cache.save()


def _is_asked(path: str, data: bytes, prefilter: Prefilter) -> bool:
    """True if a script or a notebook may hold what a rule looks for."""
    named = b"memlint:" in data or next(prefilter.asked(data), None) is not None
    return named or is_notebook_of_commands(path, data)


def is_maybe_recipe(path: str) -> bool:
    """True if a YAML or JSON file may be a recipe; most are data or configure something else."""
    try:
        return may_hold_recipe(path, read_regular(path, MAX_BYTES))
    except OSError:
        return False


def usable_processes(parsed_bytes: int) -> int:
    """How many processes pay for this much to parse."""
    return min(_cores(), 8) if parsed_bytes > _POOL_BYTES else 1


def _lost(work: Work, message: str) -> FileResult:
    return FileResult(work.job.path, diagnostics=(FileError(work.job.path, message),))


def _lost_fix(work: Work, message: str) -> FixResult:
    return failed_fix(work.job.path, FileError(work.job.path, message))


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
