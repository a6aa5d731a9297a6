"""Work on files in several processes; a process that dies costs one file, not the run.

Imported only when there is enough to do: ``concurrent.futures`` alone costs some 18 ms. Interrupts
go to the parent, which stops the others; nothing is written by a worker.
"""

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import chain, islice
from typing import Any, TypeVar

# Large enough that sending costs nothing, small enough that the last ones end together.
_CHUNK = 8
_CHUNKS = 50
_DIED = "could not be checked: the process that did so died (out of memory?)"

Item = TypeVar("Item")
Result = TypeVar("Result")


Work = Callable[[Sequence[Item]], list[Result]]

# What this process does with a chunk, where it is a worker: made once, it keeps what it loads.
_work: list[Work[Any, Any]] = []


def in_processes(
    make: Callable[[], Work[Item, Result]],
    items: Iterable[Item],
    processes: int,
    lost: Callable[[Item, str], Result],
) -> Iterator[Result]:
    """The results of chunks of ``items``, in their order.

    A worker remembers the files of the projects that it sees, and ends after some hundreds.

    make: called in each process, gives what it does with a chunk.
    lost: the result for an item whose process died, with a message that says so.
    """
    remaining = iter(items)
    while first := list(islice(remaining, _CHUNK)):
        yield from _of_pool(make, chain(first, remaining), processes, lost)


def _of_pool(
    make: Callable[[], Work[Item, Result]],
    items: Iterator[Item],
    processes: int,
    lost: Callable[[Item, str], Result],
) -> Iterator[Result]:
    """The results of as many items as workers see before others take their place."""
    others = set(multiprocessing.active_children())
    pool = _executor(processes, make)
    done = False
    try:
        futures = []
        for _ in range(processes * _CHUNKS):
            chunk = list(islice(items, _CHUNK))
            futures.append((chunk, _submitted(pool, chunk)))
            if len(chunk) < _CHUNK:
                break
        for chunk, future in futures:
            try:
                if future is None:
                    raise BrokenProcessPool
                yield from future.result()
            except Exception:  # the process died, or what it found could not be sent
                for item in chunk:
                    yield _alone(make, item, lost)
        done = True
    finally:
        pool.shutdown(wait=done, cancel_futures=True)
        if not done:
            # Whoever is interrupted does not wait for the others, and leaves none behind.
            for worker in set(multiprocessing.active_children()) - others:
                worker.terminate()


def _submitted(pool: ProcessPoolExecutor, chunk: Sequence[Any]) -> Future[list[Any]] | None:
    """None where a process has died already: the pool takes nothing more."""
    try:
        return pool.submit(_run, chunk)
    except BrokenProcessPool:
        return None


def _executor(processes: int, make: Callable[[], Work[Item, Result]]) -> ProcessPoolExecutor:
    # Forking keeps what is imported; elsewhere than on Linux it is not safe.
    forks = sys.platform == "linux" and hasattr(os, "fork")
    context = multiprocessing.get_context("fork" if forks else "spawn")
    return ProcessPoolExecutor(processes, mp_context=context, initializer=_begin, initargs=(make,))


def _begin(make: Callable[[], Work[Item, Result]]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # what the parent does then is the parent's
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    _work[:] = [make()]


def _end_with(parent: int) -> None:
    """End this worker once its parent is gone, killed perhaps: nobody gives it work any more."""
    while os.getppid() == parent:
        time.sleep(0.2)
    os._exit(1)


def _run(chunk: Sequence[Any]) -> list[Any]:
    return _work[0](chunk)


def _alone(
    make: Callable[[], Work[Item, Result]], item: Item, lost: Callable[[Item, str], Result]
) -> Result:
    """The result of one item in a process of its own, which may die of it."""
    with _executor(1, make) as pool:
        try:
            result: Result = pool.submit(_run, [item]).result()[0]
            return result
        except BrokenProcessPool:
            return lost(item, _DIED)
        except Exception as error:
            return lost(item, f"could not be checked ({type(error).__name__}: {error})")
