"""What changes from one version of a script to the next: findings and peaks, new and mended."""

from __future__ import annotations

import json

import pytest

from memlint.cli.main import run
from tests.memlint.cli.inputs import write
from tests.memlint.cli.test_adoption import Out, commit, git


def test_two_scripts(capsys: Out) -> None:
    write("a.py", "alpha()\nx = 1\n")
    write("b.py", "x = 1\n\n\nalpha()\nalpha(2)\n")
    assert run(["compare", "a.py", "b.py"]) == 1
    out = capsys.readouterr().out
    assert "  + MEM301 line 5: alpha is wasteful" in out
    assert "line 4" not in out
    assert "1 new, 0 mended, in 1 file." in out
    assert run(["compare", "b.py", "a.py"]) == 0
    assert "  - MEM301 line 5" in capsys.readouterr().out
    assert run(["compare", "a.py", "a.py"]) == 0
    assert capsys.readouterr().out == "No finding and no peak changed.\n"


def test_since_a_commit(capsys: Out, monkeypatch: pytest.MonkeyPatch) -> None:
    git("init", "-q")
    write("deep/a.py", "alpha()\n")
    write("deep/b.py", "alpha()\n")
    commit()
    write("deep/a.py", "x = 1\n")
    write("deep/new | odd.py", "alpha()\n")
    assert run(["compare", "--base", "HEAD", "--output-format", "markdown"]) == 1
    out = capsys.readouterr().out
    assert "| `deep/a.py` |  | ~~MEM301 line 1: alpha is wasteful~~ |" in out
    assert "| `deep/new \\| odd.py` |  | **new** MEM301 line 1: alpha is wasteful |" in out
    assert "deep/b.py" not in out
    monkeypatch.chdir("deep")
    assert run(["compare", "--base", "HEAD", "a.py", "--output-format", "json"]) == 0
    (item,) = json.loads(capsys.readouterr().out)
    assert item["path"] == "a.py"
    assert [each["code"] for each in item["mended"]] == ["MEM301"]
    assert item["new"] == []


def test_tests_of_a_commit_are_tests_too(capsys: Out) -> None:
    git("init", "-q")
    write("tests/a.py", "alpha()\n")
    commit()
    write("b.py", "x = 1\n")
    assert run(["compare", "--base", "HEAD"]) == 0
    assert capsys.readouterr().out == "No finding and no peak changed.\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "expected two scripts"),
        (["a.py"], "expected two scripts"),
        (["a.py", "none.py"], "none.py: does not exist"),
        (["--base", "HEAD"], "--base: git failed: fatal: not a git repository"),
        (["--base", "HEAD", "a.py", "a.py"], "--base takes one"),
    ],
)
def test_what_cannot_be_compared(arguments: list[str], words: str, capsys: Out) -> None:
    write("a.py", "alpha()\n")
    assert run(["compare", *arguments]) == 2
    assert words in capsys.readouterr().err
