"""How a run that is asked to end says so."""

from __future__ import annotations


class Terminated(BaseException):  # click takes a KeyboardInterrupt for its own
    """The process was asked to end: it removes what it was writing and goes."""


class Interrupted(Terminated):
    """The user interrupted a command that writes files."""
