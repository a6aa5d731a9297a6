"""``python -m memlint.rule.new``: the files that a rule begins with."""

from __future__ import annotations

from pathlib import Path

import pytest

from memlint.rule.new import begin, main


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    files = {
        "rules/memlint_rules/feeding/mem801_short_one.py": "RULE = 1  # of MEM801\n",
        "rules/memlint_rules/feeding/mem801_short_one.md": "## Why it matters\n\nMEM801.\n",
        "rules/memlint_rules/feeding/mem802_longer_one.py": "RULE = 2  # of MEM802, and more\n",
        "tests/cases/MEM801/a_fault.py": "fault()  # expect: MEM801\n",
        "tests/cases/MEM801/clean.py": "nothing()\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_copies_the_shortest_rule_of_the_folder(checkout: Path) -> None:
    written = begin(checkout, "MEM899", "unpinned-loader")
    assert {str(path.relative_to(checkout)): path.read_text() for path in written} == {
        "rules/memlint_rules/feeding/mem899_unpinned_loader.py": "RULE = 1  # of MEM899\n",
        "rules/memlint_rules/feeding/mem899_unpinned_loader.md": "## Why it matters\n\nMEM899.\n",
        "tests/cases/MEM899/a_fault.py": "fault()  # expect: MEM899\n",
        "tests/cases/MEM899/clean.py": "nothing()\n",
    }


@pytest.mark.parametrize(
    ("code", "name", "said"),
    [
        ("MEM99", "two-words", "three digits"),
        ("MEM899", "word", "joined by hyphens"),
        ("MEM899", "Two-Words", "joined by hyphens"),
    ],
)
def test_says_what_was_wanted(checkout: Path, code: str, name: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        begin(checkout, code, name)


def test_takes_no_code_and_no_name_twice(checkout: Path) -> None:
    begin(checkout, "MEM899", "unpinned-loader")
    with pytest.raises(ValueError, match="taken already"):
        begin(checkout, "MEM899", "other-name")
    with pytest.raises(ValueError, match="taken already"):
        begin(checkout, "MEM898", "unpinned-loader")


def test_works_in_a_checkout_only(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is no checkout"):
        begin(tmp_path, "MEM899", "unpinned-loader")


def test_the_command_names_the_files_that_it_wrote(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(checkout)
    assert main(["MEM898", "other-loader"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "rules/memlint_rules/feeding/mem898_other_loader.py"
    assert all((checkout / path).is_file() for path in said)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [(["MEM799"], "usage: python -m memlint.rule.new"), (["MEM7", "two-words"], "error: a code")],
)
def test_the_command_says_what_it_wanted(
    checkout: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    said: str,
) -> None:
    monkeypatch.chdir(checkout)
    assert main(arguments) == 2
    assert capsys.readouterr().err.startswith(said)
