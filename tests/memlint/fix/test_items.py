"""Items of dict displays, which share their layout with arguments."""

from __future__ import annotations

import ast

import pytest

from memlint.source import Span
from memlint.source.edits import RemoveItem, RenameItem, SetItem
from tests.memlint.fix.places import apply_edits

from .places import all_of, fixed, refusal


def mapping(text: str) -> Span:
    return all_of(text, ast.Dict)[0][1]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x = {}\n", 'x = {"k": 1}\n'),
        ("x = {\n}\n", 'x = {\n    "k": 1,\n}\n'),
        ("x = {'a': 2}\n", "x = {'a': 2, 'k': 1}\n"),
        ("x = {'a':2,}\n", "x = {'a':2, 'k':1,}\n"),
        ("x = {**b}\n", 'x = {**b, "k": 1}\n'),
        ('x = {\n    "a": 2,  # why\n}\n', 'x = {\n    "a": 2,  # why\n    "k": 1,\n}\n'),
        ('x = {\n\t"a": 2\n}\n', 'x = {\n\t"a": 2,\n\t"k": 1\n}\n'),
        ("x = {'k': 5, 'a': 2}\n", "x = {'k': 1, 'a': 2}\n"),
        ("x = {'k': 5, 'k': 2}\n", "x = {'k': 5, 'k': 1}\n"),
        ("x = {y for y in z} or {1: 2}\n", 'x = {y for y in z} or {1: 2, "k": 1}\n'),
    ],
)
def test_item_is_set_in_the_dicts_own_style(before: str, after: str) -> None:
    assert fixed(before, SetItem(mapping(before), "k", "1")) == after


def test_item_that_a_mapping_may_override_is_refused() -> None:
    text = "x = {'k': 1, **y}\n"
    assert "override" in refusal(text, SetItem(mapping(text), "k", "2"))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x = {'k': 1}\n", "x = {}\n"),
        ("x = {'k': 1, 'a': 2}\n", "x = {'a': 2}\n"),
        ("x = {'a': 2, 'k': 1}\n", "x = {'a': 2}\n"),
        ("x = {\n    'a': 2,\n    'k': 1,  # gone\n}\n", "x = {\n    'a': 2,\n}\n"),
        ("x = {\n    'a': 2,  # stays\n    'k': 1\n}\n", "x = {\n    'a': 2  # stays\n}\n"),
    ],
)
def test_item_is_removed(before: str, after: str) -> None:
    assert fixed(before, RemoveItem(mapping(before), "k")) == after


def test_item_is_renamed_in_its_quotes() -> None:
    for quote in "'\"":
        before = f"x = {{{quote}k{quote} : 1}}\n"
        assert fixed(before, RenameItem(mapping(before), "k", "new")) == before.replace("k", "new")
    text = "x = {'k': 1, 'new': 2}\n"
    assert "already" in refusal(text, RenameItem(mapping(text), "k", "new"))
    assert "no key 'z'" in refusal(text, RenameItem(mapping(text), "z", "y"))
    assert "no key 'z'" in refusal(text, RemoveItem(mapping(text), "z"))
    assert "no dict" in refusal(text, SetItem(Span(0, 1), "z", "1"))


def test_several_fixes_of_one_dict_agree_in_any_order() -> None:
    before = "x = {\n    'a': 1,\n    'b': 2,\n}\n"
    place = mapping(before)
    fixes = [
        (SetItem(place, "d", "4"),),
        (RemoveItem(place, "b"),),
        (SetItem(place, "c", "3"),),
        (RenameItem(place, "a", "e"),),
    ]
    after = "x = {\n    'e': 1,\n    'c': 3,\n    'd': 4,\n}\n"
    assert apply_edits(before, fixes).text == after
    assert apply_edits(before, fixes[::-1]).text == after
