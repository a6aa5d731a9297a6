"""Files checked in several processes; a process that dies costs one diagnostic, not the run.

Imported only when there is enough to parse: ``concurrent.futures`` alone costs some 18 ms.
Interrupts go to the parent, which stops the others; nothing is written by a worker.
"""

from __future__ import annotations

import multiprocessing
import signal
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import TYPE_CHECKING

from memlint.findings import Diagnostic
from memlint.results import FileResult

if TYPE_CHECKING:
    from memlint.checking import Job

# Large enough that sending costs nothing, small enough that the last ones end together.
_CHUNK = 8


def check_in_processes(jobs: Sequence[Job], render: bool, processes: int) -> Iterator[FileResult]:
    """The results in the order of ``jobs``."""
    chunks = [jobs[start : start + _CHUNK] for start in range(0, len(jobs), _CHUNK)]
    pool = _executor(processes)
    try:
        futures = [pool.submit(_check, chunk, render) for chunk in chunks]
        for chunk, future in zip(chunks, futures, strict=True):
            try:
                yield from future.result()
            except BrokenProcessPool:
                for job in chunk:
                    yield _alone(job, render)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _executor(processes: int) -> ProcessPoolExecutor:
    # Forking keeps what is imported; elsewhere than on Linux it is not safe.
    context = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
    return ProcessPoolExecutor(processes, mp_context=context, initializer=_ignore_interrupts)


def _ignore_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _check(jobs: Sequence[Job], render: bool) -> list[FileResult]:
    from memlint.checking import check_serially

    return list(check_serially(jobs, render))


def _alone(job: Job, render: bool) -> FileResult:
    """The result of one file in a process of its own, which may die of it."""
    with _executor(1) as pool:
        future: Future[list[FileResult]] = pool.submit(_check, [job], render)
        try:
            return future.result()[0]
        except BrokenProcessPool:
            message = "could not be checked: the process that did so died (out of memory?)"
            return FileResult(job.path, diagnostics=(Diagnostic(job.path, message),))
