"""Runs a script and counts its memory, in a process and a folder of its own."""

from __future__ import annotations

import os
from typing import Any

from memlint.memory.lifetimes import Tensor
from memlint.memory.timeline import Phase
from memlint.proof.comparing import run_apart, scratch
from memlint.proof.stand_ins.sample_rows import SHORT
from memlint.run.sampled_columns import sample_columns
from memlint.source.reading import read_source
from memlint.source.record import NamedTuple
from memlint.source.roots import repository_of

NO_LINE = "no line of the script"
_LENGTH = 1024  # tokens of a row where nobody says it


class Traced(NamedTuple):
    """What became of a run. how: it was counted. phases: each with what was alive at its fullest,
    by kind and line. allocated, reserved: the most of torch's allocator; 0 without a GPU."""

    error: str
    how: str = ""
    steps: int = 0
    phases: tuple[Phase, ...] = ()
    assumed: tuple[str, ...] = ()
    log: str = ""
    allocated: int = 0
    reserved: int = 0

    @property
    def peak(self) -> Phase:
        """The fullest phase."""
        return max(self.phases, key=lambda phase: phase.total)

    def to_json(self) -> dict[str, Any]:
        phases = [
            {**phase.to_json(), "largest": [vars(each) for each in phase.tensors]}
            for phase in self.phases
        ]
        peak = phases[self.phases.index(self.peak)] if phases else None
        return {**self._replace(log="")._asdict(), "phases": phases, "peak": peak}


def trace(
    script: str,
    arguments: tuple[str, ...],
    *,
    length: int | None,
    prompt: int | None = None,
    rows: int,
    seconds: float,
    fakes: bool = True,
) -> Traced:
    """Run ``script`` under fakes, or with real tensors. rows, length, prompt: of data under
    fakes, the tokens of a row before truncation, and of a prompt.

    Raises:
        ReadError: the script cannot be read.
    """
    text = read_source(script).text
    absolute = os.path.realpath(script)
    beside = os.path.dirname(absolute)
    order = {
        "script": absolute, "folder": repository_of(beside) or beside, "prompt": prompt or SHORT,
        "working_folder": os.path.realpath(os.getcwd()), "arguments": list(arguments), "text": text,
        "columns": sample_columns(text), "rows": rows, "length": length or _LENGTH, "fakes": fakes,
    }  # fmt: skip
    with scratch("trace") as folder:
        every, error, log = run_apart(
            "memlint.trace.traced_run", order, os.path.join(folder, "run"), seconds
        )
    if not every:
        return Traced(error, log=log)
    values = every[0]
    if not values["error"] and not values["steps"]:
        values["error"] = "the script came to its end and no optimizer took a step"
    phases = tuple(
        Phase(name, tuple(Tensor(*each) for each in parts)) for name, parts in values.pop("phases")
    )
    values.pop("ended")
    values["assumed"] = tuple(values["assumed"])
    return Traced(**values, phases=phases, log=log)
