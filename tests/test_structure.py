"""The structure of the code, as ``tests.structure`` measures it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.structure import COMPLEX, circles, imports_of, measure, package_of, upward

MEASURED = measure(Path(__file__).parent.parent)
# Each may only fall: who lowers a figure lowers its bound here, and nobody raises one to pass.
BOUNDS = {
    "lines of the linter and its rules": 77_911,
    "lines of the packages beside the linter": 7_015,
    "lines of the runtime": 22_207,
    "files in circles, imports for types counted": 16,
    "references to ast outside the packages of syntax": 212,
    "rule codes outside the rules": 2,
    "file names used twice": 0,
    "names offered to the author of a rule": 41,
    "members of the model that fewer than two files outside it ask": 54,
}


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


@pytest.mark.parametrize("what", BOUNDS)
def test_what_makes_the_code_heavy_does_not_grow(what: str) -> None:
    assert 0 <= MEASURED.weights[what] <= BOUNDS[what]


def test_imports_for_types_close_circles_too() -> None:
    text = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from p.{} import X\n"
    imports = [
        found
        for name, other in (("p.a", "b"), ("p.b", "a"))
        for found in imports_of(name, ast.parse(text.format(other)), ["p.a", "p.b"])
    ]
    assert circles(imports) == []
    assert circles(imports, typed=True) == [["p.a", "p.b"]]
