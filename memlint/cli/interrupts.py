"""The exceptions of a run that is stopped from outside."""

import signal
from types import FrameType
from typing import Any


class Terminated(BaseException):  # click takes a KeyboardInterrupt for its own
    """The process was asked to end: it removes half-written files and exits."""


class Interrupted(Terminated):
    """The user interrupted a command that writes files."""


def end_cleanly() -> None:
    """Have the process end as after an interrupt when it is asked to end: half-written files and
    processes that it started go with it."""

    def end(number: int, frame: FrameType | None) -> Any:
        raise Terminated

    try:
        for name in ("SIGTERM", "SIGHUP"):  # the latter where a terminal closes; not on Windows
            number = getattr(signal, name, signal.SIGTERM)
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, end)
    except ValueError:  # not in the main thread: whoever called handles signals
        return
