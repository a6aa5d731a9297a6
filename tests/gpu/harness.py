"""Runs GPU steps, each in a process of its own, and writes down what each said.

Why processes: a step that runs out of memory, hangs or corrupts the CUDA context must not take the
others with it, and peak memory must start from zero. They are forked from one that has imported
the libraries, which takes longer than many a step. Steps of `correctness_*.py` come first: a time
is worth nothing before the values are right.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import math
import multiprocessing
import os
import pkgutil
import platform
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

PACKAGE = "tests.gpu"
LONGEST_MINUTES = 9.5
_PREFIXES = ("correctness_", "bench_")
_RUNNING = "running"
_MOST_CRASHES = 2
_FIGURES = 6
_LEAST_SECONDS = 20.0
_PACKAGES = (
    "torch",
    "triton",
    "transformers",
    "trl",
    "accelerate",
    "peft",
    "liger-kernel",
    "cut-cross-entropy",
    "flash-attn",
    "bitsandbytes",
)

Result = dict[str, object]


@dataclass(frozen=True)
class Step:
    """A piece of work of known length: `run` returns what is to be recorded, as JSON values."""

    name: str
    run: Callable[[], Result]
    minutes: float = 2.0


class NotMeasuredError(Exception):
    """A step cannot run here, as a peer is not installed; the message names what is missing."""


class MissedError(AssertionError):
    """A step's figures miss a bar: they are recorded beside the message."""

    def __init__(self, message: str, found: Result) -> None:
        super().__init__(message)
        self.found = found


def require(*modules: str) -> None:
    """Raise NotMeasuredError unless these modules can be imported."""
    for module in modules:
        try:
            importlib.import_module(module)
        except ImportError as error:
            raise NotMeasuredError(f"{module} is not installed ({error})") from None


def step_modules() -> list[str]:
    """Names of the modules with steps, correctness before benchmarks, else by name."""
    package = importlib.import_module(PACKAGE)
    found = [module.name for module in pkgutil.iter_modules(package.__path__)]
    return [
        f"{PACKAGE}.{name}"
        for prefix in _PREFIXES
        for name in sorted(found)
        if name.startswith(prefix)
    ]


def is_correctness(module: str) -> bool:
    """Whether a module's steps show that values are right; the others measure time."""
    return module.rpartition(".")[2].startswith(_PREFIXES[0])


def load_steps(modules: Sequence[str]) -> list[tuple[str, Step]]:
    """`(module, step)` for every step. Raises ValueError for duplicates and overlong steps."""
    steps = [(name, step) for name in modules for step in _steps_of(importlib.import_module(name))]
    names = [step.name for _, step in steps]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"step names are unique, given twice: {', '.join(twice)}")
    for _, step in steps:
        if not 0 < step.minutes <= LONGEST_MINUTES:
            raise ValueError(
                f"{step.name}: minutes is at most {LONGEST_MINUTES}, got {step.minutes}; split it"
            )
    return steps


def _steps_of(module: ModuleType) -> tuple[Step, ...]:
    steps: tuple[Step, ...] = module.STEPS
    return steps


def environment() -> Result:
    """Device, versions and commit, for the head of the results; device None without a GPU."""
    # The processes of the steps are not forked from this one: it may look at the GPU.
    import torch

    versions: dict[str, str | None] = {}
    for package in _PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            versions[package] = None
    return {
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "cuda": torch.version.cuda,
        "python": platform.python_version(),
        "versions": versions,
        "not_installed": [name for name, version in versions.items() if version is None],
        "commit": _commit(),
    }


def _commit() -> str | None:
    command = ["git", "rev-parse", "HEAD"]
    root = Path(__file__).resolve().parents[2]
    try:
        return subprocess.run(
            command, cwd=root, capture_output=True, text=True, check=True
        ).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def run_step(
    module: str,
    step: Step,
    folder: Path,
    of: Result | None = None,
    left: Callable[[], float] = lambda: math.inf,
) -> Result:
    """Run a step in a process of its own, write `folder/<name>.json`, and return what is in it.

    of: the environment; what was recorded in the same one is returned without running, unless it
    failed. A step that took the whole run down twice is failed. left: seconds that the run has; a
    step that they are too few for is not begun.
    """
    path = folder / f"{step.name}.json"
    former: Result = json.loads(path.read_text()) if path.exists() else {}
    crashes = 0
    if of is not None and former.get("environment") == of:
        if former["status"] in ("ok", "not measured"):
            return former
        crashes = int(str(former.get("crashes", 0))) + (former["status"] == _RUNNING)
    started: Result = {"step": step.name, "environment": of, "crashes": crashes}
    if crashes >= _MOST_CRASHES:
        failure = f"the run ended {crashes} times in this step: the machine went, or was stopped"
        return _written(path, {**started, "status": "failed", "error": failure, "seconds": 0.0})
    seconds = min(60 * step.minutes, left())
    if seconds < min(_LEAST_SECONDS, 60 * step.minutes):
        return {**started, "status": "not begun", "error": "no time was left", "seconds": 0.0}
    _written(path, {**started, "status": _RUNNING})
    return _written(path, {**started, **_outcome(module, step, path.with_suffix(""), seconds)})


def _outcome(module: str, step: Step, path: Path, seconds: float) -> Result:
    """What the process left, or how it ended."""
    record, told = path.with_suffix(".child"), path.with_suffix(".told")
    record.unlink(missing_ok=True)
    begin = time.monotonic()
    # A server that forks is started anew where it ended with a run that was interrupted.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([f"{PACKAGE}.imported"])
    process = context.Process(target=_in_child, args=(module, step.name, record, told))
    process.start()
    process.join(seconds)
    if process.is_alive():
        process.kill()
        process.join()
        failure: Result = {"status": "failed", "error": f"took longer than {seconds:.3g} seconds"}
    else:
        end = told.read_text(errors="replace")[-4000:] if told.exists() else ""
        failure = {"status": "failed", "error": f"exit status {process.exitcode}: {end}"}
    found: Result = json.loads(record.read_text()) if record.exists() else failure
    record.unlink(missing_ok=True)
    return {**found, "seconds": round(time.monotonic() - begin, 1)}


def _in_child(module: str, name: str, record: Path, told: Path) -> None:
    """Run a step where the libraries are imported already, what it prints written to a file."""
    file = os.open(told, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for stream in (1, 2):
        os.dup2(file, stream)
    if "torch" in sys.modules and sys.modules["torch"].cuda._is_in_bad_fork():
        # Something that was imported has touched the GPU, which a forked process then cannot.
        command = [sys.executable, "-m", PACKAGE, "--child", module, name, str(record)]
        os.execv(sys.executable, command)
    sys.exit(run_child(module, name, record))


def _written(path: Path, record: Result) -> Result:
    """Write a record whole or not at all."""
    half = path.with_suffix(".half")
    half.write_text(json.dumps(record, indent=1))
    half.replace(path)
    return record


def run_child(module: str, name: str, path: Path) -> int:
    """What the fresh interpreter does: run one step and leave its record."""
    record: Result
    try:
        step = next(
            step for step in _steps_of(importlib.import_module(module)) if step.name == name
        )
        record = {"status": "ok", "result": step.run()}
    except NotMeasuredError as error:
        record = {"status": "not measured", "error": str(error)}
    except MissedError as error:
        record = {"status": "failed", "error": str(error), "result": error.found}
    except Exception:
        record = {"status": "failed", "error": traceback.format_exc()[-4000:]}
    path.write_text(json.dumps(record))
    return 0 if record["status"] != "failed" else 1


def table(records: Sequence[Result]) -> str:
    """A line for each step: how it ended, how long it took, and its first figures."""
    rows = [("step", "ended", "seconds", "figures")]
    for record in records:
        figures = ", ".join(f"{name} {value:g}" for name, value in _numbers(record.get("result")))
        told = (
            figures if record["status"] == "ok" else str(record["error"]).strip().splitlines()[-1]
        )
        rows.append((str(record["step"]), str(record["status"]), f"{record['seconds']}", told))
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    return "\n".join(
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[3]])
        for row in rows
    )


def _numbers(result: object, prefix: str = "") -> list[tuple[str, float]]:
    """Numbers in nested results with their paths, the first `_FIGURES` of them."""
    if isinstance(result, int | float) and not isinstance(result, bool):
        return [(prefix, float(result))]
    items = result.items() if isinstance(result, dict) else ()
    nested = [_numbers(value, f"{prefix}.{name}" if prefix else str(name)) for name, value in items]
    return [pair for found in nested for pair in found][:_FIGURES]


def summarize(record: Result) -> str:
    """One line about a step's record."""
    line = f"{record['status']:>12}  {record['step']}  {record['seconds']} s"
    if record["status"] == "ok":
        return f"{line}  {json.dumps(record['result'])}"
    return f"{line}  {str(record['error']).strip().splitlines()[-1]}"
