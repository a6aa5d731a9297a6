"""Many files: settings, prefilter, cache and processes between the paths and the results.

The parent walks, reads, hashes and looks up; only files that name what a rule looks for and that
changed since the last run are parsed, over several processes where there is enough to parse.

Cost: on two cores a pool wins from about two megabytes of scripts that must be parsed (some 160
files); below that starting it costs more than it saves.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from memlint import rules as rule_files
from memlint.cache import Cache
from memlint.discover import Found
from memlint.engine import Prefilter, check_file
from memlint.findings import Diagnostic
from memlint.ignores import Patterns
from memlint.reading import ReadError, read_bytes
from memlint.results import FileResult
from memlint.rules import Choice
from memlint.targets import Targets

if TYPE_CHECKING:
    from memlint.config import Settings
    from memlint.rule import Rule

_POOL_BYTES = 1_500_000
# Files between two garbage collections.
_COLLECTED = 200


class Job(NamedTuple):
    """One file to check with the rules of ``codes`` for the versions of ``target``."""

    path: str
    codes: frozenset[str]
    target: str
    named: bool = False
    unsafe_fixes: bool = False


class Progress(NamedTuple):
    """Told as work goes on: how many files are to be parsed, and each one done."""

    start: Callable[[int], None] = lambda total: None
    step: Callable[[], None] = lambda: None


def plan(found: Iterable[Found], choice: Choice) -> list[Job]:
    """A job per file: its configuration's rules, less those ignored for its path."""
    by_settings: dict[int, tuple[frozenset[str], list[tuple[Patterns, tuple[str, ...]]]]] = {}
    jobs = []
    for file in found:
        settings = file.settings
        known = by_settings.get(id(settings))
        if known is None:
            per_file = [(Patterns([glob]), codes) for glob, codes in settings.per_file_ignores]
            known = by_settings[id(settings)] = (chosen_codes(settings, choice), per_file)
        codes, per_file = known
        if per_file:
            relative = os.path.relpath(os.path.abspath(file.path), settings.root or ".")
            relative = relative.replace(os.sep, "/")
            dropped = [code for globs, more in per_file if globs.ignores(relative) for code in more]
            if dropped:
                codes = codes - rule_files.selected(dropped)
        jobs.append(Job(file.path, codes, settings.target, file.named, settings.unsafe_fixes))
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
    results: dict[int, FileResult] = {}
    keys: dict[int, str] = {}
    pending: list[tuple[int, Job]] = []
    pending_bytes = 0
    conditions: dict[tuple[frozenset[str], bool], bytes] = {}
    targets = Targets()
    filters: dict[frozenset[str], Prefilter] = {}
    for index, job in enumerate(jobs):
        try:
            data = read_bytes(job.path)
        except ReadError as error:
            results[index] = FileResult(job.path, diagnostics=(error.diagnostic,))
            continue
        if cache is not None:
            what = (job.codes, job.named)
            if what not in conditions:
                conditions[what] = Cache.conditions(*what)
            keys[index] = Cache.key(data, conditions[what])
            known = cache.get(
                os.path.abspath(job.path),
                job.path,
                keys[index],
                render,
                partial(targets.key, job.path, job.target),
            )
            if known is not None:
                results[index] = known
                del keys[index]
                continue
        prefilter = filters.get(job.codes)
        if prefilter is None:
            prefilter = filters[job.codes] = Prefilter(rule_files.load(job.codes))
        if job.named or b"memlint:" in data or prefilter.any_asked(data):
            pending.append((index, job))
            pending_bytes += len(data)
        else:
            results[index] = FileResult(job.path)

    progress = progress or Progress()
    progress.start(len(pending))
    if processes is None:
        processes = usable_processes(pending_bytes)
    work = [job for _, job in pending]
    if processes > 1 and len(work) > 1:
        # What all workers need is imported once, before they are forked.
        import memlint.api
        import memlint.script  # noqa: F401
        from memlint.pool import in_processes

        found = in_processes(partial(Checker, render), work, processes, _lost)
    else:
        found = Checker(render).results(work)
    for (index, _), result in zip(pending, found, strict=True):
        results[index] = result
        progress.step()
    if cache is not None:
        asked = {index for index, _ in pending}
        for index, key in keys.items():
            job = jobs[index]
            if not _is_defect(results[index]):
                target = targets.key(job.path, job.target) if index in asked else None
                cache.put(os.path.abspath(job.path), key, render, target, results[index])
        cache.save()
    return [results[index] for index in range(len(jobs))]


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
        and is called once in so many files, which keeps the peak at some 200 MB.
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
            partial(self._targets.api, job.path, job.target),
            named=job.named,
            render=self._render,
            unused_suppressions=rule_files.UNUSED_SUPPRESSION in job.codes,
            prefilter=prefilter,
        )


def usable_processes(parsed_bytes: int) -> int:
    """How many processes pay for this much to parse."""
    return min(_cores(), 8) if parsed_bytes > _POOL_BYTES else 1


def _lost(job: Job, message: str) -> FileResult:
    return FileResult(job.path, diagnostics=(Diagnostic(job.path, message),))


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _is_defect(result: FileResult) -> bool:
    """Whether memlint itself failed on this file: not to be remembered."""
    return any("defect of memlint" in each.message for each in result.diagnostics)
