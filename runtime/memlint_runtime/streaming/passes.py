"""Which modules are in the middle of a forward, so that the outermost one is known.

Named hazards, each with a test that breaks without its guard:
- An interrupt (Ctrl-C) ends a forward without its hooks: torch calls them for `Exception` alone. A
  module that begins again while it is open shows that the former pass was cut off.
- Two threads in one model: they would empty each other's buffers. The second is refused.
"""

from __future__ import annotations

import threading

from torch import nn

__all__ = ["Passes"]


class Passes:
    """The modules whose forward runs, the outermost first."""

    def __init__(self) -> None:
        self._open: list[nn.Module] = []
        self._thread: threading.Thread | None = None

    def begin(self, module: nn.Module) -> bool:
        """Enter `module`; returns whether a pass begins with it.

        Raises RuntimeError if another thread is in the middle of a pass.
        """
        present = threading.current_thread()
        if self._thread is not None and self._thread is not present and self._thread.is_alive():
            raise RuntimeError(
                f"the model's frozen weights are streamed for one thread at a time: "
                f"{self._thread.name!r} computes while {present.name!r} begins. Call the model "
                "from one thread, or undo() the streaming"
            )
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
