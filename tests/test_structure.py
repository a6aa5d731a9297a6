"""The structure of the code, as ``tests.structure`` measures it."""

from __future__ import annotations

from pathlib import Path

from tests.structure import COMPLEX, circles, measure, package_of, upward

MEASURED = measure(Path(__file__).parent.parent)


def test_no_import_runs_upwards() -> None:
    assert upward(MEASURED.imports) == []


def test_no_file_is_imported_in_a_circle() -> None:
    assert circles(MEASURED.imports) == []


def test_functions_are_simple() -> None:
    assert not {name for name, value in MEASURED.complexity.items() if value > COMPLEX}


def test_rules_walk_no_syntax_tree() -> None:
    assert not MEASURED.raw_walks


def test_rules_are_short() -> None:
    lines = sorted(MEASURED.rule_lines.values())
    assert lines[len(lines) // 2] <= 100
    assert lines[-1] <= 150


def test_every_module_belongs_to_a_package() -> None:
    top = {"memlint", "memlint.__main__", "memlint.suggest"}
    loose = {
        name for name in MEASURED.lines if name.startswith("memlint.") and not package_of(name)
    }
    assert loose <= top
