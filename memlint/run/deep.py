"""Work on deeply nested scripts: hundreds of ``elif``, an attribute of a thousand names.

Python reads them, and so do we, in a thread with a stack of its own size: the main thread's size is
the system's to choose. Imported only for such a file.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import TypeVar

_STACK_BYTES = 512 << 20  # address space; memory only as far as it is used
_FRAMES = 30_000

Result = TypeVar("Result")


def deeply(work: Callable[[], Result]) -> Result:
    """What ``work`` returns; once more with a larger stack where it is nested too deeply."""
    try:
        return work()
    except RecursionError:
        return with_deep_stack(work)


def with_deep_stack(work: Callable[[], Result]) -> Result:
    """What ``work`` returns or raises. Raises RecursionError where even this stack is too small."""
    results: list[Result] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:
            errors.append(error)

    stack_before, frames_before = threading.stack_size(), sys.getrecursionlimit()
    try:
        threading.stack_size(_STACK_BYTES)
        thread = threading.Thread(target=run, daemon=True)
        sys.setrecursionlimit(max(frames_before, _FRAMES))
        thread.start()
    except (RuntimeError, ValueError, MemoryError):
        sys.setrecursionlimit(frames_before)
        raise RecursionError("no thread with a larger stack could be started") from None
    finally:
        threading.stack_size(stack_before)
    try:
        thread.join()
    finally:
        sys.setrecursionlimit(frames_before)
    if errors:
        raise errors[0]
    return results[0]
