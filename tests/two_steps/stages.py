"""Fix a copy of a script's checkout, run it, and compare the losses of two runs.

The libraries are imported once; every run is a fork of this process, so that it begins clean
without paying for the imports again. A text that ran already is not run again.
"""

from __future__ import annotations

import functools
import hashlib
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from memlint.source.reading import read_source
from tests.two_steps.child import run_forked
from tests.two_steps.jobs import Job

ROOT = Path(__file__).parents[2]
TARGET = "trl=1.16,transformers=5.23,torch=2.13"
STAGES: dict[str, tuple[str, ...] | None] = {
    "before": None,
    "safe": (),
    "all": ("--unsafe-fixes",),
}
# Floating-point noise between a safe fix and the script as it was, fp32, two steps.
_SAME = 1e-4
_LARGEST_FILE_BYTES = 2**20
# The repository of scripts that stand below tests/ of this one.
OWN = "memlint/tests"


class Run(NamedTuple):
    """How one text ended. steps: optimizer steps taken; losses: one a step or a backward pass.

    norms: of all gradients, before each step. printed: the numbers that the script itself printed.
    """

    ok: bool
    steps: int
    losses: list[float]
    error: str = ""
    source: str = ""
    deepest: str = ""
    text: str = ""
    norms: Sequence[float] = ()
    printed: Sequence[float] = ()

    @property
    def two_steps(self) -> bool:
        """True if the script took two steps. It may have ended in an error of its own later."""
        return self.steps >= 2


def broken(before: Run, fixed: Run) -> bool:
    """True if a script that ran does not get as far after its fixes."""
    return (before.two_steps and not fixed.two_steps) or (before.ok and not fixed.ok)


class Settings(NamedTuple):
    """checkouts: the folder of OWNER__NAME; cache: where results of runs are kept."""

    checkouts: Path
    cache: Path
    timeout: int


def run_job(job: Job, settings: Settings) -> dict[str, Run]:
    """Every stage of ``job``; a stage that changes nothing has the result of the first."""
    return {name: run_stage(job, fix, settings) for name, fix in STAGES.items()}


def losses_agree(job: Job, runs: dict[str, Run], settings: Settings) -> bool | None:
    """True if safe fixes keep the losses up to noise; None where a run had none.

    Runs in a lower precision differ more: where they do, both are run again in fp32.
    """
    before, safe = runs["before"], runs["safe"]
    if not (before.ok and safe.ok and before.losses and safe.losses):
        return None
    if _close(before.losses, safe.losses):
        return True
    exact = [run_stage(job, fix, settings, fp32=True) for fix in (STAGES["before"], STAGES["safe"])]
    return _close(*(run.losses for run in exact))


def _close(one: Sequence[float], other: Sequence[float]) -> bool:
    return len(one) == len(other) and all(
        math.isclose(a, b, rel_tol=_SAME, abs_tol=_SAME) for a, b in zip(one, other, strict=True)
    )


def run_stage(
    job: Job, fix: tuple[str, ...] | None, settings: Settings, *, fp32: bool = False
) -> Run:
    """Fix a copy of ``job`` with these options of ``memlint fix`` (None: not at all) and run it."""
    with tempfile.TemporaryDirectory(prefix="two-steps-") as scratch:
        copy = Path(scratch).resolve() / "checkout"
        _write(job, copy, settings)
        script = copy / job.script
        if fix is not None:
            problem = _fix(script, fix, copy)
            if problem:
                return Run(False, 0, [], problem)
        source = read_source(script)
        kept = settings.cache / (_key(job, source.text, fp32) + ".json")
        if kept.is_file():
            return Run(**json.loads(kept.read_text(encoding="utf-8")))
        if script.suffix == ".ipynb":
            script = script.with_suffix(".cells.py")
            script.write_text(source.text, encoding="utf-8")
        result = _run(job, script, copy, settings.timeout, fp32)
        if "still running" not in result.error:
            settings.cache.mkdir(parents=True, exist_ok=True)
            kept.write_text(json.dumps(result._asdict()), encoding="utf-8")
        return result


def fixed_text(job: Job, fix: tuple[str, ...]) -> str:
    """What these options of ``memlint fix`` make of a job with a text of its own."""
    with tempfile.TemporaryDirectory(prefix="two-steps-") as scratch:
        folder = Path(scratch).resolve() / "checkout"
        _write_own(job, folder)
        script = folder / job.script
        problem = _fix(script, ("--select", job.select, *fix), folder)
        if problem:
            raise ValueError(problem)
        return script.read_text(encoding="utf-8")


def _write(job: Job, to: Path, settings: Settings) -> None:
    if not job.text:
        _copy(_checkout(job, settings), to, job.script)
    _write_own(job, to)


def _write_own(job: Job, to: Path) -> None:
    if job.text:
        to.mkdir()
        (to / job.script).write_text(job.text, encoding="utf-8")
    for name, content in job.files.items():
        path = to / job.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")


def _checkout(job: Job, settings: Settings) -> Path:
    if job.repository == OWN:
        return ROOT / "tests"
    return settings.checkouts / job.repository.replace("/", "__")


def _copy(checkout: Path, to: Path, script: str) -> None:
    def skipped(folder: str, names: list[str]) -> list[str]:
        return [
            name
            for name in names
            if name == ".git"
            or _bytes(Path(folder, name)) > _LARGEST_FILE_BYTES
            or (name.endswith(".ipynb") and Path(folder, name) != checkout / script)
        ]

    shutil.copytree(checkout, to, ignore=skipped, ignore_dangling_symlinks=True)


def _bytes(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0


def _fix(script: Path, options: Sequence[str], folder: Path) -> str:
    """Fix ``script`` in place; what went wrong, or nothing."""
    done = subprocess.run(
        [sys.executable, "-P", "-m", "memlint", "fix", "--no-cache", "--exit-zero",
         "--target", TARGET, *options, str(script)],
        capture_output=True, text=True, check=False, cwd=folder, env=_environment(),
    )  # fmt: skip
    return f"memlint: {done.stdout}{done.stderr}"[:800] if done.returncode else ""


def _environment() -> dict[str, str]:
    path = os.pathsep.join(map(str, (ROOT, ROOT / "rules", ROOT / "runtime")))
    return {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}


def _key(job: Job, text: str, fp32: bool) -> str:
    """What a run depends on: the text, the job, the stand-ins, and the runtime if it is used."""
    parts = [text, json.dumps(job), str(fp32), str(sys.version_info), _code(Path(__file__).parent)]
    parts.append(_code(ROOT / "memlint" / "proof" / "stand_ins"))
    if "memlint_runtime" in text:
        parts.append(_code(ROOT / "runtime"))
    return hashlib.sha256("\0".join(parts).encode("utf-8", "replace")).hexdigest()


@functools.cache
def _code(folder: Path) -> str:
    return "\0".join(path.read_text(encoding="utf-8") for path in sorted(folder.rglob("*.py")))


def _run(job: Job, script: Path, copy: Path, timeout: int, fp32: bool) -> Run:
    written = copy.parent / "result.json"
    started = time.monotonic()
    child = os.fork()
    if child == 0:
        os.setsid()
        run_forked(job, script, copy, written, fp32)
    while os.waitpid(child, os.WNOHANG) == (0, 0):
        if time.monotonic() - started > timeout:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return Run(False, 0, [], f"still running after {timeout} s")
        time.sleep(0.05)
    text = script.read_text(encoding="utf-8", errors="replace")
    if not written.is_file():
        return Run(False, 0, [], "the process ended without a word", text=text)
    return Run(**json.loads(written.read_text(encoding="utf-8")), text=text)
