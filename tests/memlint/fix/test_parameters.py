"""Parameters added to function definitions."""

from __future__ import annotations

import ast

import pytest

from memlint.source.edits import AddParameter

from .places import all_of, fixed, refusal

ADDED = [
    ("def f(self): ...\n", "def f(self, new=None): ...\n"),
    ("def f(a, b=1): ...\n", "def f(a, b=1, new=None): ...\n"),
    ("def f(a: int) -> int: ...\n", "def f(a: int, new=None) -> int: ...\n"),
    ("def f(a, b: int = (1)): ...\n", "def f(a, b: int = (1), new=None): ...\n"),
    ("def f(a, b=1,): ...\n", "def f(a, b=1, new=None,): ...\n"),
    ("def f(a, *, c): ...\n", "def f(a, new=None, *, c): ...\n"),
    ("def f(a, *rest, **more): ...\n", "def f(a, new=None, *rest, **more): ...\n"),
    (
        "def f(\n    a,\n    b=1,  # why\n): ...\n",
        "def f(\n    a,\n    b=1,\n    new=None,  # why\n): ...\n",
    ),
    ("def f(\n    a, b\n): ...\n", "def f(\n    a, b, new=None\n): ...\n"),
    ("def f(a,\n      b): ...\n", "def f(a,\n      b,\n      new=None): ...\n"),
    ("def f(a, new=2): ...\n", "def f(a, new=2): ...\n"),
    ("def f(a, *, new): ...\n", "def f(a, *, new): ...\n"),
]


@pytest.mark.parametrize(("before", "after"), ADDED)
def test_parameter_goes_behind_the_positional_ones(before: str, after: str) -> None:
    place = all_of(before, ast.FunctionDef)[0][1]
    assert fixed(before, AddParameter(place, "new", "None")) == after


def test_function_without_parameters_is_left_alone() -> None:
    before = "def f(): ...\n"
    place = all_of(before, ast.FunctionDef)[0][1]
    assert "no parameter" in refusal(before, AddParameter(place, "new", "None"))
