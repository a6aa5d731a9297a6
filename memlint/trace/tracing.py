"""Traces a script in a process and a folder of its own, which leaves nothing behind."""

from __future__ import annotations

import os
import tempfile
from typing import Any

from memlint.proof.comparing import run_apart, sample_columns
from memlint.source.reading import read_source
from memlint.source.record import NamedTuple
from memlint.source.roots import repository_of

_LENGTH = 1024  # tokens of a row where nobody says it


class Traced(NamedTuple):
    """What became of a traced run. phases: as ``LiveBytes.phases`` tells them."""

    error: str
    steps: int = 0
    phases: tuple[dict[str, Any], ...] = ()
    assumed: tuple[str, ...] = ()
    log: str = ""

    @property
    def peak(self) -> dict[str, Any]:
        """The fullest phase."""
        return max(self.phases, key=lambda phase: phase["total"])


def trace(
    script: str, arguments: tuple[str, ...], *, length: int | None, rows: int, seconds: float
) -> Traced:
    """Run ``script`` under fakes. length: tokens of a row of data, before truncation.

    Raises:
        ReadError: the script cannot be read.
    """
    text = read_source(script).text
    absolute = os.path.realpath(script)
    beside = os.path.dirname(absolute)
    order = {
        "script": absolute, "folder": repository_of(beside) or beside, "text": text,
        "working_folder": os.path.realpath(os.getcwd()), "arguments": list(arguments),
        "columns": sample_columns(text), "rows": rows, "length": length or _LENGTH,
    }  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="memlint-trace-") as scratch:
        values, error, log = run_apart(
            "memlint.trace.traced_run", order, os.path.join(scratch, "run"), seconds
        )
    if not values:
        return Traced(error, log=log)
    assumed = (f"rows of data have {order['length']} tokens before truncation", *values["assumed"])
    why = values["error"]
    if not why and not values["steps"]:
        why = "the script came to its end and no optimizer took a step"
    return Traced(why, values["steps"], tuple(values["phases"]), assumed, log)
