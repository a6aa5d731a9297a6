"""Many files: settings, prefilter, cache and processes between the paths and the results.

The parent walks, reads, hashes and looks up; only files that name what a rule looks for and that
changed since the last run are parsed, over several processes where there is enough to parse, which
begin while the parent still reads.

Cost: on two cores a pool wins from about two megabytes of scripts that must be parsed (some 160
files); below that starting it costs more than it saves.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from memlint.project.discover import Found
from memlint.project.ignores import Patterns
from memlint.project.targets import Targets
from memlint.rule import registry as rule_files
from memlint.rule.registry import Choice
from memlint.run.cache import Cache
from memlint.run.engine import Prefilter, check_file
from memlint.run.results import FileResult
from memlint.source.diagnostics import FileError, ReadError
from memlint.source.reading import read_bytes

if TYPE_CHECKING:
    from memlint.project.config import Settings
    from memlint.rule import Rule

_POOL_BYTES = 1_500_000
# Files between two garbage collections.
_COLLECTED = 1000


class Job(NamedTuple):
    """One file to check with the rules of ``codes`` for the versions of ``target``.

    absolute: its path from the root, where it is at hand.
    hints: the codes that are selected by code; only theirs among the hints are fixed.
    """

    path: str
    codes: frozenset[str]
    target: str
    named: bool = False
    unsafe_fixes: bool = False
    absolute: str = ""
    hints: frozenset[str] = frozenset()

    @property
    def place(self) -> str:
        """The path from the root."""
        return self.absolute or os.path.abspath(self.path)


class Progress(NamedTuple):
    """Told as work goes on: how many files are to be parsed, and each one done."""

    start: Callable[[int], None] = lambda total: None
    step: Callable[[], None] = lambda: None


def plan(found: Iterable[Found], choice: Choice) -> list[Job]:
    """A job per file: its configuration's rules, less those ignored for its path."""
    by_settings: dict[
        int, tuple[frozenset[str], frozenset[str], list[tuple[Patterns, tuple[str, ...]]]]
    ] = {}
    jobs = []
    for file in found:
        settings = file.settings
        known = by_settings.get(id(settings))
        if known is None:
            per_file = [(Patterns([glob]), codes) for glob, codes in settings.per_file_ignores]
            hints = rule_files.named(
                settings.select, settings.extend_select, choice.select, choice.extend_select
            )
            known = by_settings[id(settings)] = (chosen_codes(settings, choice), hints, per_file)
        codes, hints, per_file = known
        if per_file:
            relative = os.path.relpath(os.path.abspath(file.path), settings.root or ".")
            relative = relative.replace(os.sep, "/")
            dropped = [code for globs, more in per_file if globs.ignores(relative) for code in more]
            if dropped:
                codes = codes - rule_files.selected(dropped)
        jobs.append(
            Job(
                file.path,
                codes,
                settings.target,
                file.named,
                settings.unsafe_fixes,
                file.absolute,
                hints,
            )
        )
    return jobs


def chosen_codes(settings: Settings, choice: Choice) -> frozenset[str]:
    """The rules that the configuration and then the command line choose."""
    codes = rule_files.selected(settings.select, settings.ignore, settings.extend_select)
    return rule_files.narrowed(codes, choice.select, choice.ignore, choice.extend_select)


def check_jobs(
    jobs: Sequence[Job],
    *,
    render: bool = False,
    cache: Cache | None = None,
    processes: int | None = None,
    progress: Progress | None = None,
) -> list[FileResult]:
    """The result of every job, in their order. ``processes`` of None: as many as pay."""
    progress = progress or Progress()
    sorting = _Sorting(jobs, cache, render)
    pending = sorting.pending()
    # Other processes begin with what is there as soon as they pay, while this one reads on.
    first: list[Job] = []
    first_bytes = 0
    for job, size in pending:
        first.append(job)
        first_bytes += size
        expected = first_bytes * len(jobs) // (sorting.taken or 1)
        if processes is None and len(first) > 16 and usable_processes(expected) > 1:
            first_bytes = expected
            break
    processes = processes or usable_processes(first_bytes)
    if processes > 1 and len(first) > 1:
        # What all workers need is imported once, before they are forked.
        import memlint.api
        import memlint.script  # noqa: F401
        from memlint.run.pool import in_processes

        work = chain(first, (job for job, _ in pending))
        found = in_processes(partial(Checker, render), work, processes, _lost)
    else:
        found = Checker(render).results(first)
    for number, result in enumerate(found):
        if not number:
            progress.start(len(sorting.asked))
        sorting.results[sorting.asked[number]] = result
        progress.step()
    sorting.keep()
    return [sorting.results[index] for index in range(len(jobs))]


class _Sorting:
    """Which jobs are known from the last run, which ask no rule, and which are to be checked.

    results: by the job's number, as they become known. asked: the numbers of the jobs that
    ``pending`` gave out, in their order. taken: how many jobs were looked at.
    """

    def __init__(self, jobs: Sequence[Job], cache: Cache | None, render: bool) -> None:
        self._jobs = jobs
        self._cache = cache
        self._render = render
        self._targets = Targets()
        self._keys: dict[int, str] = {}
        self.results: dict[int, FileResult] = {}
        self.asked: list[int] = []
        self.taken = 0

    def pending(self) -> Iterator[tuple[Job, int]]:
        """Jobs that are to be checked, each with the bytes of its file."""
        conditions: dict[tuple[frozenset[str], bool], bytes] = {}
        filters: dict[frozenset[str], Prefilter] = {}
        for index, job in enumerate(self._jobs):
            self.taken = index + 1
            try:
                data = read_bytes(job.path)
            except ReadError as error:
                self.results[index] = FileResult(job.path, diagnostics=(error.diagnostic,))
                continue
            if self._cache is not None:
                what = (job.codes, job.named)
                if what not in conditions:
                    conditions[what] = Cache.conditions(*what)
                if self._is_known(self._cache, index, Cache.key(data, conditions[what])):
                    continue
            prefilter = filters.get(job.codes)
            if prefilter is None:
                prefilter = filters[job.codes] = Prefilter(rule_files.load(job.codes))
            if job.named or b"memlint:" in data or prefilter.any_asked(data):
                self.asked.append(index)
                yield job, len(data)
            else:
                self.results[index] = FileResult(job.path)

    def _is_known(self, cache: Cache, index: int, key: str) -> bool:
        job = self._jobs[index]
        known = cache.get(
            job.place,
            job.path,
            key,
            self._render,
            partial(self._targets.key, job.place, job.target),
        )
        if known is None:
            self._keys[index] = key
            return False
        self.results[index] = known
        return True

    def keep(self) -> None:
        """Remember what is new for the next run."""
        if self._cache is None:
            return
        asked = set(self.asked)
        for index, key in self._keys.items():
            job, result = self._jobs[index], self.results[index]
            if not _is_defect(result):
                target = self._targets.key(job.place, job.target) if index in asked else None
                self._cache.put(job.place, key, self._render, target, result)
        self._cache.save()


class Checker:
    """Checks file after file in one process, keeping what it loaded for the files before."""

    def __init__(self, render: bool) -> None:
        self._render = render
        self._rules: dict[frozenset[str], tuple[tuple[Rule, ...], Prefilter]] = {}
        self._targets = Targets()

    def __call__(self, jobs: Sequence[Job]) -> list[FileResult]:
        return list(self.results(jobs))

    def results(self, jobs: Iterable[Job]) -> Iterator[FileResult]:
        """One result a job.

        Syntax trees are a great many objects that live for one file, which the cyclic garbage
        collector looks through again and again: it took a quarter of the time. It rests meanwhile
        and is called once in so many files, for what scripts leave behind that was not let go.
        """
        was_on = gc.isenabled()
        gc.disable()
        try:
            for number, job in enumerate(jobs, start=1):
                yield self._result(job)
                if number % _COLLECTED == 0:
                    gc.collect()
        finally:
            if was_on:
                gc.enable()

    def _result(self, job: Job) -> FileResult:
        known = self._rules.get(job.codes)
        if known is None:
            loaded = rule_files.load(job.codes)
            known = self._rules[job.codes] = loaded, Prefilter(loaded)
        rules, prefilter = known
        return check_file(
            job.path,
            None,
            rules,
            partial(self._targets.api, job.place, job.target),
            named=job.named,
            render=self._render,
            unused_suppressions=rule_files.UNUSED_SUPPRESSION in job.codes,
            prefilter=prefilter,
        )


def usable_processes(parsed_bytes: int) -> int:
    """How many processes pay for this much to parse."""
    return min(_cores(), 8) if parsed_bytes > _POOL_BYTES else 1


def _lost(job: Job, message: str) -> FileResult:
    return FileResult(job.path, diagnostics=(FileError(job.path, message),))


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _is_defect(result: FileResult) -> bool:
    """Whether memlint itself failed on this file: not to be remembered."""
    return any("defect of memlint" in each.message for each in result.diagnostics)
