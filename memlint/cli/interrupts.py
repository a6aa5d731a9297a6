"""Runs that are stopped from outside, and what is said before a script runs."""

import re
import signal
from types import FrameType
from typing import Any

import click

from memlint.source.diagnostics import ReadError
from memlint.source.reading import read_source

_PROGRAMS = re.compile(r"\bsubprocess\b|\bos\.(?:system|popen|spawn\w|exec\w|posix_spawn)")


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


def warn_of_programs(script: str) -> None:
    """Say of a script that starts programs where these may write anywhere."""
    from memlint.proof import landlock

    try:
        text = read_source(script).text
    except (ReadError, OSError):
        return  # which is said where it is read
    if not landlock.version() and _PROGRAMS.search(text):
        told = "this system keeps programs that a script starts from no file: see docs/verify.md"
        click.echo(f"warning: {script} starts programs, and {told}", err=True)
