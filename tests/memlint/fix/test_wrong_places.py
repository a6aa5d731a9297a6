"""Edits whose place holds something else are refused, with a reason, and the text stays."""

from __future__ import annotations

import pytest

from memlint.source import Span
from memlint.source.edits import (
    AddDecorator,
    AddImport,
    AddParameter,
    Edit,
    InsertStatement,
    RemoveImport,
    RemoveItem,
    RemoveStatement,
    RenameAttribute,
    RenameImport,
    RenameItem,
    RenameKeyword,
    ReplaceCallee,
    ReplaceExpression,
    SetItem,
    SetKeyword,
    WrapStatements,
)

from .places import call, fixed, refusal, spot, statement

TEXT = """\
import os
from a import b
from c import *
x = f(k=1, m=2); y = 1
d = {"k": 1}


@wraps
def g(p):
    return f'{x.y}'
"""
NAME = spot(TEXT, "y = 1")
NOWHERE = Span(3, 4)


@pytest.mark.parametrize(
    ("edit", "reason"),
    [
        (SetKeyword(NAME, "a", "1"), "no call"),
        (RenameKeyword(call(TEXT), "z", "a"), "no keyword 'z'"),
        (RenameKeyword(call(TEXT), "k", "m"), "keyword 'm' already"),
        (ReplaceCallee(NAME, "h"), "no call"),
        (ReplaceExpression(NOWHERE, "h"), "no expression"),
        (RenameAttribute(NAME, "h"), "no attribute"),
        (RenameAttribute(spot(TEXT, "x.y"), "a b"), "is no name"),
        (SetItem(NAME, "a", "1"), "no dict"),
        (RemoveItem(NAME, "a"), "no dict"),
        (RenameItem(NAME, "a", "b"), "no dict"),
        (InsertStatement(NOWHERE, "z = 1"), "no statement"),
        (RemoveStatement(NOWHERE), "no statement"),
        (InsertStatement(statement(TEXT, 0), "z = ("), "does not parse"),
        (WrapStatements(NOWHERE, NOWHERE, "with h:"), "no statement"),
        (AddDecorator(NAME, "h"), "no function or class"),
        (AddParameter(NAME, "h", "1"), "no function"),
        (RemoveImport("a", "z"), "not imported"),
        (RenameImport(statement(TEXT, 1), "a", "z", "a", "y"), "'z' is not imported from 'a'"),
        (RenameImport(statement(TEXT, 2), "c", "z", "a", "y"), "no such import"),
        (RenameImport(statement(TEXT, 0), "os", "z", "a", "y"), "no such import"),
    ],
)
def test_an_edit_of_what_is_not_there_is_refused(edit: Edit, reason: str) -> None:
    assert reason in refusal(TEXT, edit)


def test_a_decorator_that_is_there_stays_alone() -> None:
    text = "@wraps\ndef g(p):\n    return p\n"
    assert fixed(text, AddDecorator(statement(text), "wraps")) == text


def test_an_import_for_a_place_without_code_is_refused() -> None:
    edits = (AddImport("h"), ReplaceExpression(Span(500, 501), "h.k"))
    assert "no code at the place" in refusal(TEXT, *edits)


def test_a_wide_span_of_two_edits_at_one_value_is_refused() -> None:
    first = ReplaceExpression(call(TEXT), "h()")
    second = ReplaceExpression(spot(TEXT, "f(k=1, m=2)"), "i()")
    assert "overlap" in refusal(TEXT, first, second)
