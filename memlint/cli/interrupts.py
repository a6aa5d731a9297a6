"""The exceptions of a run that is stopped from outside."""

from __future__ import annotations


class Terminated(BaseException):  # click takes a KeyboardInterrupt for its own
    """The process was asked to end: it removes half-written files and exits."""


class Interrupted(Terminated):
    """The user interrupted a command that writes files."""
