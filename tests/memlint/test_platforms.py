"""What only some systems have is not needed: attributes of ``os``, forking, ``/`` in paths."""

from __future__ import annotations

import json
import multiprocessing
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from memlint.run.jobs import Job
from memlint.run.pool import in_processes
from memlint.run.session import CheckWork, FixWork, Work

TARGET = "trl=1.16,transformers=5.23"
SCRIPT = (
    "from transformers import TrainingArguments\r\n"
    "args = TrainingArguments('out', evaluation_strategy='no')  # ä\r\n"
)
FIXED = SCRIPT.replace("evaluation_strategy", "eval_strategy")
# What Windows lacks, as far as the standard library here does without it too.
MISSING = (
    "chown", "fchmod", "fchown", "fork", "forkpty", "geteuid", "getuid", "getgid", "getegid",
    "getpgid", "killpg", "lchown", "listxattr", "getxattr", "setxattr", "mkfifo", "nice", "pread",
    "sched_getaffinity", "statvfs", "sysconf", "uname", "O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC",
    "O_NOCTTY", "O_DIRECTORY", "register_at_fork",
)  # fmt: skip
RUN = f"""
import os, sys
for name in {MISSING!r}:
    if hasattr(os, name):
        delattr(os, name)
from memlint.cli.main import run
sys.exit(run(sys.argv[1:]))
"""


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-c", RUN, *arguments],
        capture_output=True, cwd=folder, check=False, timeout=120,
    )  # fmt: skip


def test_check_and_fix_need_nothing_that_windows_lacks(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_bytes(SCRIPT.encode())
    found = run(tmp_path, "check", "--target", TARGET, "--output-format", "json", ".")
    assert found.stderr == b""
    assert [each["code"] for each in json.loads(found.stdout)].count("MEM901") == 1
    assert (tmp_path / ".memlint_cache" / ".gitignore").exists()
    again = run(tmp_path, "check", "--target", TARGET, "--output-format", "json", ".")
    assert again.stdout == found.stdout
    diff = run(tmp_path, "fix", "--target", TARGET, "--select", "MEM901", "--diff", ".")
    assert FIXED.split("\r\n")[1].encode() + b"\r\n" in diff.stdout
    assert run(tmp_path, "fix", "--target", TARGET, "--select", "MEM901", ".").returncode == 0
    assert script.read_bytes() == FIXED.encode()


def test_workers_that_are_started_anew_find_and_fix_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = Job("train.py", frozenset({"MEM901"}), TARGET)
    work = [Work(job._replace(path=f"f{number}.py"), SCRIPT.encode()) for number in range(10)]
    here = CheckWork(True)(work)
    spawn = multiprocessing.get_context("spawn")
    monkeypatch.setattr("multiprocessing.get_context", lambda method: spawn)
    assert list(in_processes(partial(CheckWork, True), work, 2, lost)) == here
    assert all(result.findings for result in here)
    fixed = list(in_processes(FixWork, work, 2, lost))
    assert [result.after for result in fixed] == [FIXED.encode()] * 10


def lost(work: Work, message: str) -> None:
    raise AssertionError(message)


def test_what_is_not_forked_is_spawned(monkeypatch: pytest.MonkeyPatch) -> None:
    from memlint.run import pool

    methods: list[str] = []
    real = multiprocessing.get_context

    def noted(method: str) -> object:
        methods.append(method)
        return real("spawn")

    monkeypatch.setattr("multiprocessing.get_context", noted)
    monkeypatch.setattr(pool.sys, "platform", "win32")
    pool._executor(1, FixWork).shutdown()
    assert methods == ["spawn"]


def test_newlines_are_written_as_they_are(tmp_path: Path) -> None:
    """Where text output turns ``\\n`` into ``\\r\\n``, a patch would no longer apply."""
    (tmp_path / "train.py").write_bytes(SCRIPT.encode())
    script = (
        "import io, sys\n"
        "sys.stdout = io.TextIOWrapper(sys.stdout.buffer, 'utf-8', newline='\\r\\n')\n"
        "from memlint.cli.main import run\n"
        "run(sys.argv[1:])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, "fix", "--diff", "--target", TARGET, "."],
        capture_output=True, cwd=tmp_path, check=False,
    )  # fmt: skip
    assert b"\r\r\n" not in done.stdout
    assert done.stdout.startswith(b"--- a/train.py\n")


def test_paths_of_another_drive_are_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    from memlint.reports import paths
    from memlint.run import jobs

    def other_drive(*_: object) -> str:
        raise ValueError("path is on mount 'C:', start on mount 'D:'")

    monkeypatch.setattr("os.path.relpath", other_drive)
    assert paths.relative("train.py") is None
    assert paths.uri("/x/train.py") == "file:///x/train.py"
    assert jobs.relative_to("/x/train.py", "/y") == "/x/train.py"
