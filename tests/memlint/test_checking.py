"""Many files: settings per file, the cache, several processes, and one that dies."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from memlint.project.config import Settings
from memlint.project.discover import Found
from memlint.rule.registry import Choice
from memlint.run import pool
from memlint.run.cache import (
    FOLDER,
    INSTALLATIONS,
    Cache,
    Installations,
    _replace,
    _signature,
    fingerprint,
)
from memlint.run.checked import Checked, check_data
from memlint.run.checking import Progress, check_jobs
from memlint.run.jobs import Job, plan
from memlint.run.results import FileResult
from memlint.source.user_cache import secret
from tests.memlint.fakes import RULES, install

KEY = b"of this test"
CODES = frozenset({"MEM001", "MEM002", "MEM301", "MEM302", "MEM401"})


@pytest.fixture(autouse=True)
def fakes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    install(monkeypatch)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("home")))
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path_factory.mktemp("home")))
    monkeypatch.chdir(tmp_path)


def entries_of(file: Path) -> dict[str, Any]:
    """What a file of the cache holds, behind its signature."""
    entries: dict[str, Any] = json.loads(file.read_bytes().partition(b"\n")[2])
    return entries


def write_signed(file: Path, entries: dict[str, Any], key: bytes = KEY) -> None:
    _replace(str(file), entries, key)


def codes_of(results: list[FileResult]) -> list[list[str]]:
    return [[finding.code for finding in result.findings] for result in results]


def jobs_for(*texts: str, codes: frozenset[str] = CODES) -> list[Job]:
    for number, text in enumerate(texts):
        Path(f"f{number}.py").write_text(text)
    return [Job(f"f{number}.py", codes, "") for number in range(len(texts))]


def test_plan_applies_configuration_and_command_line() -> None:
    settings = Settings(
        root=os.getcwd(),
        ignore=("MEM302",),
        per_file_ignores=(("scripts/*", ("MEM3",)), ("*.ipynb", ("gamma-used",))),
        target="trl=0.29",
    )
    found = [Found("a.py", settings), Found("scripts/b.py", settings), Found("x/c.ipynb", settings)]
    jobs = plan(found, Choice())
    assert [sorted(job.codes) for job in jobs] == [
        ["MEM001", "MEM002", "MEM301", "MEM401"],
        ["MEM001", "MEM002", "MEM401"],
        ["MEM001", "MEM002", "MEM301"],
    ]
    assert {job.target for job in jobs} == {"trl=0.29"}
    (only,) = plan(found[:1], Choice(select=("MEM302",)))
    assert only.codes == {"MEM302", "MEM002"}, "broken files are told whatever is selected"
    (none,) = plan(found[:1], Choice(select=("MEM302",), ignore=("broken-file",)))
    assert none.codes == {"MEM302"}


def test_results_come_in_the_order_of_jobs() -> None:
    jobs = jobs_for("alpha\n", "nothing\n", "beta\ngamma\n", "alpha = (\n")
    steps: list[int] = []
    progress = Progress(steps.append, lambda: steps.append(-1))
    results = check_jobs(jobs, progress=progress)
    assert codes_of(results) == [["MEM301"], [], ["MEM302", "MEM401"], ["MEM002"]]
    assert steps == [3, -1, -1, -1]  # the file without a trigger word is not parsed


def test_several_processes_find_the_same() -> None:
    jobs = jobs_for(*(f"alpha\n{'beta' if number % 3 else ''}\n" for number in range(40)))
    assert check_jobs(jobs, processes=2) == check_jobs(jobs, processes=1)


def test_a_process_that_dies_costs_one_diagnostic(monkeypatch: pytest.MonkeyPatch) -> None:
    def deadly(path: str, *arguments: object, **options: object) -> Checked:
        if path == "f3.py":
            os._exit(9)
        return check_data(path, *arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr("memlint.run.session.check_data", deadly)
    results = check_jobs(jobs_for(*["alpha\n"] * 6), processes=2)
    assert [len(result.findings) for result in results] == [1, 1, 1, 0, 1, 1]
    assert "the process that did so died" in results[3].diagnostics[0].message


_INTERRUPTED = """
import multiprocessing, os, signal, time
from memlint.run.pool import in_processes

def make():
    def work(chunk):
        time.sleep(60)
        return list(chunk)
    return work

def interrupt(*_):
    raise KeyboardInterrupt

def lives(worker):
    # Another thread may have waited for it: only the system knows then.
    try:
        os.kill(worker.pid, 0)
    except ProcessLookupError:
        return False
    return True

signal.signal(signal.SIGALRM, interrupt)
signal.setitimer(signal.ITIMER_REAL, 0.5)
start = time.monotonic()
try:
    list(in_processes(make, range(32), 2, None))
except KeyboardInterrupt:
    workers = multiprocessing.active_children()
    for worker in workers:
        worker.join(5)
    print(sum(map(lives, workers)), time.monotonic() - start < 20)
"""


@pytest.mark.skipif(not hasattr(signal, "SIGALRM"), reason="interrupts itself by an alarm")
def test_whoever_is_interrupted_leaves_no_process_behind() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _INTERRUPTED],
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert done.stdout.split() == ["0", "True"], done.stderr


_KILLED = """
import os, signal, sys, threading, time
from memlint.run.pool import in_processes

def make():
    def work(chunk):
        print(os.getpid(), flush=True)
        time.sleep(chunk[0] + 60 * chunk[0])
        return list(chunk)
    return work

threading.Timer(1.0, os.kill, (os.getpid(), getattr(signal, sys.argv[1]))).start()
list(in_processes(make, range(32), 2, None))
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no such signal")
@pytest.mark.timeout(50)
@pytest.mark.parametrize("name", ["SIGTERM", "SIGKILL"])
def test_whoever_is_killed_leaves_no_process_behind(name: str) -> None:
    """Workers that wait, and those that work, end without their parent."""
    with subprocess.Popen(
        [sys.executable, "-c", _KILLED, name], stdout=subprocess.PIPE, text=True
    ) as killed:
        assert killed.stdout is not None
        workers = killed.stdout.read().split()  # it ends where the last of them does
    assert len(set(workers)) == 2


def _pid_of_each() -> Callable[[Sequence[int]], list[tuple[int, int]]]:
    return lambda chunk: [(number, os.getpid()) for number in chunk]


def test_workers_end_before_they_remember_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "_CHUNKS", 2)
    monkeypatch.setattr(pool, "_CHUNK", 3)
    for count in (0, 5, 12, 31):
        done = list(pool.in_processes(_pid_of_each, range(count), 2, lambda *_: (-1, 0)))
        assert [number for number, _ in done] == list(range(count))
    first = {pid for number, pid in done if number < 12}
    assert not first & {pid for number, pid in done if number >= 12}


def test_unreadable_file_among_others() -> None:
    jobs = [*jobs_for("alpha\n"), Job("none.py", CODES, "")]
    results = check_jobs(jobs)
    assert codes_of(results) == [["MEM301"], []]
    assert "no such file" in results[1].diagnostics[0].message


class Counter:
    """Counts how many files are really checked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.paths: list[str] = []

        def counted(path: str, *arguments: object, **options: object) -> Checked:
            self.paths.append(path)
            return check_data(path, *arguments, **options)  # type: ignore[arg-type]

        monkeypatch.setattr("memlint.run.session.check_data", counted)

    def take(self) -> list[str]:
        taken, self.paths = self.paths, []
        return taken


def test_cache_gives_the_same_and_checks_only_what_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counter = Counter(monkeypatch)
    jobs = jobs_for("alpha\n", "nothing\n", "beta = 'ä'\n", "gamma = (\n")
    first = check_jobs(jobs, cache=Cache("."))
    assert counter.take() == ["f0.py", "f2.py", "f3.py"]
    assert check_jobs(jobs, cache=Cache(".")) == first
    assert counter.take() == []
    Path("f2.py").write_text("beta\nalpha\n")
    Path("f3.py").unlink()
    second = check_jobs(jobs, cache=Cache("."))
    assert counter.take() == ["f2.py"]
    assert codes_of(second)[2] == ["MEM302", "MEM301"]
    assert Path(FOLDER, ".gitignore").read_text().endswith("*\n")
    # The file that is gone is forgotten.
    (kept,) = [file for file in Path(FOLDER).iterdir() if file.suffix == ".json"]
    assert sorted(os.path.basename(path) for path in entries_of(kept)) == [
        "f0.py",
        "f1.py",
        "f2.py",
    ]


@pytest.mark.parametrize(
    "change",
    [
        {"codes": frozenset({"MEM301"})},
        {"target": "trl=0.29"},
        {"named": True},
    ],
)
def test_cache_is_keyed_by_all_that_matters(
    monkeypatch: pytest.MonkeyPatch, change: dict[str, object]
) -> None:
    counter = Counter(monkeypatch)
    (job,) = jobs_for("alpha\nbeta\n")
    check_jobs([job], cache=Cache("."))
    counter.take()
    check_jobs([job._replace(**change)], cache=Cache("."))  # type: ignore[arg-type]
    assert counter.take() == ["f0.py"]


def test_cache_knows_whether_fixes_were_rendered() -> None:
    cache = Cache(".")
    found, clean = check_jobs(jobs_for("alpha\n", "nothing\n"))

    def get(path: str, key: str = "key", with_fixes: bool = False, target: str = "v1") -> object:
        return cache.get(path, path, key, with_fixes, lambda: target)

    cache.put("f0.py", "key", False, "v1", found)
    assert get("f0.py") == found
    assert get("f0.py", with_fixes=True) is None
    assert get("f0.py", key="other") is None
    assert get("f0.py", target="v2") is None
    # What has no finding has nothing to render, and without a trigger word no versions.
    cache.put("f1.py", "key", False, "v1", clean)
    assert get("f1.py", with_fixes=True) == clean
    assert get("f1.py", target="v2") is None
    cache.put("f1.py", "key", False, None, clean)
    assert get("f1.py", target="v2") == clean


def test_fingerprint_follows_the_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "rules"
    (folder / "data").mkdir(parents=True)
    rule = folder / "mem301_x.py"
    rule.write_text("A = 1")
    monkeypatch.setattr("memlint.rule.registry.rules_folder", lambda: str(folder))
    before = fingerprint()
    assert fingerprint() == before
    rule.write_text("A = 2")
    assert fingerprint() != before
    before = fingerprint()
    (folder / "data" / "table").write_text("x")
    assert fingerprint() != before


def test_a_fingerprint_is_known_again_until_a_file_is_touched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "rules"
    folder.mkdir()
    rule = folder / "mem301_x.py"
    rule.write_text("A = 1")
    monkeypatch.setattr("memlint.rule.registry.rules_folder", lambda: str(folder))
    file = str(tmp_path / INSTALLATIONS)

    def ask() -> tuple[str, bool]:
        known = Installations(file, KEY)
        found = known.fingerprint()
        if known.changed:
            known.save(KEY)
        return found, known.changed

    # A file that was just written may be written again without another time.
    assert ask() == (fingerprint(), False)
    monkeypatch.setattr("memlint.run.cache._SETTLED", -1.0)
    assert ask() == (fingerprint(), True)
    assert ask() == (fingerprint(), False)
    rule.write_text("A = 22")
    assert ask() == (fingerprint(), True)
    write_signed(Path(file), dict.fromkeys(entries_of(Path(file)), "../../x"))
    assert ask() == (fingerprint(), True)


@pytest.mark.parametrize(
    "damage",
    [
        "",
        "[",
        "[]",
        '{"%s": 1}',
        '{"%s": ["%k", 1]}',
        '{"%s": ["%k", "", true, 1]}',
        '{"%s": ["%k", "", true, [1, 2]]}',
        "[" * 200_000,
    ],
)
def test_damaged_cache_is_no_cache(damage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    counter = Counter(monkeypatch)
    jobs = jobs_for("alpha\n")
    check_jobs(jobs, cache=Cache("."))
    counter.take()
    (file,) = Path(FOLDER).glob("*.json")
    (path, entry), *_ = entries_of(file).items()
    damaged = damage.replace("%s", path).replace("%k", entry[0]).encode()
    key = secret(".")
    assert key is not None
    for text in (damaged, _signature(str(file), damaged, key) + damaged):
        file.write_bytes(text)
        assert codes_of(check_jobs(jobs, cache=Cache("."))) == [["MEM301"]]
        assert counter.take() == ["f0.py"]


def test_a_cache_of_a_repository_silences_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    counter = Counter(monkeypatch)
    jobs = jobs_for("alpha\n")
    check_jobs(jobs, cache=Cache("."))
    (file,) = Path(FOLDER).glob("*.json")
    before = file.read_bytes()
    # The finding is taken out, under the signature that stands there.
    entries = {path: entry[:1] for path, entry in entries_of(file).items()}
    file.write_bytes(before.partition(b"\n")[0] + b"\n" + json.dumps(entries).encode())
    assert codes_of(check_jobs(jobs, cache=Cache("."))) == [["MEM301"]]
    # A whole cache that another user made.
    write_signed(file, entries, b"another user's secret")
    assert codes_of(check_jobs(jobs, cache=Cache("."))) == [["MEM301"]]
    assert len(counter.take()) == 3
    write_signed(file, entries, secret(".") or b"")
    assert codes_of(check_jobs(jobs, cache=Cache("."))) == [[]]


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="files have no owner here")
def test_only_a_secret_that_is_the_user_s_alone_signs(monkeypatch: pytest.MonkeyPatch) -> None:
    first = secret(".")
    assert first is not None
    assert secret(".") == first
    file = Path(os.environ["XDG_CACHE_HOME"], "memlint", "cache.key")
    assert file.stat().st_mode & 0o777 == 0o600
    file.chmod(0o644)  # as git checks it out
    assert secret(".") not in (None, first)
    file.write_bytes(b"short")
    assert len(secret(".") or b"") == 32
    # What lies in the project itself is no secret of the user's.
    monkeypatch.setenv("XDG_CACHE_HOME", str(Path("cache").resolve()))
    assert secret(".") is None
    counter = Counter(monkeypatch)
    jobs = jobs_for("alpha\n")
    for _ in range(2):
        assert codes_of(check_jobs(jobs, cache=Cache("."))) == [["MEM301"]]
    assert len(counter.take()) == 2
    assert not Path(FOLDER).exists()


def test_cache_that_cannot_be_written_is_no_error() -> None:
    Path(FOLDER).write_text("a file in its place")
    assert codes_of(check_jobs(jobs_for("alpha\n"), cache=Cache("."))) == [["MEM301"]]


def test_old_caches_are_dropped_and_nothing_else() -> None:
    Path(FOLDER).mkdir()
    names = [f"0.1.0-{number:016x}.json" for number in range(12)]
    others = ["thesis.txt", "old0.json", "0.1.0-short.json", "x0.1.0-0123456789abcdef.json"]
    for number, name in enumerate([*names, *others]):
        Path(FOLDER, name).write_text("{}")
        os.utime(Path(FOLDER, name), (number, number))
    Path(FOLDER, "0.1.0-fedcba9876543210.json").mkdir()
    check_jobs(jobs_for("alpha\n"), cache=Cache("."))
    left = {file.name for file in Path(FOLDER).iterdir() if file.is_file()} - {INSTALLATIONS}
    assert left >= {*others, names[-1], ".gitignore"}
    assert len(left) == len(others) + 1 + 8
    assert names[0] not in left


@pytest.mark.parametrize("target", ["../docs", "."])
def test_a_cache_folder_that_is_a_link_is_left_alone(
    target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    docs, repository = tmp_path / "docs", tmp_path / "repository"
    docs.mkdir()
    repository.mkdir()
    monkeypatch.chdir(repository)
    jobs = jobs_for("alpha\n")
    linked = (repository / target).resolve()
    for number in range(20):
        (linked / f"0.1.0-{number:016x}.json").write_text("precious")
    Path(FOLDER).symlink_to(target, target_is_directory=True)
    before = sorted(os.listdir(linked))
    assert codes_of(check_jobs(jobs, cache=Cache("."))) == [["MEM301"]]
    assert sorted(os.listdir(linked)) == before


def test_no_link_in_the_cache_folder_leads_a_write_elsewhere(tmp_path: Path) -> None:
    Path(FOLDER).mkdir()
    outside = tmp_path / "outside"
    Path(FOLDER, ".gitignore").symlink_to(outside)
    cache = Cache(".")
    file = cache._file
    Path(f"{file}.{os.getpid()}").symlink_to(outside)
    check_jobs(jobs_for("alpha\n"), cache=cache)
    assert not outside.exists()


def test_a_cache_is_keyed_by_content_not_by_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data.table").write_text("x")
    monkeypatch.setattr("memlint.rule.registry.rules_folder", lambda: str(tmp_path))
    before = fingerprint()
    os.utime(tmp_path / "data.table", (1, 1))
    assert fingerprint() == before
    (tmp_path / "data.table").write_text("y")
    os.utime(tmp_path / "data.table", (1, 1))
    assert fingerprint() != before


def test_defects_are_not_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    counter = Counter(monkeypatch)
    jobs = jobs_for("alpha\n")
    with monkeypatch.context() as patched:
        patched.setattr("memlint.script.model.build_script", lambda *_, **__: 1 / 0)
        assert check_jobs(jobs, cache=Cache("."))[0].diagnostics
    assert codes_of(check_jobs(jobs, cache=Cache("."))) == [["MEM301"]]
    assert len(counter.take()) == 2
    assert RULES
