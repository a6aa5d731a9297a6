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
from memlint.cli.main import run
from memlint.rule.findings import Applicability, Level
from tests.memlint.fakes import ALPHA, install, word_rule
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
    assert "no Python files or notebooks found under empty" in capsys.readouterr().err


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
    monkeypatch.setattr("memlint.run.checking.check_file", None)
    assert run(["check"]) == 1
    assert capsys.readouterr().out == first
    with pytest.raises(TypeError):
        run(["check", "--no-cache"])


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


def test_hints_are_fixed_only_where_their_rule_is_selected(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A hint is a trade, which nobody made by ``--unsafe-fixes`` for everything."""
    hint = word_rule(
        "MEM504",
        "delta",
        replacement="omega",
        level=Level.HINT,
        applicability=Applicability.UNSAFE,
    )
    install(monkeypatch, (ALPHA, hint))
    path = write("a.py", "alpha, delta\n")
    assert run(["check", "a.py"]) == 1
    assert "(a hint: applied with --select MEM504 --unsafe-fixes)" in capsys.readouterr().out
    run(["fix", "--unsafe-fixes", "a.py"])
    assert path.read_text() == "omega, delta\n"
    run(["fix", "--unsafe-fixes", "--select", "ALL", "a.py"])
    assert path.read_text() == "omega, delta\n"
    run(["fix", "--unsafe-fixes", "--select", "MEM504", "a.py"])
    assert path.read_text() == "omega, omega\n"


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

    monkeypatch.setattr("memlint.fix.write_atomically", full)
    assert run(["fix"]) == 2
    assert "could not be written: no space left on device" in capsys.readouterr().err
    assert path.read_text() == "alpha\n"


def test_a_file_that_changes_meanwhile_is_left(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write("a.py", "alpha\n")
    monkeypatch.setattr("memlint.cli.fix.read_bytes", lambda path: b"something else")
    assert run(["fix"]) == 2
    assert "changed while it was being fixed" in capsys.readouterr().err
    assert path.read_text() == "alpha\n"


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
    monkeypatch.setattr("memlint.run.fixing.usable_processes", lambda size: 2)
    paths = [write(f"f{number}.py", "alpha\n") for number in range(20)]
    assert run(["fix", "-q"]) == 0
    assert all(path.read_text() == "omega\n" for path in paths)


def test_interrupt_is_told_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    write("a.py", "alpha\n")
    monkeypatch.setattr("memlint.run.checking.check_file", interrupt)
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
