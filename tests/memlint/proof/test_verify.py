"""Runs that are compared: what is the same, what is caught, and that nothing stays behind."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from memlint.cli.interrupts import warn_of_programs
from memlint.cli.main import run as main
from memlint.cli.verifying import _STATUS, _lines, _verdict
from memlint.proof import child, landlock
from memlint.proof.comparing import (
    Job,
    Run,
    Verified,
    _distance,
    _learned,
    _run,
    verify,
)
from memlint.proof.overlay import Overlay
from memlint.proof.stand_ins.sample_rows import NOT_SAID
from memlint.proof.watching import _PART, _square
from memlint.run.sampled_columns import sample_columns

LOOP = """\
import torch

torch.manual_seed(1)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 4))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
rows = torch.randn(64, 8)
for step in range(100):
    for part in rows[step * 4 % 64 : step * 4 % 64 + 4].split(2):
        loss = torch.nn.functional.cross_entropy(model(part), part.argmax(1) % 4) / 2
        loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
"""


def run(tmp_path: Path, before: str, after: str, **values: object) -> Verified:
    script = tmp_path / "project" / "train.py"
    script.parent.mkdir(exist_ok=True)
    script.write_text(before)
    job = Job(str(script), str(script.parent), str(script.parent), before)._replace(**values)
    return verify(job, job._replace(text=after))


def one_run(tmp_path: Path, text: str) -> Run:
    project = tmp_path / "project"
    project.mkdir()
    (project / "train.py").write_text(text)
    return _run(
        Job(str(project / "train.py"), str(project), str(project), text), str(tmp_path / "run")
    )


@pytest.fixture(scope="module")
def same(tmp_path_factory: pytest.TempPathFactory) -> Verified:
    """A loss that is computed in another order."""
    after = LOOP.replace(
        "torch.nn.functional.cross_entropy(model(part), part.argmax(1) % 4) / 2",
        "-model(part).log_softmax(1)[range(2), part.argmax(1) % 4].sum() / 4",
    )
    return run(tmp_path_factory.mktemp("same"), LOOP, after)


def test_sums_in_another_order_are_the_same(same: Verified) -> None:
    assert same.verdict == "same"
    assert same.before.steps == same.after.steps == 3
    assert len(same.before.losses) == len(same.before.norms) == 3
    assert 0 < same.noise < 1e-4
    assert same.before.host > 2**20


def test_sixteen_bits_round_more_and_are_compared_all_the_same(tmp_path: Path) -> None:
    """One rounding is 0.8 % there; up for some weights and down for others, it is no new scale."""
    text = LOOP.replace("optimizer = torch", "model.bfloat16()\noptimizer = torch")
    text = text.replace("torch.randn(64, 8)", "torch.randn(64, 8).bfloat16()")
    verified = run(tmp_path, text, f"{text}\n")
    assert verified.moved == 0
    assert verified.verdict == "same"
    assert 1e-5 < verified.noise < 0.05


def test_a_frozen_base_in_sixteen_bits_rounds_as_it_does(tmp_path: Path) -> None:
    """What is trained on it in float32 is moved by far less."""
    text = LOOP.replace(
        "AdamW(model.parameters()",
        "AdamW((model[0].bfloat16().requires_grad_(False), model[2])[1].parameters()",
    )
    base = "model[0](part.bfloat16())"
    text = text.replace("model(part)", f"model[2](torch.tanh({base}).float())")
    other = "(part.bfloat16() @ model[0].weight.T + model[0].bias)"
    verified = run(tmp_path, text, text.replace(base, other))
    assert verified.moved > 1e-5
    assert verified.verdict == "same"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param("lr=1e-2", "lr=1.1e-2", id="learning rate"),
        pytest.param("rows[step * 4", "rows[2 + step * 4", id="dropped rows"),
        pytest.param("model(part), part", "model(part[:1]), part[:1]", id="truncation"),
        pytest.param(") / 2\n", ", label_smoothing=1e-3) / 2\n", id="loss"),
        pytest.param("manual_seed(1)", "manual_seed(2)", id="seed"),
        pytest.param("8)\nfor", "8).flip(0)\nfor", id="order"),
        pytest.param("8)\nfor", "8).bfloat16().float()\nfor", id="dtype"),
        pytest.param("(set_to_none=True)", "() if step % 2 else None", id="gradients"),
        pytest.param("AdamW", "SGD", id="optimizer"),
    ],
)
def test_a_rewrite_that_learns_something_else_is_caught(
    old: str, new: str, same: Verified, tmp_path: Path
) -> None:
    text = LOOP.replace(old, new)
    assert text != LOOP
    project = tmp_path / "project"
    project.mkdir()
    (project / "train.py").write_text(text)
    job = Job(str(project / "train.py"), str(project), str(project), text)
    after = _run(job, str(tmp_path / "run"))
    verified = same._replace(after=after, moved=_distance(same.before, after))
    assert (after.error, verified.verdict, _STATUS[verified.verdict]) == ("", "moved", 1)
    assert verified.moved > 10 * verified.noise


def test_a_rewrite_that_stops_the_script_is_caught(tmp_path: Path) -> None:
    verified = run(tmp_path, LOOP, LOOP.replace("set_to_none", "set_to_nothing"))
    assert verified.verdict == "stops"
    assert "TypeError" in verified.after.error
    assert "(line 13)" in verified.after.error
    shorter = run(tmp_path, LOOP, LOOP.replace("range(100)", "range(2)"))
    assert shorter.verdict == "stops"


def test_tokens_of_each_step_are_counted(tmp_path: Path) -> None:
    """Those that train, once: a second table and passes without gradients are left out."""
    text = """\
import torch
words, places = torch.nn.Embedding(9, 4), torch.nn.Embedding(5, 4)
optimizer = torch.optim.SGD(words.parameters(), lr=0.1)
for _ in range(9):
    ids = torch.arange(10).view(2, 5) % 9
    with torch.no_grad():
        words(ids)
    for _ in range(2):
        (words(ids) + places(torch.arange(5))).pow(2).mean().backward()
    optimizer.step()
"""
    verified = run(tmp_path, text, text.replace("range(2)", "(0, 1)"))
    assert verified.before.tokens == (20, 20, 20)
    [told] = [line for line in _lines((), verified) if line.startswith("tokens")]
    assert told.endswith("a second")


def test_a_script_that_stops_and_its_fixed_version(tmp_path: Path) -> None:
    """There is nothing to compare, but what the fixed one does is told."""
    verified = run(tmp_path, LOOP.replace("set_to_none", "set_to_nothing"), LOOP)
    assert (verified.verdict, _STATUS[verified.verdict]) == ("repaired", 2)
    said = "\n".join(_lines((), verified))
    assert "not verified: the script itself: TypeError" in said
    losses = ", ".join(f"{each:.6f}" for each in verified.after.losses)
    assert (
        f"repaired, compared with nothing: the fixed script took 3 steps: losses {losses}; " in said
    )
    hollow = verified._replace(after=Run(steps=3, losses=(0.0,), norms=(0.0,)))
    assert hollow.verdict == "no answer"
    assert "repaired" not in "\n".join(_lines((), hollow))


def test_a_script_that_stops_once_by_chance_is_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (seen := tmp_path / "cache" / "seen").parent.mkdir()  # which outlives a run
    monkeypatch.setenv("SOME_CACHE", str(seen.parent))
    chance = (
        f"import os\nif not os.path.exists({str(seen)!r}):\n    open({str(seen)!r}, 'w')\n    raise"
    )
    text = f"{chance} OSError('no answer')\n{LOOP}"
    verified = run(tmp_path, text, f"{text}\n")
    assert (verified.before.error, verified.verdict) == ("", "same")


def test_why_both_stop_is_told() -> None:
    no = Run("TypeError: no `a` (line 1)")
    fixed = Run("ValueError: no rows (line 2)")
    said = "\n".join(_lines((), Verified(no, Run(), fixed, 0.0, 0.0)))
    assert "not verified: the script itself: TypeError: no `a` (line 1)" in said
    assert "the fixed script stops, too: ValueError: no rows (line 2)" in said
    said = "\n".join(_lines((), Verified(no, Run(), Run(), 0.0, 0.0)))
    assert "the fixed script ends, too, before it has a loss" in said


def test_predicted_peaks_stand_above_measured_ones() -> None:
    before = Run(steps=1, losses=(1.0,), allocated=8 << 30)
    after = before._replace(allocated=4 << 30)
    verified = Verified(before, before, after, 0.0, 0.0, (9 << 30, 5 << 30))
    lines = [" ".join(line.split()) for line in _lines((), verified)]
    at = lines.index("GPU, predicted 9.00 5.00 GiB")
    assert lines[at + 1] == "GPU, allocated 8.00 4.00 GiB"
    without = verified._replace(before=before._replace(allocated=None))
    assert "predicted" not in "\n".join(_lines((), without))


def test_squares_are_added_up_in_parts() -> None:
    whole = torch.linspace(-1, 1, 2 * _PART + 3)
    expected = float(whole.double().pow(2).sum())
    for gradient in (whole, whole.view(-1, 1).T, whole[::2].repeat(2)[: len(whole)]):
        assert _square(gradient) == pytest.approx(float(gradient.double().pow(2).sum()), rel=1e-12)
    assert _square(whole.to_sparse()) == pytest.approx(expected, rel=1e-12)


@pytest.mark.matrix
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("raise ValueError('no data')", "ValueError: no data (line 1)"),
        ("import os; os._exit(3)", "without a word"),
        ("import time; time.sleep(600)", "still running after 8 s"),
        ("import sys; sys.exit('usage')", "SystemExit: usage"),
        ("import sys; sys.argv.clear(); 1 / 0", "division by zero (train.py, line 1)"),
    ],
)
def test_a_script_that_does_not_train_is_no_answer(text: str, words: str, tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "train.py").write_text(text)
    job = Job(str(project / "train.py"), str(project), str(project), text, seconds=8.0)
    one = _run(job, str(tmp_path / "run"))
    assert Verified(one, Run(), one, 0.0, 0.0).verdict == "no answer"
    assert words in one.error


def test_a_script_that_does_not_repeat_itself_is_no_answer(tmp_path: Path) -> None:
    text = LOOP.replace("torch.manual_seed(1)", "torch.seed()")
    assert run(tmp_path, text, f"{text}\n").verdict == "no answer"


def test_the_users_folder_stays_as_it_is(tmp_path: Path) -> None:
    """Links are copied before they are written; absolute paths are refused; new files vanish."""
    project = tmp_path / "project"
    (project / "data").mkdir(parents=True)
    for name in ("log.txt", "data/rows.txt", "old.pt", "gone.txt"):
        (project / name).write_text("mine")
    text = f"""\
import os, shutil, torch
from pathlib import Path
assert Path("data/rows.txt").read_text() == "mine"
assert Path(__file__).with_name("log.txt").read_text() == "mine"
(Path(__file__).resolve().parent / "beside").mkdir()
Path("log.txt").write_text("theirs")
with open("data/rows.txt", "a") as file:
    file.write("more")
torch.save({{}}, "old.pt")
os.remove("gone.txt")
os.makedirs("out/deep")
Path("out/deep/new.txt").write_text("new")
for change in (
    lambda: open({str(project / "log.txt")!r}, "w"),
    lambda: os.remove({str(project / "log.txt")!r}),
    lambda: shutil.rmtree({str(project / "data")!r}),
    lambda: torch.save({{}}, {str(project / "new.pt")!r}),
    lambda: os.mkdir({str(project / "new")!r}),
):
    try:
        change()
    except PermissionError as error:
        assert "left as it is" in str(error)
    else:
        raise AssertionError
{LOOP}"""
    verified = run(tmp_path, text, f"{text}\n")
    assert verified.before.error == ""
    assert verified.verdict == "same"
    found = {str(each.relative_to(project)) for each in project.rglob("*") if each.is_file()}
    assert found == {"log.txt", "data/rows.txt", "old.pt", "gone.txt", "train.py"}
    assert {(project / name).read_text() for name in found - {"train.py"}} == {"mine"}


@pytest.mark.parametrize("last", ["", "import os; os.abort()\n", "raise SystemExit(3)\n"])
def test_what_a_run_makes_elsewhere_is_removed_after_it(last: str, tmp_path: Path) -> None:
    """However it ends, and so that the next run starts from what the first one found."""
    kept, project = tmp_path / "else" / "kept", tmp_path / "project"
    kept.mkdir(parents=True)
    project.mkdir()
    (kept / "mine").write_text("mine")
    text = f"""\
import os, shutil, safetensors.torch, torch
from pathlib import Path
kept = Path({str(kept)!r})
assert [each.name for each in kept.iterdir()] == ["mine"]
(kept / "out" / "deep").mkdir(parents=True)
torch.save({{}}, kept / "out" / "model.pt")
assert torch.load(kept / "out" / "model.pt") == {{}}
safetensors.torch.save_file(filename=str(kept / "w"), tensors={{"a": torch.zeros(2)}})
Path(kept, "out", "deep", "a b\\n").write_text("new")
os.rename(kept / "out" / "model.pt", kept / "moved.pt")
os.symlink(kept / "mine", kept / "link")
shutil.copytree(kept / "out", kept / "copied")
assert len(list(kept.rglob("*"))) == 10
{last}{LOOP}"""
    verified = run(tmp_path, text, f"{text}\n")
    assert verified.verdict == ("no answer" if last else "same"), verified.before.error
    assert [str(each.relative_to(kept)) for each in kept.rglob("*")] == ["mine"]
    assert (kept / "mine").read_text() == "mine"


def test_a_folder_of_very_many_files_is_linked_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memlint.proof.overlay._MOST_ENTRIES", 3)
    for name in ("a", "b", "c", "d"):
        (tmp_path / "folder" / name).mkdir(parents=True)
        (tmp_path / "folder" / name / "file").write_text(name)
    texts = {str(tmp_path / "folder" / name / "file"): "new" for name in "ad"}
    overlay = Overlay(str(tmp_path / "folder"), str(tmp_path / "copy"), texts)
    seen = [(tmp_path / "copy" / name / "file").read_text() for name in "abcd"]
    assert seen == ["new", "b", "c", "new"]
    linked = next(name for name in "bc" if (tmp_path / "copy" / name).is_symlink())
    with pytest.raises(PermissionError):
        overlay.before_change(tmp_path / "copy" / linked / "file")
    assert [(tmp_path / "folder" / name / "file").read_text() for name in "abcd"] == list("abcd")


def test_whatever_writes_a_file_writes_the_copy(tmp_path: Path) -> None:
    """Programs and libraries in C open files past Python; large files are links."""
    folder, copy = tmp_path / "folder", tmp_path / "run" / "copy"
    folder.mkdir()
    for name in ("a", "b", "c.db", "d", "e"):
        (folder / name).write_text("" if name == "c.db" else "mine")
    mode = (folder / "b").stat().st_mode
    code = (
        "import ctypes, os, sqlite3, subprocess, sys\nfrom memlint.proof import overlay\n"
        "overlay._SMALL = int(sys.argv[3])\n"
        "overlay.Overlay(*sys.argv[1:3]).guard()\nos.chdir(sys.argv[2])\n"
        "os.truncate('a', 0); os.chmod('b', 0o700)\n"
        "sqlite3.connect('c.db').execute('create table t (a)')\n"
        "if int(sys.argv[3]) > 0 or overlay.landlock.version():\n"
        "    subprocess.run('echo theirs > d', shell=True)\n"
        "    ctypes.CDLL(None).truncate(b'e', 0)\n"
    )
    for small in ("-1", "4"):
        copy.parent.mkdir()
        subprocess.run([sys.executable, "-c", code, folder, copy, small], check=True)
        assert [(folder / name).read_text() for name in ("a", "b", "d", "e")] == ["mine"] * 4
        assert ((folder / "b").stat().st_mode, (folder / "c.db").stat().st_size) == (mode, 0)
        assert (copy / "c.db").stat().st_size > 0
        shutil.rmtree(copy.parent)


@pytest.mark.skipif(not landlock.version(), reason="no such kernel")
def test_libraries_in_c_write_in_the_runs_own_folder_alone(tmp_path: Path) -> None:
    """They open files past Python, by whatever path; Python makes new ones anywhere."""
    folder, out, copy = tmp_path / "folder", tmp_path / "out", tmp_path / "run" / "copy"
    for each in (folder, out, copy.parent):
        each.mkdir()
    for name in ("folder/a", "out/b"):
        (tmp_path / name).write_text("mine")
    sqlite3.connect(out / "c.db").execute("create table t (a)")
    held = (out / "c.db").read_bytes()
    time.sleep(0.05)
    code = """\
import ctypes, os, pathlib, shutil, sqlite3, sys, threading
from memlint.proof import overlay
folder, out, copy = sys.argv[1:]
overlay.Overlay(folder, copy).guard()
os.chdir(copy)
for path in ("a", f"{folder}/a", f"{folder}/new", f"{out}/b", f"{out}/new"):
    made = ctypes.CDLL(None, use_errno=True).open(path.encode(), os.O_RDWR | os.O_CREAT, 0o600)
    assert (made >= 0) is (path == "a"), path
    assert made >= 0 or ctypes.CDLL(None).truncate(path.encode(), 0) == -1
base = sqlite3.connect(":memory:")
base.execute("attach ? as other", (f"{out}/c.db",))
try:
    base.execute("create table other.u (a)")
except sqlite3.OperationalError as error:
    assert "readonly" in str(error)
def make(name):
    made = pathlib.Path(out, name)
    made.mkdir()
    for _ in range(2):  # it is the run's own
        (made / "file").write_text("theirs")
    os.rename(made / "file", made / "moved")
    shutil.copy(made / "moved", made / "file")
    os.symlink(made / "file", made / "link")
    os.unlink(made / "link")
    shutil.rmtree(made)
    pathlib.Path(out, name).write_text("theirs")
make("one")
thread = threading.Thread(target=make, args=("two",))
thread.start()
thread.join()
for change in (lambda: open(f"{out}/b", "w"), lambda: os.rename(f"{out}/b", f"{out}/d"),
               lambda: open(f"{out}/none/file", "w", opener=os.open)):
    try:
        change()
    except (PermissionError, FileNotFoundError):
        continue
    raise AssertionError
if os.fork() == 0:
    try:
        open(f"{out}/three", "w")
    except PermissionError:
        os._exit(7)
assert os.waitstatus_to_exitcode(os.wait()[1]) == 7
"""
    subprocess.run([sys.executable, "-c", code, folder, out, copy], check=True, timeout=100)
    assert [each.name for each in folder.iterdir()] == ["a"]
    assert sorted(each.name for each in out.iterdir()) == ["b", "c.db", "one", "two"]
    assert (folder / "a").read_text() == (out / "b").read_text() == "mine"
    assert (out / "c.db").read_bytes() == held


def test_what_was_there_elsewhere_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """New files may be written there, and caches are their owners'."""
    for name in ("SOME_CACHE", "A_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "cache" if name == "SOME_CACHE" else tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    folders = "folder", "out", "cache", "home/.cache", "home/.ssh", "out/__pycache__", "running"
    for name in folders:
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "old").write_text("mine")
    for name in ("a.lock", "empty"):
        (tmp_path / "out" / name).touch()
    time.sleep(0.05)
    (tmp_path / "run").mkdir()
    overlay = Overlay(str(tmp_path / "folder"), str(tmp_path / "run" / "copy"))
    (tmp_path / "out" / "new").write_text("theirs")
    for name in (
        "out/old",
        "out/empty",
        "folder/old",
        "folder/new",
        "home/.ssh/old",
        "running/old",
    ):
        with pytest.raises(PermissionError):
            overlay.before_change(tmp_path / name)
    free = "out/new", "out/newer", "out/a.lock", "cache/old", "run/any", "home/.cache/old"
    for name in (*free, "out/__pycache__/old"):
        overlay.before_change(tmp_path / name)


@pytest.mark.skipif(not landlock.version(), reason="no such kernel")
def test_programs_write_in_the_runs_own_folder_alone(tmp_path: Path) -> None:
    """However they are started, also by a process that is forked; they read what they like."""
    (tmp_path / "else" / "deep").mkdir(parents=True)
    (tmp_path / "home" / ".cache").mkdir(parents=True)
    (tmp_path / "else" / "old").write_text("mine")
    order = (
        f"cat {tmp_path}/else/old > own.NUMBER || exit 9; echo a > {tmp_path}/else/new.NUMBER; "
        f"echo a > {tmp_path}/else/old; rm -rf {tmp_path}/else/*; mv {tmp_path}/else .; "
        f"echo a >> {tmp_path}/project/train.py; echo a > {tmp_path}/home/.cache/is.NUMBER; "
        "echo a > /dev/null && mv own.NUMBER moved.NUMBER && echo a > $TMPDIR/a"
    )
    text = f"""\
import multiprocessing, os, subprocess, sys
ORDER = {order!r}
def say(number):
    return ORDER.replace("NUMBER", str(number))
def fork(start):
    pid = os.fork()
    if pid == 0:
        start()
        os._exit(0)
    os.waitpid(pid, 0)
os.system(say(1))
subprocess.run(say(2), shell=True, check=True)
subprocess.run(["sh", "-c", say(3)], close_fds=False, check=True)
os.waitpid(os.posix_spawn("/bin/sh", ["sh", "-c", say(4)], os.environ), 0)
os.popen(say(5)).read()
fork(lambda: os.system(say(6)))
fork(lambda: os.execv("/bin/sh", ["sh", "-c", say(7)]))
os.spawnlp(os.P_WAIT, "sh", "sh", "-c", say(8))
fork(lambda: subprocess.run(say(9), shell=True))
assert all(os.path.exists(f"moved.{{each}}") for each in range(1, 10)), os.listdir()
{LOOP}"""
    verified = run(tmp_path, text, f"{text}\n", environment={"HOME": str(tmp_path / "home")})
    assert (verified.before.error, verified.verdict) == ("", "same")
    assert sorted(each.name for each in (tmp_path / "else").iterdir()) == ["deep", "old"]
    assert (tmp_path / "else" / "old").read_text() == "mine"
    assert (tmp_path / "project" / "train.py").read_text() == text
    cached = [f"is.{each}" for each in range(1, 10)]
    assert sorted(each.name for each in (tmp_path / "home" / ".cache").iterdir()) == cached


@pytest.mark.parametrize(("version", "line", "warns"), [
    (0, "import subprocess\n", True), (0, "os.system('ls')\n", True), (0, "ls = os.sep\n", False),
    (7, "import subprocess\n", False),
])  # fmt: skip
def test_a_script_that_starts_programs_is_told_where_nothing_keeps_them(
    version: int, line: str, warns: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setattr("memlint.proof.landlock.version", lambda: version)
    (tmp_path / "train.py").write_text(line)
    warn_of_programs(str(tmp_path / "train.py"))
    assert ("starts programs" in capsys.readouterr().err) is warns


@pytest.mark.skipif(not landlock.version(), reason="no such kernel")
def test_a_program_that_fails_to_start_says_so(tmp_path: Path) -> None:
    text = f"""\
import subprocess
try:
    subprocess.run(["no-such-program"])
except FileNotFoundError:
    assert subprocess.run("exit 3", shell=True).returncode == 3
    {LOOP.replace(chr(10), chr(10) + "    ")}"""
    assert run(tmp_path, text, f"{text}\n").before.error == ""


def test_older_files_of_everybodys_folder_stay(tmp_path: Path) -> None:
    """The run's own temporary folder may lie beside them."""
    old = tmp_path / "old.txt"
    old.write_text("mine")
    text = f"""\
import os, tempfile
for change in (
    lambda: open({str(old)!r}, "w"),
    lambda: os.remove({str(old)!r}),
    lambda: os.link({str(old)!r}, "linked.txt"),
    lambda: os.rename({str(old)!r}, "mine.txt"),
):
    try:
        change()
    except PermissionError as error:
        assert "left as it is" in str(error)
    else:
        raise AssertionError
open({str(tmp_path / "new.txt")!r}, "w").write("theirs")
open({str(tmp_path / "new.txt")!r}, "w").write("theirs")
with tempfile.TemporaryDirectory() as folder:
    open(folder + "/a", "w").write("a")
{LOOP}"""
    verified = run(tmp_path, text, f"{text}\n")
    assert (verified.before.error, verified.verdict, old.read_text()) == ("", "same", "mine")


@pytest.mark.parametrize(
    ("line", "word"),
    [("try:\n        optimizer.step()\n    except BaseException:\n        continue", "line 13"),
     ("import subprocess\n    subprocess.Popen(['sleep', SECONDS], start_new_session=True)\n"
      "    optimizer.step()", "line 14")],
)  # fmt: skip
def test_a_run_ends_whatever_it_catches_or_starts(line: str, word: str, tmp_path: Path) -> None:
    seconds = f"{297 + random.random():.9f}"  # no other process says this number
    text = LOOP.replace("    optimizer.step()", f"    {line.replace('SECONDS', repr(seconds))}")
    verified = run(tmp_path, text, f"{text}\n")
    assert (verified.verdict, verified.before.steps) == ("same", 3)
    assert f"ended in {word}" in "\n".join(_lines((), verified))
    processes = Path("/proc").glob("[0-9]*/cmdline")
    assert not [each for each in processes if seconds.encode() in _read(each)]


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def test_workers_read_the_fixed_script(tmp_path: Path) -> None:
    """Processes that are spawned import the main program from its file."""
    text = LOOP.replace("import torch\n", "import torch\nfrom pathlib import Path\n", 1)
    text += "# MARK"
    asks = "\nassert (Path(__file__).read_text().count('MAR' + 'K') == COUNT)\n"
    head = text.replace("import Path\n", f"import Path\n{asks.replace('COUNT', '1')}", 1)
    after = text.replace("import Path\n", f"import Path\n{asks.replace('COUNT', '2')}", 1)
    verified = run(tmp_path, head, f"{after}\n# MARK")
    assert (verified.before.error, verified.after.error) == ("", "")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_interrupt_leaves_no_process_and_no_file(number: signal.Signals, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(f"import os, time\nopen({str(tmp_path / 'pid')!r} + str(os.getpid()), 'w')")
    (tmp_path / "scratch").mkdir()
    code = (
        # A shell's background jobs ignore interrupts, and so do the processes that they start.
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from memlint.cli.interrupts import end_cleanly\n"
        "from memlint.proof.comparing import Job, verify\n"
        "end_cleanly()\n"
        f"text = 'import time; print(1, flush=True); time.sleep(300)'\n"
        f"folder = {str(tmp_path / 'p')!r}\n"
        f"job = Job({str(script)!r}, folder, folder, text)\n"
        "verify(job, job)"
    )
    (tmp_path / "p").mkdir()
    environment = {**os.environ, "TMPDIR": str(tmp_path / "scratch")}
    process = subprocess.Popen(
        [sys.executable, "-c", code], env=environment, stderr=subprocess.DEVNULL
    )
    children = _wait_for_children(process.pid)
    process.send_signal(number)
    process.wait(60)
    assert not _left(tmp_path / "scratch", children, seconds=60 * (number is signal.SIGKILL))


def test_a_kill_before_any_run_has_begun_leaves_no_folder(tmp_path: Path) -> None:
    code = (
        "import os, signal\nfrom memlint.proof import comparing\n"
        "comparing._run = lambda *a, **k: os.kill(os.getpid(), signal.SIGKILL)\n"
        "job = comparing.Job('a', 'b', 'b', '')\ncomparing.verify(job, job)"
    )
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, check=False)
    assert done.returncode == -signal.SIGKILL
    assert not _left(tmp_path, [], seconds=60)


def _left(folder: Path, processes: list[int], seconds: float) -> list[Path]:
    """Return what is left of a run in so many seconds: what runs, or removes, sees it is alone."""
    end = time.monotonic() + seconds
    while True:
        left = [*folder.iterdir(), *(each for one in processes for each in _proc(one))]
        if not left or time.monotonic() > end:
            return left
        time.sleep(0.1)


def _proc(process: int) -> Iterator[Path]:
    return Path("/proc").glob(str(process))


@pytest.mark.skipif(not os.path.isdir("/dev/shm"), reason="no such folder")
def test_memory_that_a_run_shared_goes_with_it(tmp_path: Path) -> None:
    """What others have there stays."""
    others = Path(f"/dev/shm/torch_{os.getpid()}_1_0")
    others.touch()
    text = "import os\nname = f'/dev/shm/torch_{os.getpid()}_1_0'\nopen(name, 'w').close()\n"
    try:
        done = one_run(tmp_path, f"{text}raise ValueError(name)")
        assert "/dev/shm/torch_" in done.error
        assert not Path(done.error.split()[1]).exists()
        assert others.exists()
    finally:
        others.unlink()


@pytest.mark.parametrize(
    "error",
    [
        PermissionError(13, "Permission denied", "/data/out"),
        Exception("Permission denied (os error 13)"),
        OSError("[Errno 13] Failed to open local file '/data/rows.parquet'. Permission denied"),
    ],
)
def test_a_write_that_is_refused_says_where_a_run_writes(error: Exception) -> None:
    assert "writes in its own folder, in caches and" in child._said(error, "/copy")
    assert "give it a relative path" in child._said(error, "/copy")


def test_a_run_ends_that_lets_no_thread_run() -> None:
    """A lock of torch's that is taken twice is waited for with the interpreter's own lock held."""
    code = (
        "import ctypes, os, threading, time\n"
        "from memlint.proof import child\n"
        "child._STUCK = 1.0\n"
        "job = {'owner': os.getpid()}\n"
        "threading.Thread(target=child._end_with, args=(job,), daemon=True).start()\n"
        "time.sleep(1.5)\n"
        "print('held', flush=True)\n"
        "ctypes.PyDLL(None).sleep(300)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stdout) == (1, "held\n")
    assert "Timeout" in done.stderr


def _wait_for_children(parent: int) -> list[int]:
    """Return what keeps the folder, and the run."""
    for _ in range(600):
        children = Path(f"/proc/{parent}/task/{parent}/children")
        if not children.exists():
            pytest.skip("no /proc here")
        if len(found := children.read_text().split()) > 1:
            time.sleep(0.5)
            return [*map(int, found)]
        time.sleep(0.1)
    raise AssertionError("no run began")


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ('x["question"] + x["answer"]', "question:text,answer:number"),
        ('f = lambda row: row["saying"]\nd["train"]["by"]', "saying:text"),
        ('def f(a, b):\n    a["input_ids"] = a["poem"]\n    c["d"]\n    b["score"]',
         "poem:text,score:float"),
        ('def f(config, row):\n    config["lr"]\n    row["poem"]', "poem:text"),
        ('for row in data:\n    row["poem"]; c["d"]\n[r.get("by") for r in data]; c.get("e")',
         "poem:text,by:text"),
        ('for r in rows:\n    for c in r["notes"]:\n        c["score"]',
         "notes:[score]"),
        ('def f(r):\n    for t in r["chat"]: t["role"]', "chat:messages,role:text"),
        ('def f(r):\n    for t in r["chat"]: t["from"]', "chat:conversations,from:text"),
        ('def f(r):\n    for t in r["words"]: t.lower()', "words:text"),
        ("DPOTrainer(model)", "preference"),
        ("row['prompt'], row['chosen']; DPOTrainer", "preference"),
        ("AutoModelForSequenceClassification.from_pretrained(n)", "classes"),
        ("SFTTrainer(model)", "text"),
        ('def f(r):\n    t.apply_chat_template(r["turns"]); r["by"]', "turns:messages,by:text"),
        ('t.apply_chat_template(\n r["chosen"])\nRewardTrainer',
         "preference-implicit-conversation"),
        ('def f(r):\n    r["scores"] + r["last_label"]', "scores:float,last_label:int"),
    ],
)  # fmt: skip
def test_rows_are_guessed(text: str, rows: str) -> None:
    assert sample_columns(text) == rows


def test_rows_are_guessed_from_modules_where_the_script_reads_none() -> None:
    reads = 'def f(row): return row["poem"]'
    assert sample_columns("SFTTrainer(model)", reads) == "poem:text"
    assert sample_columns("DPOTrainer(model)", reads) == "preference"
    assert sample_columns(reads.replace("poem", "saying"), reads) == "saying:text"


def test_a_module_of_a_package_runs_as_one(tmp_path: Path) -> None:
    """Its relative imports say that it does."""
    (tmp_path / "src" / "deep").mkdir(parents=True)
    (tmp_path / "src" / "sizes.py").write_text("WIDTH = 16")
    text = LOOP.replace("import torch", "import torch\nfrom ..sizes import WIDTH", 1)
    text = text.replace("16", "WIDTH")
    script = tmp_path / "src" / "deep" / "train.py"
    script.write_text(text)
    job = Job(str(script), str(tmp_path), str(tmp_path), text)
    verified = verify(job, job._replace(text=f"{text}\n"))
    assert (verified.before.error, verified.verdict) == ("", "same")


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("a.py", "from trl import SFTTrainer\ndef (", "a.py:2:5"),
        ("a.sh", "trl sft", "give a script or a notebook"),
        ("none.py", None, "does not exist"),
    ],
)
def test_what_cannot_be_verified_is_said(
    name: str, text: str | None, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    if text is not None:
        Path(name).write_text(text)
    assert main(["verify", name]) == 2
    assert words in capsys.readouterr().err


def test_modules_that_a_script_imports_are_fixed_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As ``memlint fix`` fixes them; what is not imported stays, and rows are guessed from them."""
    settings = "from trl import SFTConfig\nARGS = SFTConfig('out', evaluation_strategy='no')\n"
    texts = {
        "train.py": "from trl import SFTTrainer\nfrom parts.settings import ARGS\n"
        "from parts.rows import DATA\nSFTTrainer('x/y', ARGS, train_dataset=DATA).train()\n",
        "parts/__init__.py": "",
        "parts/settings.py": settings,
        "parts/rows.py": "DATA = D.map(lambda row: {'text': row['poem']})\n",
        "other.py": settings,
    }
    (tmp_path / "parts").mkdir()
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    jobs: list[Job] = []

    def compared(*pair: Job) -> Verified:
        jobs.extend(pair)
        return Verified(Run(), Run(), Run(), 0.0, 0.0)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("memlint.cli.verifying.verify", compared)
    main(["verify", "--tiny", "train.py"])
    before, after = jobs
    fixed = settings.replace("evaluation_strategy", "eval_strategy")
    assert (before.text, after.text) == (texts["train.py"], texts["train.py"])
    assert (dict(before.files), before.tiny) == ({}, {"*": "poem:text"})
    assert (dict(after.files), after.tiny) == (
        {str(tmp_path / "parts" / "settings.py"): fixed}, before.tiny,
    )  # fmt: skip
    assert {name: (tmp_path / name).read_text() for name in texts} == texts


@pytest.mark.parametrize(
    ("kept", "here", "folder"),
    [("", "src", ""), ("", "", ""), ("src", "", ""), (None, "src", "src"), (None, "", ""),
     ("", "elsewhere", ""), (None, "elsewhere", "src")],
)  # fmt: skip
def test_the_whole_repository_is_there(
    kept: str | None, here: str, folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A script imports from above where it is started, too. kept: what git keeps."""
    jobs: list[Job] = []

    def compared(*pair: Job) -> Verified:
        jobs.extend(pair)
        return Verified(Run(), Run(), Run(), 0.0, 0.0)

    for name in ("src", "elsewhere"):
        (tmp_path / name).mkdir()
    if kept is not None:
        (tmp_path / kept / ".git").mkdir()
    script = tmp_path / "src" / "train.py"
    script.write_text("from trl import SFTConfig\nSFTConfig('out', evaluation_strategy='no')\n")
    monkeypatch.chdir(tmp_path / here)
    monkeypatch.setattr("memlint.cli.verifying.verify", compared)
    main(["verify", "--tiny", str(script)])
    assert jobs[0].folder == str(tmp_path / folder)
    assert jobs[0].working_folder == str(tmp_path / here)


def test_columns_of_no_kind_are_refused_before_anything_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "train.py").write_text(LOOP)
    path = str(tmp_path / "train.py")
    assert main(["verify", "--tiny", "--columns", "answer:wordy", path]) == 2
    assert "no column is of kind 'wordy'; kinds: text, short, int" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("import gone.deep as d\nfrom gone import Base\nclass A(Base): ...\nd.x(1)", ""),
        ("try:\n    import gone\nexcept ImportError:\n    pass\nelse:\n    1 / 0", ""),
        ("import here", ""),
        ("import json.notthere", "No module named 'json.notthere'"),
        ("import logging.config as real\nreal.dictConfig({'version': 1})", ""),
    ],
)  # fmt: skip
def test_packages_that_are_not_installed(text: str, error: str, tmp_path: Path) -> None:
    """They are mocks, but where the script can do without them; its own modules are found."""
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "here.py").write_text("")
    (tmp_path / "train.py").write_text(text)
    code = (
        "import sys\n"
        "from memlint.proof.stand_ins.missing_packages import Missing\n"
        f"sys.meta_path.append(Missing({str(tmp_path)!r}))\n"
        f"exec(compile(open({str(tmp_path / 'train.py')!r}).read(),"
        f" {str(tmp_path / 'train.py')!r}, 'exec'))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (error in done.stderr) if error else not done.stderr, done.stderr


# What scripts ask for that is not here, each with a line that prints a word where they have it.
ASKS = {
    "few rows": "d = datasets.load_dataset('any/rows', split='train')\n"
    "p = d.train_test_split(test_size=2000, seed=1)\n"
    "ok = [len(d.select(range(500))), len(d.select(range(90, 99))), len(p['test'])] == [16, 1, 8]\n"
    "ok &= [len(d.select([3, 4])), len(d.train_test_split(0.25)['test'])] == [2, 4]\n"
    "ok &= d[200] == d[8] and d[-1] == d[15] and len(d[5:]['text']) == 11",
    "a filter that leaves none": "d = datasets.load_dataset('any/rows', split='train[:1%]')\n"
    "ok = len(d.filter(lambda row: len(row['text']) > 10**6, num_proc=4)) == 16",
    "splits of other names": "d = datasets.load_dataset('any/rows')\n"
    "ok = len(d.map(lambda row: {'n': 1})['train_sft']) == 16",
    "a data set on disk": "d = datasets.load_from_disk('none')\n"
    "ok = len(d) == len(d['train']) == len(datasets.DatasetDict.load_from_disk('none')['dev'])",
    "files by datasets": "d = datasets.load_dataset('json', data_files={'dev': 'none.json'})\n"
    "ok = len(d['dev']) == 16",
    "options": "p = argparse.ArgumentParser()\n"
    "p.add_argument('rows'), p.add_argument('--n', type=int, required=True)\n"
    "p.add_argument('--kind', required=True, choices=['a']), p.add_argument('--csv-file')\n"
    "ok = vars(p.parse_args([])) == dict(rows='sample.json', n=1, kind='a', csv_file=None)\n"
    "given = p.parse_args(['x', '--n=2', '--kind', 'a'])\n"
    "ok &= vars(given) == dict(rows='x', n=2, kind='a', csv_file=None)",
    # A recipe is the project's own: nothing else stands in for it.
    "a recipe": "p = argparse.ArgumentParser()\np.add_argument('--config', required=True)\n"
    "ok = p.parse_args([]).config == 'configs/b/train.yaml'",
    "a package that torch imports": "from torch.utils.tensorboard import SummaryWriter\n"
    "SummaryWriter().add_scalar('loss', 1.0)\nok = True",
    "a parser, a class and numbers of a package": "import gone\n"
    "p = argparse.ArgumentParser()\nok = gone.add(p) is p and gone.register(int) is int\n"
    "low, high = gone.f(1)\nok &= 2.0 > gone.f(1) and f'{gone.f(1):.2f}' == '1.00'\n"
    "ok &= list(gone.rows()) == []",
    "a split of a package": "from sklearn.model_selection import train_test_split\n"
    "a, b, c, d = train_test_split([1, 2, 3], 'abc', test_size=0.1, random_state=1)\n"
    "ok = (sorted(a + b), len(a), sorted(c + d)) == ([1, 2, 3], 2, ['a', 'b', 'c'])",
    "the environment": "import os\nok = os.environ['SOME_KEY'] == '0'\n"
    "ok &= os.environ['SOME_SIZE'] == '1'\n"
    "ok &= 'SOME_RANK' not in os.environ and os.environ.get('SOME_RANK') is None",
    "a GPU that is not here": "torch.cuda.synchronize(), torch.cuda.reset_peak_memory_stats()\n"
    "ok = torch.cuda.max_memory_allocated() == 0 and not torch.cuda.is_available()",
    "a row to the line": "import pandas\nname = 'nowhere/in/rows.json'\n"
    "text = Path(name).read_text()\nok = len(json.loads(text)) == 16\n"
    "ok &= len(pandas.read_json(name)) == len(pandas.read_json(Path(name))) == 16\n"
    "ok &= [json.loads(line) for line in text.splitlines()] == json.loads(text)['rows']\n"
    "Path('own.json').write_text('[1, 2]'), Path('bad.json').write_text('{')\n"
    "ok &= json.load(open('own.json')) == [1, 2] == pandas.read_json('own.json')[0].tolist()\n"
    "try: json.load(open('bad.json'))\nexcept json.JSONDecodeError: pass\nelse: ok = False",
    "a class of a package": "from gone import Colour, Tensor\n"
    "ok = Colour.RED is not None and Tensor['rows', 'words'] is Tensor",
    "a decorator of a package": "from gone import op\n"
    "@op\ndef f(x): return x\n@op('name')\ndef g(x): return x\nok = (f(1), g(2)) == (1, 2)",
    "a command line by a package": "import fire\n"
    "def f(base_model: str = '', n: int = 3):\n"
    "    global ok\n    ok = (base_model, n) == ('meta-llama/Llama-3.1-8B', 3)\nfire.Fire(f)",
    "commands by a package": "import fire\n"
    "class Work:\n    def __init__(self, lr: float): self.lr = lr\n"
    "    def evaluate(self): pass\n"
    "    def finetune(self, data):\n        global ok\n"
    "        ok = (self.lr, data) == (0.5, 'sample.json')\n"
    "fire.Fire({'show': print, 'train': Work})",
    "a command": "p = argparse.ArgumentParser()\ns = p.add_subparsers(dest='what')\n"
    "s.add_parser('eval')\nt = s.add_parser('run_sft')\nt.add_argument('--model', required=True)\n"
    "ok = vars(p.parse_args([])) == dict(what='run_sft', model='meta-llama/Llama-3.1-8B')\n"
    "ok &= p.parse_args(['eval']).what == 'eval'",
    "options of click": "import click\ncli = click.Group()\n"
    "@cli.command()\ndef evaluate(): pass\n"
    "@cli.command()\n@click.argument('data', type=click.Path(exists=True))\n"
    "@click.option('--size', type=click.Choice(['s', 'l']), required=True)\n"
    "@click.option('--names', multiple=True, required=True)\n@click.option('--n', default=3)\n"
    "def train(**given):\n    global ok\n    told = dict(data='sample.json', n=3, size='s')\n"
    "    ok = given == {**told, 'names': ('sample.json',)}\n"
    "cli([], standalone_mode=False)",
    "options of typer": "import typer\napp = typer.Typer()\n"
    "@app.command()\ndef prepare(): pass\n"
    "@app.command()\ndef tune(model: str, n: int, data: Path = typer.Option(...), lr: float = 2):\n"
    "    global ok\n    told = ('meta-llama/Llama-3.1-8B', 1, 'sample.json', 2)\n"
    "    ok = (model, n, str(data), lr) == told\n"
    "app([], standalone_mode=False)",
    "a question": "ok = int(input('Epochs: ')) == 1 and input('Go on? (y/N) ') == 'y'\n"
    "ok &= input('Folder [out]: ') == ''",
    "what may be left out": "import os\np = argparse.ArgumentParser()\n"
    "p.add_argument('--num_epochs', type=int), p.add_argument('--accelerator_config')\n"
    "p.add_argument('--train_file'), p.add_argument('--seed', type=int)\n"
    "p.add_argument('--do_train', type=bool, default=False)\n"
    "told = dict(num_epochs=1, accelerator_config=None, train_file='sample.json', seed=None)\n"
    "told |= dict(do_train=True)\n"
    "ok = vars(p.parse_args([])) == told and os.getenv('BASE_MODEL') == 'meta-llama/Llama-3.1-8B'\n"
    "ok &= os.environ.get('RANK') is None and os.getenv('A_FILE', '') == ''",
    "files by a pattern": "import glob\nnames = glob.glob('texts/*.txt')\n"
    "ok = len(names) == 1 and len(open(names[0]).readlines()) == 16\n"
    "ok &= [each.name for each in Path('more').rglob('*.csv')] == ['sample.csv']\n"
    "ok &= glob.glob('none/*.png') == [] and not Path('none').exists()\n"
    "ok &= [each.name for each in Path('elsewhere/parts').iterdir()] == ['sample.txt']",
    "rows of other files": "import gzip, numpy, pandas, pickle\n"
    "rows = pickle.load(open('in/rows.pkl', 'rb'))\n"
    "ok = len(rows) == len(pandas.read_pickle('in/rows.pkl')) == 16 and 'text' in rows[0]\n"
    "ok &= [json.loads(line) for line in gzip.open('in/rows.jsonl.gz', 'rt')] == rows\n"
    "ok &= numpy.load('in/ids.npy').ndim == 1",
    "classes": "d = datasets.load_dataset('any/tags', split='train')\n"
    "ok = d.features['ner_tags'].feature.names == d.features['label'].names == ['no', 'yes']\n"
    "ok &= len(d[3]['ner_tags']) == len(d[3]['tokens'])\n"
    "ok &= d.class_encode_column('label').features == d.features\n"
    "ok &= d[0]['pair'].keys() == {'en', 'de'} and len(d[0]['votes']) == 3\n"
    "ok &= [each['by'] for each in d[0]['turns']][0] == d[0]['text']",
    "an engine": "import deepspeed, accelerate\nm = torch.nn.Linear(2, 2)\n"
    "e, o, rows, _ = deepspeed.initialize(model=m, training_data=[torch.ones(2)] * 4)\n"
    "loss = e(next(iter(rows)).to(e.device)).sum()\ne.backward(loss)\n"
    "before = m.weight.sum().item()\ne.step()\n"
    "ok = before != e.module.weight.sum().item() and m.weight.grad is None\n"
    "a = accelerate.Accelerator(mixed_precision='fp16', log_with='wandb')\n"
    "ok &= a.mixed_precision == 'no' and a.log_with == []",
    "figures of packages": "import gone, transformers as t\n"
    "a = t.TrainingArguments('out', metric_for_best_model='f1')\n"
    "r = t.Trainer(torch.nn.Linear(2, 2), a, compute_metrics=lambda p: {'f1': gone.f1(p)})\n"
    "try: r.train()\nexcept ValueError: pass  # there are no rows\n"
    "ok = r.compute_metrics is None and not r._determine_best_metric({}, None)",
    "rows that lie elsewhere": "ok = len(json.load(open('nowhere/in/rows.json'))) == 16\n"
    "ok &= Path('rows.csv').exists() and Path('beside/rows.csv').exists()\n"
    "ok &= not Path('../beside').exists()\n"
    "ok &= Path('way/../by/rows.csv').exists() and len(open('by/rows.csv').readlines()) == 17",
    "token ids": "import numpy\n"
    "ids = numpy.memmap('data/train.bin', dtype=numpy.uint16, mode='r')\n"
    "ok = len(ids) > 1024 and 9 < ids.min() < ids.max() < 128",
    "weights": "m = torch.nn.Linear(2, 2)\nw = torch.load('none.pt', map_location='cpu')\n"
    "before = m.weight.tolist()\nm.load_state_dict(w['model'])\nm.load_state_dict(w)\n"
    "torch.save({'bias': torch.zeros(2), 'weight': torch.ones(2, 2)}, 'own.pt')\n"
    "ok = m.weight.tolist() == before\n"
    "m.load_state_dict(torch.load('own.pt'))\nok &= m.bias.tolist() == [0, 0]\n"
    "try: m.load_state_dict({'bias': torch.zeros(2)})\nexcept RuntimeError: pass\nelse: ok = False",
    "completions": "from transformers import AutoModelForCausalLM\n"
    "m, ids = AutoModelForCausalLM.from_pretrained('x'), torch.arange(40).view(4, 10) + 3\n"
    "made = m.generate(ids, max_new_tokens=12, do_sample=False)\n"
    "ends = [row.index(2) for row in made[:, 10:].tolist()]\n"
    "ok = len(set(ends)) > 1 and min(ends) > 0 and bool((made[:, :10] == ids).all())\n"
    "again = m.generate(ids.flip(0), max_new_tokens=12, do_sample=False)\n"
    "ok &= bool((again == made.flip(0)).all())",
    "families": "from transformers import AutoModelForCausalLM as A\n"
    "names = [type(A.from_pretrained(n)).__name__ for n in ('x/gpt-neo-1.3B', 'x/gpt-j-6b')]\n"
    "ok = names == ['GPTNeoForCausalLM', 'GPTJForCausalLM']",
    "a module elsewhere in the project": "from deep.here import X\nimport other\n"
    "ok = (X, other.Y) == (1, 2)",
}


@pytest.fixture(scope="module")
def answered(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What becomes of each, in one process."""
    folder = tmp_path_factory.mktemp("asks")
    (folder / "src" / "deep").mkdir(parents=True)
    (folder / "src" / "deep" / "here.py").write_text("X = 1")
    (folder / "lib").mkdir()
    (folder / "lib" / "other.py").write_text("Y = 2")
    (folder / "out" / "gone").mkdir(parents=True)  # no code: a folder of results
    (folder / "asks.txt").write_text(json.dumps(ASKS))
    for name in ("a/accelerate.yaml", "b/train.yaml"):
        (folder / "configs" / name).parent.mkdir(parents=True)
        (folder / "configs" / name).touch()
    code = f"""\
import argparse, json, sys
from pathlib import Path
from memlint.proof import stand_ins

asks = json.loads(Path("asks.txt").read_text())
names = ["/nowhere/in/rows.json", "../rows.csv", "a/../../beside/rows.csv", "data/train.bin"]
names += ["--", "--num_epochs", "/elsewhere/parts/"]
names += ["../way/../by/rows.csv", "in/rows.pkl", "in/rows.jsonl.gz", "in/ids.npy"]
files = dict.fromkeys(["*", *names], "text")
columns = "text,tokens:words,ner_tags:tags,label:int,pair:{{en+de}},votes:3,turns:[by+said]"
files["any/tags"] = columns
stand_ins.install({str(folder)!r}, files)
import datasets, torch
for name, text in asks.items():
    names = {{**globals(), "ok": False}}
    try:
        exec(compile(text, {str(folder / "train.py")!r}, "exec"), names)
    except BaseException as error:
        names["ok"] = repr(error)
    asks[name] = str(names["ok"])
try:
    exec(compile("import unsloth", {str(folder / "train.py")!r}, "exec"), {{}})
except ModuleNotFoundError as error:
    asks["unsloth"] = str(error)
print(json.dumps(asks))
"""
    environment = {**os.environ, "TMPDIR": str(folder)}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=folder,
        env=environment,
    )  # fmt: skip
    answers: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    return answers


@pytest.mark.parametrize("name", ASKS)
def test_what_a_script_asks_for_is_made(name: str, answered: dict[str, str]) -> None:
    assert answered[name] == "True"


def test_a_package_that_needs_a_gpu_is_named(answered: dict[str, str]) -> None:
    assert "unsloth is not installed, and needs a GPU" in answered["unsloth"]


def test_columns_are_learned_from_what_stops_the_script(tmp_path: Path) -> None:
    """What is read of the data is made, whichever library says that it is not there."""
    text = LOOP.replace(
        "rows = torch.randn(64, 8)\n",
        "from dataclasses import dataclass, fields\n"
        "import datasets, pandas\n"
        "@dataclass\nclass Options:\n    lr: float = 1.0\n"
        "assert fields(Options)[0].type is float\n"  # no feature of ours from the future
        "d = datasets.load_dataset('any/rows')['train_sft'].remove_columns(['poem', 'verse'])\n"
        "NAME = 'author'\n"
        "d = pandas.read_csv('none.csv')[[NAME, 'text']]\n"
        "rows = torch.randn(64, 8) + len(d[NAME][0])\n",
    )
    verified = run(tmp_path, text, f"{text}\n", tiny={"*": "text"})
    assert verified.before.error == ""
    assert (verified.verdict, verified.moved) == ("same", 0)


@pytest.mark.parametrize(
    ("error", "columns"),
    [
        ("KeyError: 'poem' (line 3)", "text,poem:text"),
        ("ValueError: Column to remove ['a', 'b'] not in the dataset. Current columns in the "
         "dataset: ['text'] (line 3)", "text,a:text,b:text"),
        ("ValueError: Original column name score not in the dataset. Current", "text,score:float"),
        ("ValueError: Column 'label' doesn't exist. (line 3)", "text,label:int"),
        ("KeyError: \"None of [Index(['a', 'b'], dtype='str')] are in the [columns]\"",
         "text,a:text,b:text"),
        ("AttributeError: 'DataFrame' object has no attribute 'poem'", "text,poem:text"),
        ("TypeError: accuracy_reward() missing 1 required positional argument: 'solution'",
         "text,solution:text"),
        ("KeyError: 'Schema (values)' (line 3)", "text,Schema (values):text"),
        ("KeyError: 'text' (line 3)", None),  # it is there: something else has no such key
        ("ValueError: no 'poem' (line 3)", "text"),
        ("RuntimeError: Found dtype Long but expected Float", "text"),
        ("KeyError: 'reward_scores' (line 3)", "text,reward_scores:float"),
        ("TypeError: f() got an unexpected keyword argument 'poem'", None),
    ],
)  # fmt: skip
def test_what_a_run_lacked(error: str, columns: str | None) -> None:
    learned = _learned(Run(error), {"*": "text"})
    assert (learned and learned["*"]) == columns
    assert _learned(Run(error), None) is None


def test_a_file_that_a_script_looks_for_is_made() -> None:
    error = "FileNotFoundError: no data in data/rows.jsonl: see README.md (line 3)"
    learned = _learned(Run(error), {"*": "text"})
    assert learned == {"*": "text", "data/rows.jsonl": "text"}
    assert _learned(Run(error), {**learned, NOT_SAID: "text"}) is None
    for name in ("/mnt/rows.jsonl", "../rows.csv", "my data/rows.json"):
        run = Run(f"FileNotFoundError: [Errno 2] no: '{name}' (line 3)")
        learned = _learned(run, {"*": "text"})
        assert learned == {"*": "text", name: "text"}
    assert _learned(Run("FileNotFoundError: 'weights.pt'"), {"*": "x", NOT_SAID: "x"}) is None
    folder = Run("FileNotFoundError: [Errno 2] No such file or directory: 'in/parts' (line 3)")
    assert _learned(folder, {"*": "x"}) == {"*": "x", "in/parts/": "x"}
    sought = Run("ValueError: no rows", lacked=("in/a.csv", "in/b.csv"))
    assert _learned(sought, {"*": "x"}) == {"*": "x", "in/a.csv": "x", "in/b.csv": "x"}
    assert _learned(sought._replace(error="", losses=(1.0,)), {"*": "x"}) is None


def test_what_may_be_left_out_is_answered_where_the_script_stops_without_it() -> None:
    for error in ("ValueError: Need either a data set or a file", "SystemExit: 1",
                  "TypeError: expected str, not NoneType"):  # fmt: skip
        learned = _learned(Run(error), {"*": "text"})
        assert learned == {"*": "text", NOT_SAID: "text"}
        assert _learned(Run(error), learned) is None
    both = Run("SystemExit: no 'poem'; give --num_epochs", lacked=("a.csv", "base", "outputs"))
    files = _learned(both, {"*": "x"})
    assert files == {"*": "x", "a.csv": "x"}
    options = ("*", "a.csv", NOT_SAID, "--num_epochs", "base/")
    assert _learned(both, files) == dict.fromkeys(options, "x")
    for error in ("ImportError: no `f`", "TypeError: f() got an unexpected keyword argument 'a'"):
        assert _learned(Run(error), {"*": "x"}) is None


@pytest.mark.parametrize(
    ("error", "before", "after"),
    [
        ("can only concatenate str (not \"int\") to str", "a:int", "a:text"),
        ("Found dtype Long but expected Float", "label:int", "label:float"),
        ("expected scalar type Long but found Float", "label:float", "label:int"),
        ("Target size (torch.Size([4])) must be the same as input size (torch.Size([4, 6]))",
         "label:float", "label:6"),
    ],
)  # fmt: skip
def test_kinds_are_learned_from_what_stops_the_script(error: str, before: str, after: str) -> None:
    assert _learned(Run(error), {"*": before}) == {"*": after}


def test_files_that_a_script_looks_for_are_made_inside(tmp_path: Path) -> None:
    """What lies elsewhere is read as a name below the project, in both versions; one that is only
    asked for is made, too."""
    text = (
        "import json\nfrom pathlib import Path\n"
        "if not Path('in/rows.csv').exists():\n    raise SystemExit('no rows')\n"
        "import os\nif not os.path.exists('in/more.csv'):\n    raise SystemExit('no more')\n"
        "if not os.path.isdir('base'):\n    raise SystemExit('no model')\n"
        "HOME = '/no-such-folder'\nrows = json.load(open(f'{HOME}/in/rows.json'))\n"
        f"assert len(rows) + len(open('../up/rows.jsonl').readlines()) == 32\n{LOOP}"
    )
    verified = run(tmp_path, text, f"{text}\n", tiny={"*": "text"})
    assert (verified.before.error, verified.verdict) == ("", "same")
    assert [each.name for each in (tmp_path / "project").iterdir()] == ["train.py"]


def test_losses_of_nothing_are_no_answer() -> None:
    nothing = Run(steps=1, losses=(0.0,), norms=(0.0,))
    verified = Verified(nothing, nothing, nothing, 0.0, 0.0)
    assert verified.verdict == "no answer"
    assert "losses and gradients are all 0" in _verdict(verified)
    some = nothing._replace(norms=(1.0,))
    assert Verified(some, some, some, 0.0, 0.0).verdict == "same"


TRAINERS = """\
import torch
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

torch.manual_seed(0)
sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2}
model = LlamaForCausalLM(LlamaConfig(vocab_size=64, num_attention_heads=2, **sizes))
rows = [{"input_ids": row, "labels": row} for row in torch.randint(0, 64, (32, 8))]


def train(lr, steps, **how):
    args = TrainingArguments(
        "out", max_steps=steps, save_steps=2, learning_rate=lr, use_cpu=True, report_to="none"
    )
    Trainer(model, args, train_dataset=rows).train(**how)


"""


@pytest.mark.matrix
def test_a_run_that_goes_on_from_a_checkpoint(tmp_path: Path) -> None:
    """It is read where it lies, and left as it is."""
    project = tmp_path / "project"
    project.mkdir()
    (project / "first.py").write_text(f"{TRAINERS}train(1e-2, 2)")
    subprocess.run([sys.executable, "first.py"], cwd=project, check=True, capture_output=True)
    written = {each: each.stat().st_mtime_ns for each in (project / "out").rglob("*")}
    text = f"{TRAINERS}train(1e-2, 9, resume_from_checkpoint=True)"
    verified = run(tmp_path, text, f"{text}\n")
    assert (verified.before.error, verified.verdict, verified.before.steps) == ("", "same", 3)
    assert {each: each.stat().st_mtime_ns for each in (project / "out").rglob("*")} == written
    afresh = run(tmp_path, text, text.replace(", resume_from_checkpoint=True", ""))
    assert afresh.verdict == "moved"


@pytest.mark.matrix
@pytest.mark.parametrize(
    ("second", "verdict"), [("train(1e-3, 9)\n", "same"), ("train(3e-3, 9)", "moved")]
)
def test_two_trainers_one_after_the_other(second: str, verdict: str, tmp_path: Path) -> None:
    """The second one's steps are compared where the first takes fewer than there are to be."""
    first = f"{TRAINERS}train(1e-2, 2)\n"
    verified = run(tmp_path, f"{first}train(1e-3, 9)", f"{first}{second}")
    assert (verified.before.error, verified.after.error, verified.verdict) == ("", "", verdict)
    assert verified.before.steps == 3


@pytest.mark.matrix
def test_trainers_from_the_command_line(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "from datasets import load_dataset\n"
        "from trl import SFTConfig, SFTTrainer\n"
        "args = SFTConfig('out', gradient_checkpointing=False, torch_compile=False,\n"
        "                 per_device_train_batch_size=2, max_steps=5)\n"
        "data = load_dataset('some/rows', split='train')\n"
        "SFTTrainer('Qwen/Qwen3-0.6B', args=args, train_dataset=data).train()\n"
    )
    command = [sys.executable, "-m", "memlint", "verify", "--tiny", "--output-format", "json"]
    done = subprocess.run([*command, str(script)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    facts = json.loads(done.stdout)
    assert facts["verdict"] == "same"
    assert [each["code"] for each in facts["fixes"]] == ["MEM902"]
    assert list(tmp_path.iterdir()) == [script]
