"""``memlint check`` as a user meets it: exit statuses, formats, settings, unreadable files."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from memlint.cli.inputs import colours
from memlint.cli.main import run
from tests.memlint.cli.inputs import stdin, write
from tests.memlint.test_notebook import as_bytes, notebook


@pytest.mark.parametrize(
    ("text", "status"),
    [("x = 1\n", 0), ("gamma\n", 0), ("alpha\n", 1), ("beta\n", 1), ("alpha = (\n", 1), ("", 0)],
)
def test_exit_status(text: str, status: int) -> None:
    write("a.py", text)
    assert run(["check", "a.py"]) == status
    assert run(["check", "--exit-zero", "a.py"]) == 0
    assert run(["check", "--exit-zero", "a.py", "gone.py"]) == 2


def test_a_file_that_does_not_parse_is_a_finding_unless_it_is_to_be_strict() -> None:
    write("a.py", "alpha = (\n")
    assert run(["check", "a.py"]) == 1
    assert run(["check", "--strict", "a.py"]) == 2
    assert run(["check", "--strict", "--exit-zero", "a.py"]) == 2
    write("b.py", "alpha\n")
    assert run(["check", "--strict", "b.py"]) == 1


def test_default_output(capsys: pytest.CaptureFixture[str]) -> None:
    write("a.py", "import os\nx = alpha\n")
    assert run(["check"]) == 1
    assert capsys.readouterr().out == (
        "a.py:2:5: MEM301 [*] alpha is wasteful\n"
        "  why: Each alpha costs 2 GiB.\n"
        "  2 - x = alpha\n"
        "  2 + x = omega\n"
        "\n"
        "Found 1 finding in 1 of 1 file.\n"
        "[*] 1 fixable with `memlint fix`.\n"
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
    assert run(["check", "--output-format", output_format]) == 1
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
        (["check", "--select", ""], "'--select': expected codes as in MEM301,MEM4, got ''"),
        (["check", "--select", "MEM301", "--ignore", ", "], "'--ignore': expected codes"),
        (["check", "--output-format", "xml"], "'xml' is not one of"),
        (["check", "--frobnicate"], "No such option"),
        (["check", "-", "a.py"], "standard input (-) must be the only path"),
        (["check", "--stdin-filename", "x.py", "a.py"], "standard input (-) must be the only path"),
        (["check", "--config", "none.toml"], "none.toml: cannot be read: no such file"),
        (["fix", "-", "a.py"], "standard input (-) must be the only path"),
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


@pytest.mark.parametrize("path", ["", " "])
def test_a_path_of_nothing_is_shown_in_quotes(
    path: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["check", path]) == 2
    assert f"error: '{path}': does not exist\n" in capsys.readouterr().out


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
    assert run(["check", "-"]) == 1


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
        "bad/deep.py", "bad/huge.py", "bad/loop.py", "bad/missing.py", "bad/up", "none.py",
    ]  # fmt: skip
    broken = [item for item in items if item["code"] == "MEM002"]
    assert sorted(item["filename"].removeprefix(base) for item in broken) == [
        "bad/cell.ipynb", "bad/encoding.py", "bad/json.ipynb", "bad/nested.py", "bad/null.py",
        "bad/syntax.py", "bad/utf16.py",
    ]  # fmt: skip
    places = {os.path.basename(item["filename"]): item["location"] for item in broken}
    assert places["syntax.py"] == {"row": 2, "column": 7}
    assert places["encoding.py"] == {"row": 1, "column": 10}
    found = sorted(
        item["filename"].removeprefix(base) for item in items if item["code"] == "MEM301"
    )
    assert found == ["bad/cell.ipynb", "good.py"]


def test_an_unreadable_file_is_told(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write("a.py", "alpha\n")
    opened = os.open

    def refuse(path: str, flags: int, mode: int = 0o777) -> int:
        if path == "a.py":
            raise PermissionError(13, "Permission denied")
        return opened(path, flags, mode)

    monkeypatch.setattr("memlint.source.reading.os.open", refuse)
    assert run(["check", "a.py"]) == 2
    assert "a.py: cannot be read: permission denied" in capsys.readouterr().out


def test_a_named_file_that_does_not_parse_is_told_whatever_it_is_about() -> None:
    write("a.py", "def f(:\n")
    assert run(["check", "a.py"]) == 1
    assert run(["check", "."]) == 0, "in a folder only files that concern us are parsed"


NOTHING = "no Python files, notebooks or recipes found"


@pytest.mark.parametrize("command", [["check"], ["fix"], ["fix", "--check"]])
@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.py", b"print 'python 2'\n"),
        ("a.py", b"\xff\n"),
        ("a.py", b"x = {{ template }} {% for %}\n"),
        ("script", b"#!/usr/bin/env python\nprint 1\n"),
        ("a.ipynb", as_bytes(notebook("x = (", "y"))),
        ("a.ipynb", b""),
        ("a.yaml", b"a: [\n"),
        ("a.sh", b"python \0 $("),
    ],
)
def test_a_hook_passes_over_broken_files_that_do_not_train(
    command: list[str], name: str, data: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    write(name, data)
    is_python = not name.endswith((".yaml", ".sh"))
    assert run([*command, "--force-exclude", "-q", name]) == 0
    said = "".join(capsys.readouterr())
    assert said == ("" if is_python else f"memlint: {NOTHING} under {name}\n")


@pytest.mark.parametrize(
    ("name", "data", "place"),
    [
        ("a.py", b"alpha\ndef f(:\n", "a.py:2:7: MEM002 does not parse"),
        ("a.py", b"alpha = '\xff'\n", "a.py:1:10: MEM002 is not UTF-8"),
        ("a.py", b"alpha  # memlint: ignore[MEM301]\ny = (\n", "a.py:2:5: MEM002 does not parse"),
        ("a.ipynb", as_bytes(notebook("alpha", " x = 1")), "a.ipynb:2:1:1: MEM002 cell 2 does"),
        ("a.ipynb", b'{"cells": [alpha', "a.ipynb:1:12: MEM002 is broken JSON"),
    ],
)
def test_a_broken_file_that_trains_is_a_finding(
    name: str, data: bytes, place: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(name, data)
    write("good.py", "alpha\n")
    concise = ["check", "--output-format", "concise", "--force-exclude"]
    for arguments in (["."], [name, "good.py"], [name, "good.py", "--select", "MEM301"]):
        assert run([*concise, *arguments]) == 1
        assert run([*concise, *arguments]) == 1, "from the cache too"
        out = capsys.readouterr().out
        assert out.count(place) == 2
        assert "good.py:1:1: MEM301" in out
        assert "kept files" not in out
    assert run([*concise, "--ignore", "MEM002", name, "-q"]) in (0, 1)
    assert "MEM002" not in capsys.readouterr().out
    assert run(["fix", "--force-exclude", name, "good.py"]) == 1
    assert place in capsys.readouterr().err
    assert Path("good.py").read_text() == "omega\n"
    if name.endswith(".py"):
        assert path.read_bytes() == data
    assert run(["fix", "--force-exclude", "--exit-zero", name]) == 0


def test_a_comment_keeps_a_broken_file() -> None:
    write("a.py", "# memlint: ignore-file[MEM002]\nalpha = (\n")
    write("b.py", "# memlint: ignore-file\nalpha = (\n")
    assert run(["check"]) == 0
    write("c.py", "# memlint: ignore-file[MEM301]\nalpha = (\n")
    assert run(["check"]) == 1


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


@pytest.mark.parametrize("value", ["0", "false"])
def test_force_color_can_say_no(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", value)
    assert colours(None, sys.stdout) is False
