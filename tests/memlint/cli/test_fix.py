"""``memlint fix``: what is written, what is left, what is shown instead."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from memlint.cli.main import run
from memlint.rule.findings import Level
from memlint.run.jobs import Job
from memlint.run.results import FixResult
from memlint.run.session import Session
from tests.memlint.cli.inputs import stdin, write
from tests.memlint.fakes import install, word_rule
from tests.memlint.test_notebook import as_bytes, notebook


def test_fix_applies_what_is_safe_and_says_what_is_left(
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = write("a.py", "x = alpha\ny = alpha + beta\n")
    assert run(["fix"]) == 1
    assert path.read_text() == "x = omega\ny = omega + beta\n"
    captured = capsys.readouterr()
    assert captured.out == "a.py: fixed 2 findings\n    MEM301 write omega (2 times)\n"
    assert captured.err == (
        "Fixed 2 findings in 1 file; 1 finding remains, 1 fixable with `--unsafe-fixes`.\n"
        "`memlint check` shows what remains.\n"
    )
    assert run(["fix", "--exit-zero"]) == 0
    assert run(["fix", "--unsafe-fixes"]) == 0
    assert path.read_text() == "x = omega\ny = omega + psi\n"
    capsys.readouterr()
    assert run(["fix"]) == 0
    assert capsys.readouterr().err == "Nothing to fix.\n"


def test_unsafe_fixes_by_configuration() -> None:
    path = write("a.py", "beta\n")
    write("memlint.toml", "unsafe-fixes = true")
    assert run(["fix", "--no-unsafe-fixes"]) == 1
    assert path.read_text() == "beta\n"
    assert run(["fix"]) == 0
    assert path.read_text() == "psi\n"


def test_diff_and_check_write_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    path = write("sub/a.py", "alpha\r\nbeta\r\n")
    assert run(["fix", "--diff"]) == 0
    out = capsys.readouterr().out
    assert out == "--- a/sub/a.py\n+++ b/sub/a.py\n@@ -1,2 +1,2 @@\n-alpha\r\n+omega\r\n beta\r\n"
    assert run(["fix", "--check"]) == 1
    assert "sub/a.py: would fix 1 finding" in capsys.readouterr().out
    assert run(["fix", "--diff", "--check"]) == 1
    assert path.read_bytes() == b"alpha\r\nbeta\r\n"
    run(["fix"])
    assert run(["fix", "--check"]) == 0
    assert path.read_bytes() == b"omega\r\nbeta\r\n"


@pytest.mark.skipif(shutil.which("git") is None, reason="git reads the patch")
@pytest.mark.parametrize(
    ("here", "given"),
    [
        ("repo/sub", "../Train.py"),
        ("other", "../repo/sub/../Train.py"),
        ("other", "{root}/repo/Train.py"),
        ("repo", "{root}/repo/Train.py"),
        ("repo", "./sub/.././Train.py"),
    ],
)
def test_git_applies_the_diff_of_a_file_wherever_it_lies(
    here: str,
    given: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = write("repo/Train.py", "alpha\n").absolute()
    write("repo/sub/b.py", "alpha\n")
    Path("other").mkdir()
    subprocess.run(["git", "init", "-q", "repo"], check=True)
    monkeypatch.chdir(here)
    assert run(["fix", "--diff", given.format(root=tmp_path)]) == 0
    patch = capsys.readouterr().out
    assert patch.startswith("--- a/Train.py\n+++ b/Train.py\n")
    subprocess.run(["git", "apply", "-"], input=patch.encode(), cwd=path.parent, check=True)
    assert path.read_text() == "omega\n"


@pytest.mark.skipif(shutil.which("git") is None, reason="git reads the patch")
@pytest.mark.parametrize("name", ["a\n::warning x.py", 'sub/q".py', "b\\s.py", "ä.py", "::x y.py"])
def test_git_applies_the_diff_of_a_file_of_any_name(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(name, "alpha\nbeta\n")
    assert run(["fix", "--diff", "."]) == 0
    patch = capsys.readouterr().out
    assert not any(line.startswith("::") for line in patch.split("\n"))
    subprocess.run(["git", "apply", "-"], input=patch.encode(), check=True)
    assert path.read_text() == "omega\nbeta\n"


@pytest.mark.parametrize("command", ["check", "fix"])
def test_a_file_named_as_a_command_does_not_begin_a_line(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write("::error::x.py", "alpha\nbeta\n")
    run([command, "--output-format", "concise"] if command == "check" else [command])
    captured = capsys.readouterr()
    assert "./::error::x.py" in captured.out
    assert not any(line.startswith("::") for line in (captured.out + captured.err).split("\n"))


def test_a_diff_outside_of_every_repository_names_the_whole_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write("a.py", "alpha\n").resolve()
    Path("sub").mkdir()
    monkeypatch.chdir("sub")
    assert run(["fix", "--diff", "../a.py"]) == 0
    assert capsys.readouterr().out.startswith(f"--- a{path.as_posix()}\n")


def test_diff_of_a_notebook_is_by_cell(capsys: pytest.CaptureFixture[str]) -> None:
    write("n.ipynb", as_bytes(notebook("x = 1", "!ls\ny = alpha\n")))
    assert run(["fix", "--diff"]) == 0
    assert capsys.readouterr().out == (
        "--- a/n.ipynb:cell 2\t\n+++ b/n.ipynb:cell 2\t\n"
        "@@ -1,2 +1,2 @@\n !ls\n-y = alpha\n+y = omega\n"
    )


def test_fix_of_a_notebook_changes_its_cell_alone() -> None:
    data = as_bytes(notebook("!pip install x\ny = alpha", ["a = 1\n", "alpha"]), indent=2)
    path = write("n.ipynb", data)
    assert run(["fix"]) == 0
    assert path.read_bytes() == data.replace(b"alpha", b"omega")


def test_fix_keeps_encoding_mode_and_links() -> None:
    data = b"\xef\xbb\xbfx = '\xc3\xa4'\r\nalpha"
    path = write("real.py", data)
    path.chmod(0o755)
    os.symlink("real.py", "link.py")
    latin = write("latin.py", b"# coding: latin-1\nalpha = '\xe4'\n\x0c\n")
    assert run(["fix", "link.py", "latin.py"]) == 0
    assert path.read_bytes() == data.replace(b"alpha", b"omega")
    assert stat.S_IMODE(path.stat().st_mode) == 0o755
    assert Path("link.py").is_symlink()
    assert latin.read_bytes() == b"# coding: latin-1\nomega = '\xe4'\n\x0c\n"


def test_fix_leaves_broken_files_and_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    write("a.py", "alpha = (\n")
    good = write("b.py", "alpha\n")
    assert run(["fix"]) == 1
    assert good.read_text() == "omega\n"
    assert "a.py:1:9: MEM002 does not parse" in capsys.readouterr().err


def test_fix_that_cannot_be_written_is_told(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write("a.py", "alpha\n")

    def full(path: str, data: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("memlint.fix.atomic.write_atomically", full)
    assert run(["fix"]) == 2
    assert "could not be written: no space left on device" in capsys.readouterr().err
    assert path.read_text() == "alpha\n"


def test_a_file_that_may_not_be_written_is_named_as_it_is_and_counted(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write("Data/Train.py", "alpha\nalpha\ngamma\n")
    good = write("b.py", "alpha\n")

    def may(target: Path, mode: int) -> bool:
        return os.path.basename(target) != "Train.py"

    monkeypatch.setattr("memlint.fix.atomic.os.access", may)
    assert run(["fix", "Data"]) == 2
    assert path.read_text() == "alpha\nalpha\ngamma\n"
    assert capsys.readouterr().err == (
        f"error: Data/Train.py: could not be written: {path.resolve()} is read-only; "
        "left as it was\n"
        "2 fixes in 1 file not written; 2 findings remain.\n"
        "`memlint check` shows what remains.\n"
    )
    assert run(["fix", "Data", "b.py"]) == 2
    assert good.read_text() == "omega\n"
    assert (
        "Fixed 1 finding in 1 file; 2 fixes in 1 file not written; 2 findings remain.\n"
        in capsys.readouterr().err
    )


def test_a_file_that_changes_meanwhile_is_left(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write("a.py", "alpha\n")
    fix = Session.fix

    def fix_and_edit(session: Session, job: Job, data: bytes) -> FixResult:
        result = fix(session, job, data)
        path.write_text("gamma\n")
        return result

    monkeypatch.setattr("memlint.run.session.Session.fix", fix_and_edit)
    assert run(["fix"]) == 2
    error = capsys.readouterr().err
    assert "changed while it was being fixed" in error
    assert "1 fix in 1 file not written; 1 finding remains.\n" in error
    assert path.read_text() == "gamma\n"


def test_fix_of_standard_input(
    monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    stdin(monkeypatch, b"alpha\r\nbeta\r\n")
    assert run(["fix", "-"]) == 1
    sys.stdout.flush()
    assert capfdbinary.readouterr().out == b"omega\r\nbeta\r\n"
    stdin(monkeypatch, b"alpha = (\n")
    assert run(["fix", "-"]) == 1
    captured = capfdbinary.readouterr()
    assert captured.out == b"alpha = (\n"
    assert captured.err.startswith(b"stdin.py:1:9: MEM002 does not parse")


def test_fix_over_several_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memlint.run.checking.usable_processes", lambda size: 2)
    paths = [write(f"f{number}.py", "alpha\n") for number in range(20)]
    assert run(["fix", "-q"]) == 0
    assert all(path.read_text() == "omega\n" for path in paths)


def test_the_fix_of_a_hint_is_applied_only_if_it_is_selected(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    hint = word_rule("MEM504", "delta", replacement="phi", level=Level.HINT)
    install(monkeypatch, (hint,))
    path = write("a.py", "delta\n")
    assert run(["check"]) == 0
    assert "advice: write phi" in (out := capsys.readouterr().out)
    assert "fixable" not in out
    for arguments in ([], ["--unsafe-fixes"], ["--select", "MEM5"], ["--select", "ALL"]):
        run(["fix", *arguments])
        assert path.read_text() == "delta\n"
    run(["fix", "--select", "MEM504"])
    assert path.read_text() == "phi\n"


def test_fix_fixes_as_many_as_check_promises(capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("a.py", "b.py"):
        write(name, "alpha\nalpha\nbeta\n")
    run(["check"])
    assert "4 fixable with `memlint fix`, 2 more with `--unsafe-fixes`" in capsys.readouterr().out
    run(["fix", "--unsafe-fixes"])
    assert "Fixed 6 findings in 2 files" in capsys.readouterr().err


def test_what_follows_from_a_fix_is_counted_apart(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    second = word_rule("MEM302", "omega", replacement="last")
    install(monkeypatch, (word_rule("MEM301", "alpha", replacement="omega"), second))
    write("a.py", "alpha\n")
    run(["check"])
    assert "1 fixable with" in capsys.readouterr().out
    run(["fix"])
    assert "Fixed 1 finding and 1 that followed from a fix in 1 file." in capsys.readouterr().err


def test_other_hard_links_are_reported(capsys: pytest.CaptureFixture[str]) -> None:
    os.link(write("a.py", "alpha\n"), "b.txt")
    run(["fix"])
    assert "a.py: 1 hard link to it keeps the old content" in capsys.readouterr().err
    assert Path("b.txt").read_text() == "alpha\n"


def test_a_file_and_links_to_it_are_fixed_in_one_run(capsys: pytest.CaptureFixture[str]) -> None:
    write("real.py", "alpha\n")
    os.symlink("real.py", "a_link.py")
    os.symlink("real.py", "z_link.py")
    os.link("real.py", "other.py")
    assert run(["fix"]) == 0
    assert Path("real.py").read_text() == Path("other.py").read_text() == "omega\n"
    assert Path("a_link.py").is_symlink()
    assert "changed while" not in capsys.readouterr().err


def test_a_diff_is_raw_for_patch_and_visible_for_people(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write("a.py", "alpha  # \x1b[31m\r\n")
    run(["fix", "--diff"])
    assert "-alpha  # \x1b[31m\r\n" in capsys.readouterr().out
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    run(["fix", "--diff", "--no-color"])
    out = capsys.readouterr().out
    assert "-alpha  # \N{SYMBOL FOR ESCAPE}[31m\n" in out
    assert "\x1b" not in out


_TERMINATED = """
import os, signal, sys
from memlint.cli.main import run
from memlint.fix import atomic

def end(*_):
    os.kill(os.getpid(), signal.SIGTERM)

os.fsync = end
sys.exit(run(["fix", "--no-cache", "--target", "trl=1.16,transformers=5.23"]))
"""


def test_a_request_to_end_leaves_nothing_beside_the_script(tmp_path: Path) -> None:
    text = (
        "from transformers import TrainingArguments\n"
        "args = TrainingArguments('out', evaluation_strategy='no')\n"
    )
    write("a.py", text)
    done = subprocess.run(
        [sys.executable, "-c", _TERMINATED], capture_output=True, text=True, check=False
    )
    assert done.returncode == 143, done.stderr
    assert done.stderr.splitlines()[-1] == "terminated; no file was left half-written"
    assert os.listdir() == ["a.py"]
    assert Path("a.py").read_text() == text


def test_what_remains_in_a_format_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    path = write("a.py", "x = alpha\ny = beta\n")
    assert run(["fix", "--output-format", "json", "--check"]) == 1
    shown = capsys.readouterr()
    assert [each["message"] for each in json.loads(shown.out)] == [
        "alpha is wasteful",
        "beta is wasteful",
    ]
    assert "would fix 1 finding" in shown.err
    assert run(["fix", "--output-format", "json"]) == 1
    shown = capsys.readouterr()
    (remaining,) = json.loads(shown.out)
    assert (remaining["message"], remaining["location"]["row"]) == ("beta is wasteful", 2)
    assert [each["content"] for each in remaining["fix"]["edits"]] == ["psi"]
    assert "fixed 1 finding" in shown.err
    assert path.read_text() == "x = omega\ny = beta\n"
    assert run(["fix", "--output-format", "github", "--unsafe-fixes"]) == 0
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("other", [["--diff"], ["-"]])
def test_a_diff_or_a_script_leaves_no_room_for_a_report(
    other: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    write("a.py", "x = alpha\n")
    assert run(["fix", "--output-format", "concise", *other]) == 2
    assert "no --output-format concise" in capsys.readouterr().err
