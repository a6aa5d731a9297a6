"""The command line as a user meets it: exit statuses, formats, input, configuration, fixing."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from io import BytesIO, TextIOWrapper
from pathlib import Path

import pytest

from memlint import __version__
from memlint.cli.inputs import colours
from memlint.cli.main import run
from memlint.rule.findings import Level
from memlint.run.jobs import Job
from memlint.run.results import FixResult
from memlint.run.session import Session
from memlint.source.reading import read
from tests.memlint.fakes import install, word_rule
from tests.memlint.test_notebook import as_bytes, notebook


@pytest.fixture(autouse=True)
def fakes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    install(monkeypatch)
    monkeypatch.chdir(tmp_path)
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)


def write(name: str, data: str | bytes) -> Path:
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


def stdin(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO(data)))


@pytest.mark.parametrize(
    ("text", "status"),
    [("x = 1\n", 0), ("gamma\n", 0), ("alpha\n", 1), ("beta\n", 1), ("alpha = (\n", 2), ("", 0)],
)
def test_exit_status(text: str, status: int) -> None:
    write("a.py", text)
    assert run(["check", "a.py"]) == status
    assert run(["check", "--exit-zero", "a.py"]) == (2 if status == 2 else 0)


def test_default_output(capsys: pytest.CaptureFixture[str]) -> None:
    write("a.py", "import os\nx = alpha\n")
    assert run(["check"]) == 1
    assert capsys.readouterr().out == (
        "MEM301 [*] alpha is wasteful\n"
        " --> a.py:2:5\n"
        "  |\n"
        "2 | x = alpha\n"
        "  |     ^^^^^\n"
        "why: Each alpha costs 2 GiB.\n"
        "fix: write omega\n"
        "2 - x = alpha\n"
        "2 + x = omega\n"
        "\n"
        "Found 1 finding in 1 of 1 file.\n"
        "1 fixable with `memlint fix`.\n"
    )


def test_colour_follows_options_and_environment(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write("a.py", "alpha\n")
    run(["check"])
    assert "\x1b" not in capsys.readouterr().out, "piped"
    monkeypatch.setenv("FORCE_COLOR", "1")
    run(["check"])
    assert "\x1b" in capsys.readouterr().out
    run(["check", "--no-color"])
    assert "\x1b" not in capsys.readouterr().out
    monkeypatch.setenv("NO_COLOR", "1")
    run(["check"])
    assert "\x1b" not in capsys.readouterr().out


@pytest.mark.parametrize("output_format", ["json", "sarif", "gitlab"])
def test_machine_formats_print_nothing_else(
    output_format: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write("a.py", "alpha\nbeta\n")
    write("b.py", "alpha = (\n")
    assert run(["check", "--output-format", output_format]) == 2
    captured = capsys.readouterr()
    assert json.loads(captured.out)
    assert captured.err == ""


def test_select_ignore_and_statistics(capsys: pytest.CaptureFixture[str]) -> None:
    write("a.py", "alpha\nalpha\nbeta\ngamma\n")
    assert run(["check", "--select", "MEM302", "--output-format", "concise", "-q"]) == 1
    assert capsys.readouterr().out == "a.py:3:1: MEM302 beta is wasteful\n"
    assert run(["check", "--ignore", "MEM3,gamma-used", "-q"]) == 0
    assert capsys.readouterr().out == ""
    assert run(["check", "--statistics", "-q"]) == 1
    assert capsys.readouterr().out.split("\n")[0] == "2  MEM301  [*]  alpha-used"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["check", "--select", "MEM303"], "no rule is called 'MEM303'; did you mean"),
        (["check", "--output-format", "xml"], "'xml' is not one of"),
        (["check", "--frobnicate"], "No such option"),
        (["check", "-", "a.py"], "standard input (-) is the only path"),
        (["check", "--stdin-filename", "x.py", "a.py"], "standard input (-) is the only path"),
        (["check", "--config", "none.toml"], "none.toml: cannot be read: no such file"),
        (["fix", "-", "a.py"], "standard input (-) is the only path"),
        (["rule", "MEM302x"], "no rule is called 'MEM302x'; did you mean 'MEM302'?"),
        (["frobnicate"], "No such command"),
    ],
)
def test_usage_errors_exit_with_2_and_no_traceback(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write("a.py", "alpha\n")
    assert run(arguments) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert "Traceback" not in captured.err
    assert captured.out == ""


def test_configuration_errors_are_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    write("sub/memlint.toml", "selct = []")
    write("sub/a.py", "alpha\n")
    assert run(["check", "sub"]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert error.endswith("sub/memlint.toml: unknown key 'selct'; did you mean 'select'?\n")


def test_configuration_is_honoured(capsys: pytest.CaptureFixture[str]) -> None:
    write(
        "pyproject.toml",
        '[tool.memlint]\nignore = ["MEM302"]\nper-file-ignores = {"t/*" = ["MEM301"]}\n',
    )
    for name in ("a.py", "t/b.py"):
        write(name, "alpha\nbeta\n")
    assert run(["check", "--output-format", "concise", "-q"]) == 1
    assert capsys.readouterr().out == "a.py:1:1: MEM301 [*] alpha is wasteful\n"
    other = write("other.toml", 'select = ["MEM302"]')
    run(["check", "--config", str(other), "--output-format", "concise", "-q"])
    assert [line.split(" ")[1] for line in capsys.readouterr().out.splitlines()] == ["MEM302"] * 2
    write("pyproject.toml", "[tool.black]\n")
    assert run(["check", "--config", "pyproject.toml"]) == 2
    assert "has no [tool.memlint] section" in capsys.readouterr().err


def test_nothing_to_check_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    Path("empty").mkdir()
    assert run(["check", "empty"]) == 0
    assert "no Python files, notebooks or recipes found under empty" in capsys.readouterr().err


def test_standard_input(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stdin(monkeypatch, b"alpha\n")
    assert run(["check", "-", "--output-format", "concise", "-q"]) == 1
    assert capsys.readouterr().out.startswith("stdin.py:1:1: MEM301")
    stdin(monkeypatch, as_bytes(notebook("x", "alpha")))
    assert run(["check", "-", "--stdin-filename", "n.ipynb", "--output-format", "concise"]) == 1
    assert capsys.readouterr().out.startswith("n.ipynb:2:1:1: MEM301")
    stdin(monkeypatch, b"alpha = (\n")
    assert run(["check", "-"]) == 2


def test_every_bad_input_is_one_diagnostic_and_the_rest_is_checked(
    capsys: pytest.CaptureFixture[str],
) -> None:
    write("bad/syntax.py", "alpha\ndef f(:\n")
    write("bad/encoding.py", b"alpha = '\xff'\n")
    write("bad/null.py", b"alpha\0\n")
    write("bad/utf16.py", "alpha\n".encode("utf-16") + b"alpha")
    write("bad/deep.py", "alpha = " + "-" * 100_000 + "1\n")
    write("bad/nested.py", "alpha = " + "(" * 5_000 + ")" * 5_000 + "\n")
    write("bad/empty.py", "")
    write("bad/json.ipynb", '{"cells": [alpha')
    write("bad/cell.ipynb", as_bytes(notebook("alpha", "broken = (")))
    write("bad/empty.ipynb", "")
    with write("bad/huge.py", "alpha\n").open("r+b") as file:
        file.truncate(50 * 1024 * 1024)
    os.symlink("loop.py", "bad/loop.py")
    os.symlink(os.getcwd(), "bad/up")
    os.symlink("gone.py", "bad/missing.py")
    write("good.py", "alpha\n")
    assert run(["check", "--output-format", "json", "bad", "good.py", "none.py"]) == 2
    items = json.loads(capsys.readouterr().out)
    unread = [item for item in items if item["code"] is None]
    base = os.getcwd() + "/"
    assert sorted(item["filename"].removeprefix(base) for item in unread) == [
        "bad/cell.ipynb", "bad/deep.py", "bad/encoding.py", "bad/huge.py", "bad/json.ipynb",
        "bad/loop.py", "bad/missing.py", "bad/nested.py", "bad/null.py", "bad/syntax.py", "bad/up",
        "bad/utf16.py", "none.py",
    ]  # fmt: skip
    places = {os.path.basename(item["filename"]): item["location"] for item in unread}
    assert places["syntax.py"] == {"row": 2, "column": 7}
    assert places["encoding.py"] == {"row": 1, "column": 10}
    found = sorted(item["filename"].removeprefix(base) for item in items if item["code"])
    assert found == ["bad/cell.ipynb", "good.py"]


def test_an_unreadable_file_is_told(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write("a.py", "alpha\n")
    opened = os.open

    def refuse(path: str, flags: int) -> int:
        if path == "a.py":
            raise PermissionError(13, "Permission denied")
        return opened(path, flags)

    monkeypatch.setattr("memlint.source.reading.os.open", refuse)
    assert run(["check", "a.py"]) == 2
    assert "a.py: cannot be read: permission denied" in capsys.readouterr().out


def test_a_named_file_that_does_not_parse_is_told_whatever_it_is_about() -> None:
    write("a.py", "def f(:\n")
    assert run(["check", "a.py"]) == 2
    assert run(["check", "."]) == 0, "in a folder only files that concern us are parsed"


def test_second_run_comes_from_the_cache(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write("a.py", "alpha\nbeta\n")
    assert run(["check"]) == 1
    first = capsys.readouterr().out
    monkeypatch.setattr("memlint.run.session.check_data", None)
    assert run(["check"]) == 1
    assert capsys.readouterr().out == first
    assert run(["check", "--no-cache"]) == 2
    assert "memlint failed (TypeError" in capsys.readouterr().out


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


def test_diff_of_a_notebook_is_by_cell(capsys: pytest.CaptureFixture[str]) -> None:
    write("n.ipynb", as_bytes(notebook("x = 1", "!ls\ny = alpha\n")))
    assert run(["fix", "--diff"]) == 0
    assert capsys.readouterr().out == (
        "--- a/n.ipynb:cell 2\n+++ b/n.ipynb:cell 2\n"
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


def test_fix_leaves_unreadable_files_and_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    write("a.py", "alpha = (\n")
    good = write("b.py", "alpha\n")
    assert run(["fix"]) == 2
    assert good.read_text() == "omega\n"
    assert "a.py:1:9: does not parse" in capsys.readouterr().err


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
    assert "changed while it was being fixed" in capsys.readouterr().err
    assert path.read_text() == "gamma\n"


def test_fix_of_standard_input(
    monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    stdin(monkeypatch, b"alpha\r\nbeta\r\n")
    assert run(["fix", "-"]) == 1
    sys.stdout.flush()
    assert capfdbinary.readouterr().out == b"omega\r\nbeta\r\n"
    stdin(monkeypatch, b"alpha = (\n")
    assert run(["fix", "-"]) == 2
    captured = capfdbinary.readouterr()
    assert captured.out == b"alpha = (\n"
    assert captured.err.startswith(b"error: stdin.py:1:9: does not parse")


def test_fix_over_several_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memlint.run.checking.usable_processes", lambda size: 2)
    paths = [write(f"f{number}.py", "alpha\n") for number in range(20)]
    assert run(["fix", "-q"]) == 0
    assert all(path.read_text() == "omega\n" for path in paths)


def test_interrupt_is_told_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    write("a.py", "alpha\n")
    monkeypatch.setattr("memlint.run.session.check_data", interrupt)
    assert run(["check", "--no-cache"]) == 130
    assert capsys.readouterr().err.strip() == "interrupted; no file was left half-written"


def test_version_help_and_module() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "memlint", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"memlint {__version__}\n"
    for command in ("check", "fix", "rule", "rules", "target"):
        assert run([command, "--help"]) == 0


def test_a_closed_pipe_is_no_error() -> None:
    write("a.py", "def f(:\n" * 3)
    for number in range(300):
        write(f"f{number}.py", "def f(:\n# trl torch transformers SFTTrainer TrainingArguments\n")
    files = " ".join(f"f{number}.py" for number in range(300))
    done = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m memlint check --no-cache {files} | head -1"],
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.stderr == ""
    assert done.stdout.startswith("error: f0.py:1:7: does not parse")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_output_that_cannot_be_written_is_one_error(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("x = 1\n")
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "memlint", "rules"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            cwd=tmp_path,
            check=False,
        )
    assert done.returncode == 2
    assert done.stderr == "error: the output could not be written: No space left on device\n"


@pytest.mark.parametrize("command", ["check", "fix"])
def test_a_file_is_opened_once(command: str, tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "train.py").write_text("from trl import SFTConfig\nargs = SFTConfig(bf16=1)\n")
    (folder / "old.py").write_text(
        "from transformers import TrainingArguments\n"
        "args = TrainingArguments('out', evaluation_strategy='no')\n"
    )
    script = (
        "import sys\n"
        "opened = []\n"
        "sys.addaudithook(lambda event, given: opened.append(str(given[0]))"
        " if event == 'open' else None)\n"
        "from memlint.cli.main import run\n"
        "run(sys.argv[1:])\n"
        "for name in ('train.py', 'old.py'):\n"
        "    print('opened', sum(path.endswith(name) for path in opened))\n"
    )
    target = "trl=1.16,transformers=5.23"
    done = subprocess.run(
        [sys.executable, "-c", script, command, "--no-cache", "--target", target],
        capture_output=True, text=True, cwd=folder, check=False,
    )  # fmt: skip
    assert done.stdout.splitlines()[-2:] == ["opened 1", "opened 1"], done.stdout + done.stderr
    if command == "fix":
        assert "eval_strategy" in (folder / "old.py").read_text()


@pytest.mark.skipif(not Path("/dev/fd").exists(), reason="the shell gives pipes as files here")
def test_a_pipe_that_is_named_is_read() -> None:
    write("a.py", "def f(:\n")
    done = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m memlint check --no-cache <(cat a.py)"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "does not parse" in done.stdout


def test_an_unexpected_error_costs_one_file_and_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write("a.py", "alpha\n")
    write("b.py", "alpha\n")

    def fail(path: str, *arguments: object) -> object:
        if path == "a.py":
            raise ZeroDivisionError("a surprise")
        return read(path, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr("memlint.source.reading.read", fail)
    for command in ("check", "fix"):
        assert run([command, "--no-cache"]) == 2
        out = "".join(capsys.readouterr())
        assert out.count("error: a.py: memlint failed (ZeroDivisionError: a surprise") == 1
        assert "Traceback" not in out
    assert Path("a.py").read_text() == "alpha\n"
    assert Path("b.py").read_text() == "omega\n"


def test_a_closed_standard_output_is_no_error() -> None:
    write("a.py", "x = 1\n")
    done = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m memlint check --no-cache a.py >&-"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["check", "--fix", "a.py"], "use `memlint fix`"),
        (["check", "--diff"], "use `memlint fix --diff`"),
        (["a.py"], "use `memlint check a.py`"),
        (["folder"], "use `memlint check folder`"),
        (["check", "--statistics", "--output-format", "sarif"], "text or JSON, not sarif"),
    ],
)
def test_what_people_try_is_answered(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write("a.py", "alpha\n")
    Path("folder").mkdir()
    assert run(arguments) == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    ("level", "status"), [("error", 0), ("waste", 0), ("notice", 0), ("hint", 1)]
)
def test_fail_level_says_what_counts(level: str, status: int) -> None:
    write("a.py", "gamma\n")
    for command in ("check", "fix"):
        assert run([command, "--fail-level", level]) == status
    write("a.py", "alpha\n")
    assert run(["check", "--fail-level", "error"]) == 0
    write("a.py", "beta\n")
    assert run(["check", "--fail-level", "error"]) == 1


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


def test_standard_input_follows_exclude_where_a_hook_asks(
    monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    write("memlint.toml", 'exclude = ["old"]')
    for command, status in (("check", 0), ("fix", 0)):
        stdin(monkeypatch, b"alpha\n")
        name = ["--stdin-filename", "old/a.py"]
        assert run([command, "-", "--force-exclude", "-q", *name]) == status
        sys.stdout.flush()
        assert capfdbinary.readouterr().out == (b"alpha\n" if command == "fix" else b"")
        stdin(monkeypatch, b"alpha\n")
        run([command, "-", *name])
        assert capfdbinary.readouterr().out != b"alpha\n"


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


@pytest.mark.parametrize("value", ["0", "false"])
def test_force_color_can_say_no(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", value)
    assert colours(None, sys.stdout) is False


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
