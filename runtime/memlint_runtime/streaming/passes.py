"""Which modules are in the middle of a forward, so that the outermost one is known; which backward
passes run.

Named hazards, each with a test that breaks without its guard:
- An interrupt (Ctrl-C) ends a forward without its hooks: torch calls them for `Exception` alone. A
  module that begins again while it is open shows that the former pass was cut off.
- Two threads in one model: they would empty each other's buffers. The second is refused.
- A backward that fails ends without its callback. The engine alone holds the record of a backward
  that runs, and lets it go however it ends.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

__all__ = ["Passes"]

# The engine's thread may let a backward go a moment after its caller has the error.
_PATIENCE_S = 0.5


class _Backward:
    """A backward that runs; gone when it has ended. thread: where its first hook ran."""

    def __init__(self, ended: Callable[[], None]) -> None:
        self.thread = threading.current_thread()
        self._ended = ended

    def end(self) -> None:
        self._ended()


class Passes:
    """The modules whose forward runs, the outermost first, and the backward passes that run."""

    def __init__(self) -> None:
        self._open: list[nn.Module] = []
        self._thread: threading.Thread | None = None
        self._backwards: weakref.WeakValueDictionary[int, _Backward] = weakref.WeakValueDictionary()

    def begin(self, module: nn.Module) -> bool:
        """Enter `module`; returns whether a pass begins with it.

        Raises RuntimeError if another thread is in the middle of a pass, forward or backward.
        """
        present = threading.current_thread()
        if self._thread is not None and self._thread is not present and self._thread.is_alive():
            raise _refusal(self._thread)
        deadline = time.monotonic() + _PATIENCE_S
        while len(self._backwards) and time.monotonic() < deadline:
            time.sleep(0.001)
        self.expect_no_backward()
        if self._thread is not present or any(module is other for other in self._open):
            self._open.clear()
        self._thread = present
        self._open.append(module)
        return len(self._open) == 1

    def is_open(self, module: nn.Module) -> bool:
        """True if a forward of `module` runs in this thread."""
        mine = self._thread is threading.current_thread()
        return mine and any(module is other for other in self._open)

    def end(self, module: nn.Module) -> bool:
        """Leave `module`; returns whether the pass ends with it."""
        if self._thread is not threading.current_thread():
            return False
        while self._open and self._open.pop() is not module:
            pass
        if self._open:
            return False
        self._thread = None
        return True

    def expect_no_backward(self) -> None:
        """Raise RuntimeError if a backward runs: in a forward it is another thread's."""
        running = next(iter(self._backwards.values()), None)
        if running is not None:
            raise _refusal(running.thread)

    def enter_backward(self, number: int, ended: Callable[[], None]) -> bool:
        """Note that the backward of this number runs; call `ended` when it and those around it end.

        Returns whether it begins. Raises RuntimeError if another thread is in the middle of a pass.
        """
        if number in self._backwards:
            return False
        present = threading.current_thread()
        others = [self._thread, *(other.thread for other in self._backwards.values())]
        for other in others:
            # Threads of the engine for accelerators are no threads of Python's own making.
            foreign = isinstance(present, threading._DummyThread)
            if other is not None and other is not present and other.is_alive() and not foreign:
                raise _refusal(other)

        def end() -> None:
            self._backwards.pop(number, None)
            # A reentrant checkpoint's backward ends within another.
            if not self._backwards:
                ended()

        backward = _Backward(end)
        self._backwards[number] = backward
        engine: Any = torch.autograd.Variable._execution_engine
        engine.queue_callback(backward.end)
        return True


def _refusal(other: threading.Thread) -> RuntimeError:
    return RuntimeError(
        f"the model's frozen weights are streamed for one thread at a time: {other.name!r} "
        f"computes while {threading.current_thread().name!r} begins. Call the model, and backward, "
        "from one thread, or undo() the streaming"
    )
