"""What people need who bring a linter to old code: a baseline, a change's own lines, ignores."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from memlint.adopt.changed import read_patch
from memlint.cli.main import run
from tests.memlint.cli.inputs import write

Out = pytest.CaptureFixture[str]


def check(*arguments: str) -> int:
    return run(["check", "--no-cache", "--output-format", "concise", *arguments])


def git(*arguments: str) -> None:
    settings = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main"]
    subprocess.run(["git", *settings, *arguments], check=True, capture_output=True)


def commit() -> None:
    git("add", "-A")
    git("commit", "-qm", "x")


def test_a_baseline_hides_what_was_there_and_shows_what_is_new(capsys: Out) -> None:
    write("a.py", "alpha()\n")
    write("deep/b.py", "x = 1\nalpha()\nalpha()\n")
    assert check("--write-baseline", "base.json") == 0
    assert "Wrote 3 findings to base.json" in capsys.readouterr().out
    assert check("--baseline", "base.json") == 0
    assert "3 findings of the baseline are not shown" in capsys.readouterr().out

    # Code that moves and is formatted anew is known; one of a kind more is new.
    write("deep/b.py", "y = 2\n\nif y:\n    alpha()\nalpha()\nalpha()\n")
    assert check("--baseline", "base.json") == 1
    out = capsys.readouterr().out
    assert "deep/b.py:6:1" in out
    assert "deep/b.py:4" not in out
    assert "a.py:1" not in out
    # What was mended is said.
    write("a.py", "x = 1\n")
    check("--baseline", "base.json")
    assert "1 entry of it is mended (`--write-baseline base.json`)" in capsys.readouterr().out


def test_a_baseline_of_the_configuration_holds_from_any_folder(
    capsys: Out, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("memlint.toml", 'baseline = "base.json"\n')
    write("src/a.py", "alpha()\n")
    assert check("--write-baseline", "base.json") == 0
    monkeypatch.chdir("src")
    assert check() == 0
    assert run(["check", "--no-cache", "--isolated"]) == 1


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "cannot be read"),
        ("[", "is no baseline: expected JSON"),
        ("[]", "is no baseline: expected"),
        ('{"version": 1}', "is no baseline: expected"),
        ('{"version": 1, "files": {"a": {"b": {"c": "d"}}}}', "is no baseline: expected"),
        ('{"version": 9, "files": {}}', "newer memlint"),
        ("[" * 100_000, "is no baseline"),
    ],
)
def test_a_baseline_that_cannot_be_used_is_an_error(
    text: str | None, words: str, capsys: Out
) -> None:
    write("a.py", "alpha()\n")
    if text is not None:
        write("base.json", text)
    assert check("--baseline", "base.json", "a.py") == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: base.json: ")
    assert words in line


def test_only_changed_lines_are_reported(capsys: Out) -> None:
    git("init", "-q")
    write("a.py", "alpha()\nx = 1\nalpha()\n")
    write("same.py", "alpha()\n")
    write("gone.py", "alpha()\n")
    commit()
    Path("gone.py").unlink()
    write("a.py", "alpha()\nx = 1\nalpha()\nalpha()\n")
    write('näw "q".py', "alpha()\nx = 1\ny = 2\n")
    assert check("--diff-base", "HEAD") == 1
    out = capsys.readouterr().out
    assert "a.py:4:1" in out
    assert "a.py:1" not in out
    assert "same" not in out
    assert 'näw "q".py:1:1' in out, "a file that git does not know yet is new"
    commit()
    assert check("--diff-base", "HEAD") == 0
    assert check("--diff-base", "HEAD~1") == 1
    assert 'näw "q".py:1:1' in capsys.readouterr().out, "git quotes such names"


def test_compared_is_where_the_branch_left(capsys: Out) -> None:
    """What others committed meanwhile is not this change's."""
    git("init", "-q", "-b", "main")
    write("a.py", "x = 1\n")
    commit()
    git("checkout", "-qb", "mine")
    write("b.py", "alpha()\n")
    commit()
    git("checkout", "-q", "main")
    write("a.py", "x = 2\n")
    commit()
    git("checkout", "-q", "mine")
    write("a.py", "x = 1\n")
    assert check("--diff-base", "main") == 1
    assert "b.py:1:1" in capsys.readouterr().out


def test_no_history_is_one_clear_line(capsys: Out) -> None:
    write("a.py", "alpha()\n")
    assert check("--diff-base", "HEAD") == 2
    assert "--diff-base: git failed: fatal: not a git repository" in capsys.readouterr().err
    git("init", "-q")
    assert check("--diff-base", "nowhere") == 2
    assert "git knows no commit 'nowhere'" in capsys.readouterr().err


def test_rows_of_a_patch() -> None:
    patch = (
        "diff --git a/a.py b/a.py\n--- a/a.py\n+++ b/a.py\n"
        "@@ -1,2 +1 @@ def f\n--- x\n-y\n+++ z\n@@ -9 +8,0 @@\n-gone\n@@ -20,0 +20,2 @@\n+a\n+b\n"
        'diff --git a/b b/b\n--- a/b\n+++ "b/\\303\\244\\tb.py"\n@@ -0,0 +1 @@\n+x\n'
    )
    assert dict(read_patch(patch)) == {
        "a.py": [range(1, 2), range(9, 9), range(20, 22)],
        "ä\tb.py": [range(1, 2)],
    }


def test_ignores_are_added_and_nothing_else_changes(capsys: Out) -> None:
    text = (
        "# coding: utf-8\r\n"
        "x = 1; alpha()\r\n"
        "if x:\r\n"
        "    alpha(  # why\r\n"
        "        1)\r\n"
        "alpha()  # memlint: ignore[MEM901]\r\n"
        "y = alpha() + \\\r\n    1\r\n"
        's = alpha("""\r\nlong""")'
    )
    write("a.py", text.encode())
    assert check("--ignore", "MEM001", "a.py") == 1
    found = sum(line.startswith("a.py:") for line in capsys.readouterr().out.splitlines())
    assert check("--ignore", "MEM001", "--add-ignore", "--reason", "as it\nwas", "a.py") == 0
    assert f"Ignored {found} findings in 1 file." in capsys.readouterr().out
    after = Path("a.py").read_bytes().decode()
    assert "alpha()  # memlint: ignore[MEM901, MEM301]" in after
    assert "x = 1; alpha()  # memlint: ignore[MEM301] as it was\r\n" in after
    assert "# why  # memlint: ignore[" in after
    assert "ignore[MEM301]\r\ny = alpha" in after or "as it was\r\ny = alpha" in after
    assert "as it was\r\ns = alpha" in after
    assert after.count("\n") == after.count("\r\n") == text.count("\r\n") + 2
    assert check("--ignore", "MEM001", "a.py") == 0, capsys.readouterr().out
    # A second time there is nothing to add.
    assert check("--ignore", "MEM001", "--add-ignore", "a.py") == 0
    assert Path("a.py").read_bytes().decode() == after


def test_ignores_in_a_notebook_and_not_in_what_has_no_comments(capsys: Out) -> None:
    cell = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": 1}
    cells = [{**cell, "source": ["x = 1\n", "alpha()"]}]
    document = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    write("n.ipynb", json.dumps(document, indent=1))
    assert check("--add-ignore", "n.ipynb") == 0
    source = json.loads(Path("n.ipynb").read_text())["cells"][0]["source"]
    assert source[0] == "x = 1\n"
    assert source[1].startswith("alpha()  # memlint: ignore[")
    assert check("n.ipynb") == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--reason", "x"], "--reason goes with --add-ignore"),
        (["--add-ignore", "--write-baseline", "b"], "choose one"),
        (["--isolated", "--config", "memlint.toml"], "exclude each other"),
        (["--exclude", "../x"], "--exclude: a pattern leads out of its folder"),
        (["--output-file", "no/such/folder"], "cannot be written"),
    ],
)
def test_options_that_contradict(arguments: list[str], words: str, capsys: Out) -> None:
    write("a.py", "alpha()\n")
    assert check(*arguments) == 2
    assert words in capsys.readouterr().err


def test_files_and_settings_are_shown(capsys: Out) -> None:
    write("memlint.toml", 'ignore = ["MEM3"]\n')
    write("a.py", "alpha()\n")
    write("old/b.py", "alpha()\n")
    write("c_old.py", "alpha()\n")
    arguments = ["--show-files", "--exclude", "old/", "--extend-exclude", "*_old.py"]
    assert check(*arguments) == 0
    assert capsys.readouterr().out.split() == ["a.py"]
    assert check("--show-settings", "--target", "trl=1.0") == 0
    out = capsys.readouterr().out
    assert "ignore = ['MEM3']" in out
    assert "target = 'trl=1.0'" in out
    assert check("--show-settings", "--isolated") == 0
    assert "ignore = []" in capsys.readouterr().out


def test_the_report_goes_to_a_file(capsys: Out) -> None:
    write("a.py", "alpha()\n")
    run(["check", "--no-cache", "--output-format", "json", "--output-file", "out.json", "a.py"])
    assert capsys.readouterr().out == ""
    assert json.loads(Path("out.json").read_text())


def test_a_path_alone_is_checked_and_check_fix_fixes(capsys: Out) -> None:
    write("a.py", "alpha()\n")
    assert run(["a.py"]) == run(["check", "a.py"]) == 1
    assert run(["none.py"]) == 2
    assert "none.py: does not exist" in capsys.readouterr().out
    assert run(["check", "--fix", "--diff", "a.py"]) == run(["fix", "--diff", "a.py"]) == 0


def test_completion(capsys: Out) -> None:
    for shell in ("bash", "zsh", "fish"):
        assert run(["completion", shell]) == 0
        assert "_MEMLINT_COMPLETE" in capsys.readouterr().out


def test_all_rules_as_json(capsys: Out) -> None:
    assert run(["rule", "--all", "--output-format", "json"]) == 0
    items = json.loads(capsys.readouterr().out)
    assert {"MEM001", "MEM002"} < {each["code"] for each in items}
    assert all(each["page"].startswith(f"# {each['code']} ") for each in items)
    assert run(["rule"]) == 2
    assert "expected a rule" in capsys.readouterr().err
