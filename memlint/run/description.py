"""One run that a file describes, as ``estimate``, ``--fit`` and ``oom`` take it."""

from collections.abc import Callable, Iterable
from typing import Any

from memlint.rule.findings import Finding
from memlint.source import Source
from memlint.source.record import NamedTuple


class Described(NamedTuple):
    """A run that a file describes.

    path: of the file. row: the line of its command, in the file at ``launched_in``; 0: none decides
    what others do not. said: the command's words. settings: the memory model's, as JSON has them.
    find: what rules of some codes (None: all) find in the file, with fixes that import the runtime
    package or without; None where the file is one of settings.
    """

    path: str
    settings: dict[str, Any]
    source: Source = Source("", "")
    find: Callable[[Iterable[str] | None, bool], list[Finding]] | None = None
    row: int = 0
    launched_in: str = ""
    said: str = ""

    @property
    def script(self) -> str | None:
        """The file in which fixes are made; None for settings, which have none."""
        return self.path if self.find is not None else None

    @property
    def place(self) -> str:
        """Where the run stands: ``train.sh:4``, or the file alone."""
        return f"{self.launched_in}:{self.row}" if self.row else self.path
