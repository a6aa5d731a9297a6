"""Runs a script and its fixed version for some optimizer steps each, and compares what they learn.

Three runs: the script, the script with every trained weight moved by one rounding (which tells how
far rounding alone moves its losses), and the fixed script; same seed, same data order. Each is a
process of its own in a folder of its own (``memlint.proof.overlay``).
"""

from __future__ import annotations

import contextlib
import glob
import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from memlint.proof.overlay import remove_made
from memlint.proof.stand_ins.sample_rows import NOT_SAID
from memlint.run.sampled_columns import kind_of
from memlint.source.bounded import read_regular
from memlint.source.record import NamedTuple

# A fix may move losses by so many times what one rounding of the weights does: sums in another
# order round several times.
_TIMES = 8.0
_LEAST = 1e-6
# Where one rounding moves a script further than this, or it does not repeat itself, nothing can be
# said of what a fix moves.
_UNSTEADY = 0.02
_TRIES = 12  # to learn which columns and files of data a script takes
# What is said of columns that are not there, and of files.
_LACKED = re.compile(
    r"KeyError: |.*[Cc]olumn.* (?:not (?:in|found) |doesn't exist)|.*'DataFrame' "
    r"|TypeError: (?=\w*reward)\w++\(\) missing "
)
_NAMES = re.compile(r"'(?!DataFrame')(\w[^',:]*+)'|column names? (\w+)")
# What is said of values, and the kinds that they had and have.
_MISTAKEN = (
    (r"must be of type `str`|str \(not \"int\"\)|'str' and 'int'", ":int", ":text"),
    (r"dtype Long but expected Float|can't be cast to the desired output type Long",
     ":int", ":float"),
    (r"type Long but found Float|not implemented for 'Float'|got Float instead", ":float", ":int"),
    (r"Target size \(torch.Size\(\[\d+\]\)\) must .*, (\d+)\]", "label:float", r"label:\1"),
)  # fmt: skip
_FILE = re.compile(
    r"FileNotFound.*?((?:(?<=')[^']+|(?<![\w./-])[\w./][^\s'\"]*)"
    r"\.(?:jsonl?(?:\.gz)?|[ct]sv|txt|parquet|bin|npy|pkl|pickle))(?![\w/])"
)
_FOLDER = re.compile(r"FileNotFoundError: \[Errno 2\][^']*+'([^']*+)' ")
_OUT = re.compile(r"(?<=[\"'])(?:(?:\.\./)+|/)([^/\"'\n]{1,100})")
# Errors that no option and no folder mends, and folders that a script asks for to write there.
_OTHERWISE = re.compile(
    r"(?:Import|ModuleNotFound|Syntax|Key|Name)Error|.*(?:unexpected keyword|module .* no attr)"
)
_WRITTEN = re.compile(r"out|save|log|result|cache|run", re.IGNORECASE)
_MOST_BYTES = 10 << 20  # of what a run says of its steps
_OF_LAUNCHERS = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE")
_PATIENCE = 5.0  # seconds: a launcher ends its own processes in them
# A shell makes a folder and removes it once whoever asked is gone, though it be killed: what it
# reads ends then. Runs see within a second that they are alone.
_KEEPER = """\
trap '' INT TERM HUP PIPE
folder=$(mktemp -d "$1") && echo "$folder"
read -r _
[ -d "$folder" ] && for _ in 1 2 3; do sleep 1; rm -rf "$folder"; done
"""


class Job(NamedTuple):
    """What is run. script: its path. folder: its project's. text: the script's. files: the texts of
    others that change, by path. launcher, environment: of a launch command; in the place of its
    script it starts a module of ours. module: the name of a script that is started by it. tiny: the
    rows of each data set, where models and data are replaced by tiny ones; None: they are the
    script's own."""

    script: str
    folder: str
    working_folder: str
    text: str
    arguments: tuple[str, ...] = ()
    files: Mapping[str, str] = {}
    launcher: tuple[str, ...] = (sys.executable, "-m")
    environment: Mapping[str, str] = {}
    module: str = ""
    steps: int = 3
    seed: int = 0
    seconds: float = 600.0
    tiny: Mapping[str, str] | None = None


class Run(NamedTuple):
    """What became of one run; ``error`` is empty where it took its steps or came to its end.

    losses, norms: of each step, norms before clipping by the optimizer's own gradients. seconds: of
    each step. tokens: that enter the model in each, with gradients. host, allocated, reserved: the
    highest bytes, None without a GPU. line: of the script, where the last step was taken. ended:
    when. lacked: files of data that it looked for. Of several processes: losses are their mean,
    host memory and tokens their sum, bytes the fullest's.
    """

    error: str = ""
    steps: int = 0
    line: int = 0
    losses: tuple[float, ...] = ()
    norms: tuple[float, ...] = ()
    seconds: tuple[float, ...] = ()
    tokens: tuple[float, ...] = ()
    host: int = 0
    allocated: int | None = None
    reserved: int | None = None
    processes: int = 1
    ended: float = 0.0
    log: str = ""
    lacked: tuple[str, ...] = ()

    @property
    def step_seconds(self) -> float | None:
        """Seconds of a step, the first left out; None where there is no second."""
        later = sorted(self.seconds[1:])
        return later[len(later) // 2] if later else None


class Verified(NamedTuple):
    """Three runs. noise, moved: how far rounding and the fix move the losses, relative to them.
    predicted: the peaks of ``before`` and ``after`` by the memory model, in bytes."""

    before: Run
    nudged: Run
    after: Run
    noise: float
    moved: float
    predicted: tuple[int, int] | None = None

    @property
    def allowed(self) -> float:
        """How far a fix may move the losses and still be called the same."""
        return max(_TIMES * self.noise, _LEAST)

    @property
    def verdict(self) -> str:
        """Return ``same``, ``moved``, ``stops``, ``repaired`` or ``no answer``: for the status."""
        trains = not self.after.error and any((*self.after.losses, *self.after.norms))
        if self.before.error or not any((*self.before.losses, *self.before.norms)):
            return "repaired" if self.before.error and trains else "no answer"
        if self.after.error or self.after.steps < self.before.steps:
            return "stops"
        if self.moved <= _LEAST:
            return "same"
        if self.noise > _UNSTEADY:
            return "no answer"
        return "same" if self.moved <= self.allowed else "moved"


def verify(before: Job, after: Job) -> Verified:
    """Run ``before``, and ``after``, which is the same but for what is fixed. Leaves nothing
    behind."""
    with scratch("verify") as folder:
        for number in range(_TRIES):
            first = _run(before, os.path.join(folder, f"before-{number}"))
            data = _learned(first, before.tiny)
            third = Run() if data else _run(after, os.path.join(folder, f"after-{number}"))
            data = data or _learned(third, before.tiny)
            if data is None:
                break
            before, after = before._replace(tiny=data), after._replace(tiny=data)
        if first.error and not third.error:  # by chance, it may be
            first = _run(before, os.path.join(folder, "once-more"))
        second = Run() if first.error else _run(before, os.path.join(folder, "again"), nudge=True)
    return Verified(first, second, third, _distance(first, second), _distance(first, third))


@contextlib.contextmanager
def scratch(kind: str) -> Iterator[str]:
    """Yield a new folder for what is run, which nothing leaves behind."""
    pattern = os.path.join(tempfile.gettempdir(), f"memlint-{kind}-XXXXXXXX")
    with subprocess.Popen(
        ["sh", "-c", _KEEPER, "sh", pattern],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True, text=True,
    ) as keeper:  # fmt: skip
        assert keeper.stdout is not None
        folder = keeper.stdout.readline().removesuffix("\n")
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _inside(text: str, files: Iterable[str]) -> str:
    """Return a script's text as if those of its files that lie elsewhere were in the project."""
    tops = {found[0] for name in files if (found := _OUT.match(f"'{name}", 1))}
    return _OUT.sub(lambda found: found[1] if found[0] in tops else found[0], text)


def _learned(run: Run, data: Mapping[str, str] | None) -> Mapping[str, str] | None:
    """Return the made data with what a run stopped for: columns and files, else folders, else
    options and folders that it asked for; None for none."""
    if data is None or (run.losses and not run.error):
        return None
    file, columns = _FILE.match(run.error), _with_lacked(run.error, data["*"])
    lacked = [each for each in run.lacked if os.path.splitext(each)[1]]
    learned = dict.fromkeys((*data, *lacked, *(file.groups() if file else ())), columns)
    if learned == data:
        learned |= dict.fromkeys(_besides(run, data), columns)
    return learned if learned != data else None


def _besides(run: Run, data: Mapping[str, str]) -> list[str]:
    """Return what a run stopped for that is neither a column nor a file, as ``_learned`` says."""
    found = _FOLDER.match(run.error)
    folder = found[1].removesuffix("/") if found else ""
    if folder and folder[-1] not in "/." and f"{folder}/" not in data:
        return [f"{folder}/"]
    if _OTHERWISE.match(run.error):
        return []
    asked = [each for each in run.lacked if not os.path.splitext(each)[1]]
    folders = [f"{each}/" for each in asked if not _WRITTEN.search(each)]
    return [NOT_SAID, *re.findall(r"--\w[\w-]*", run.error), *folders]


def _with_lacked(error: str, columns: str) -> str:
    """Return the columns of data with those that a run stopped for, or of kinds that it says."""
    for said, old, new in _MISTAKEN:
        if found := re.search(said, error):
            return re.sub(old, found.expand(new), columns)
    had = {each.partition(":")[0] for each in columns.split(",")}
    names = _NAMES.findall(re.split(r"\. Current|, dtype| \((?:line|\S+, line) ", error)[0])
    words = [one or other for one, other in names if _LACKED.match(error)]
    return ",".join([columns, *(f"{word}:{kind_of(word)}" for word in words if word not in had)])


def _distance(one: Run, other: Run) -> float:
    """Return the largest relative difference of losses or norms; infinite where one has more."""
    if len(one.losses) != len(other.losses):
        return math.inf
    pairs = list(zip(one.losses, other.losses, strict=True))
    if len(one.norms) == len(other.norms):
        pairs += zip(one.norms, other.norms, strict=True)
    return max((_apart(*pair) for pair in pairs), default=0.0)


def _apart(one: float, other: float) -> float:
    """Return how far two numbers are apart, relative to the larger; two that are none are equal."""
    if math.isfinite(one) and math.isfinite(other):
        return abs(one - other) / max(abs(one), abs(other), 1e-3)
    return 0.0 if repr(one) == repr(other) else math.inf


def _run(job: Job, folder: str, *, nudge: bool = False) -> Run:
    """Run a job in ``folder``, a new one; kill all that it started once it is over."""
    order = {**job._asdict(), "nudge": nudge, "text": _inside(job.text, job.tiny or ())}
    every, error, log = run_apart("memlint.proof.child", order, folder, job.seconds)
    runs = [
        Run(**{name: tuple(v) if isinstance(v, list) else v for name, v in each.items()}, log=log)
        for each in every
    ]
    failed = [(run.ended, run.error) for run in runs if run.error]
    if not runs or len(runs) < runs[0].processes:
        return Run(min(failed, default=(0.0, error))[1], log=log)
    fullest = max(runs, key=lambda run: run.allocated or 0)
    return runs[0]._replace(
        error=min(failed, default=(0.0, ""))[1],  # the first: others fail since it is gone
        steps=min(run.steps for run in runs),
        losses=tuple(
            sum(each) / len(runs) for each in zip(*(run.losses for run in runs), strict=False)
        ),
        tokens=tuple(map(sum, zip(*(run.tokens for run in runs), strict=False))),
        host=sum(run.host for run in runs),
        allocated=fullest.allocated,
        reserved=fullest.reserved,
    )


def run_apart(
    module: str, order: dict[str, Any], folder: str, seconds: float
) -> tuple[list[dict[str, Any]], str, str]:
    """Run ``module`` in a process of its own, or in those of a launcher, in ``folder``, a new one.

    Return what each process wrote, why there is nothing, and the end of what they printed.
    """
    os.makedirs(folder)
    result, log = os.path.join(folder, "result"), os.path.join(folder, "log.txt")
    order = {**order, "result": result, "copy": os.path.realpath(os.path.join(folder, "copy"))}
    path = os.path.join(folder, "job.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump({**order, "owner": os.getpid()}, file)
    outside = {name: value for name, value in os.environ.items() if name not in _OF_LAUNCHERS}
    environment = {**outside, "TMPDIR": folder, "PYTHONHASHSEED": "0",
                   "PYTHONDONTWRITEBYTECODE": "1", **order.get("environment", {})}  # fmt: skip
    launcher = order.get("launcher", (sys.executable, "-m"))
    with open(log, "wb") as out:
        process = subprocess.Popen(
            [*launcher, module, path],
            stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
            start_new_session=True, env=environment,
        )  # fmt: skip
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            return [], f"still running after {seconds:.0f} s (`--timeout`)", _tail(log)
        finally:
            _end(process, folder)
            remove_made(folder)
    try:
        paths = sorted(glob.glob(f"{glob.escape(result)}-*.json"))
        every = [json.loads(read_regular(path, _MOST_BYTES)) for path in paths]
        signalled = f" by signal {-process.returncode}" if process.returncode < 0 else ""
        return every, f"ended{signalled} without a word", _tail(log)
    finally:
        shutil.rmtree(os.path.join(folder, "copy"), ignore_errors=True)


def _end(process: subprocess.Popen[bytes], folder: str) -> None:
    """End a run and its workers, whatever they do. Those of a launcher are groups of their own,
    which each says in ``folder`` as it begins."""
    if process.poll() is None:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_PATIENCE)
    groups = [name.removeprefix("pid-") for name in os.listdir(folder) if name.startswith("pid-")]
    ours = {process.pid, *map(int, groups), *_of_run(folder)}
    for group in (process.pid, *map(int, groups)):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGKILL)
    process.wait()
    for late in _of_run(folder):  # who left the group
        with contextlib.suppress(ProcessLookupError):
            os.kill(late, signal.SIGKILL)
    for number in ours:  # memory that torch shares between processes
        for path in glob.glob(f"/dev/shm/torch_{number}_*"):
            with contextlib.suppress(OSError):
                os.unlink(path)


def _of_run(folder: str) -> Iterator[int]:
    """Yield the processes that have the run's folder for temporary files; only Linux tells."""
    for path in glob.glob("/proc/[0-9]*/environ"):
        with contextlib.suppress(OSError), open(path, "rb") as file:
            if f"TMPDIR={folder}\0".encode() in file.read():
                yield int(path.split("/")[2])


def _tail(path: str, most: int = 2000) -> str:
    """Return the end of what a run printed."""
    with open(path, "rb") as file:
        file.seek(max(0, os.path.getsize(path) - most))
        return file.read().decode("utf-8", "replace")
