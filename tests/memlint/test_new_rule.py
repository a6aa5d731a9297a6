"""``python -m memlint.rule.new``: the files that a rule begins with."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from memlint.rule.new import begin, main
from memlint.rule.page import parse_page
from tests.rules.cases import parse


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    (tmp_path / "rules" / "memlint_rules" / "feeding").mkdir(parents=True)
    return tmp_path


def test_writes_a_rule_its_page_and_two_cases(checkout: Path) -> None:
    written = begin(checkout, "MEM899", "unpinned-loader")
    assert [str(path.relative_to(checkout)) for path in written] == [
        "rules/memlint_rules/feeding/mem899_unpinned_loader.py",
        "rules/memlint_rules/feeding/mem899_unpinned_loader.md",
        "tests/cases/MEM899/faulty.py",
        "tests/cases/MEM899/clean.py",
    ]
    rule, page, faulty, clean = (path.read_text() for path in written)
    ast.parse(rule)
    assert len(parse_page(page).examples) == 1
    assert len(parse("MEM899", "faulty", faulty, None).expected) == 1
    assert parse("MEM899", "clean", clean, None).expected == ()


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
    assert main(["MEM799", "unpinned-loader"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "rules/memlint_rules/loops/mem799_unpinned_loader.py"
    assert all((checkout / path).is_file() for path in said)
    package = checkout / "rules/memlint_rules/loops/__init__.py"
    written = package.read_text()
    assert main(["MEM798", "other-loader"]) == 0
    assert package.read_text() == written


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
