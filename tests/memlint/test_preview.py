"""Fixes shown as edits with places and as the few lines that they change."""

from __future__ import annotations

from memlint.rule.findings import Applicability, Fix
from memlint.run.rendering import rendered_fixes
from memlint.run.results import DiffLine, TextEdit
from memlint.source import Location, Source, Span
from memlint.source.edits import AddImport, InsertStatement, ReplaceExpression, SetKeyword
from memlint.source.reading import read_source
from tests.memlint.test_notebook import as_bytes, notebook


def span(source: Source, text: str) -> Span:
    start = source.data.index(text.encode())
    return Span(start, start + len(text.encode()))


def test_replacement_inside_a_line() -> None:
    source = Source("a.py", "x = 1\ny = 'ä' + alpha\n")
    fix = Fix("do", (ReplaceExpression(span(source, "alpha"), "omega"),), Applicability.UNSAFE)
    (shown,) = rendered_fixes(source, [fix])
    assert shown is not None
    assert (shown.message, shown.applicability) == ("do", "unsafe")
    assert shown.edits == (TextEdit(Location(2, 11), Location(2, 16), "omega"),)
    assert shown.diff == (DiffLine("-", 2, "y = 'ä' + alpha"), DiffLine("+", 2, "y = 'ä' + omega"))


def test_rows_of_later_hunks_follow_what_was_inserted() -> None:
    source = Source("a.py", "import os\r\n\r\nf(\r\n    a=1,\r\n)\r\nalpha\r\n")
    call = span(source, "f(\r\n    a=1,\r\n)")
    edits = (AddImport("torch"), SetKeyword(call, "b", "torch.bfloat16"))
    (shown,) = rendered_fixes(source, [Fix("do", edits)])
    assert shown is not None
    assert [line[:2] for line in shown.diff] == [("+", 2), ("+", 6)]
    assert [line.text for line in shown.diff] == ["import torch", "    b=torch.bfloat16,"]


def test_each_fix_is_shown_alone_and_others_are_no_hindrance() -> None:
    source = Source("a.py", "f(alpha)\n")
    fixes = [
        Fix("one", (ReplaceExpression(span(source, "alpha"), "1"),)),
        None,
        Fix("two", (ReplaceExpression(span(source, "alpha"), "2"),)),
        Fix("think about it"),
        Fix("impossible", (ReplaceExpression(span(source, "pha)"), "3"),)),
    ]
    one, none, two, advice, impossible = rendered_fixes(source, fixes)
    assert none is None
    assert [line.text for line in one.diff if one] == ["f(alpha)", "f(1)"]  # type: ignore[union-attr]
    assert [line.text for line in two.diff if two] == ["f(alpha)", "f(2)"]  # type: ignore[union-attr]
    assert advice is not None
    assert (advice.applicability, advice.edits) == ("display", ())
    assert impossible is not None
    assert (impossible.applicability, impossible.diff) == ("display", ())


def test_a_file_that_cannot_be_rewritten_has_only_advice() -> None:
    source = Source("a.py", "alpha = (\n")
    (shown,) = rendered_fixes(source, [Fix("do", (ReplaceExpression(span(source, "alpha"), "x"),))])
    assert shown is not None
    assert shown.applicability == "display"


def test_places_in_a_notebook_are_the_cells() -> None:
    source = read_source("n.ipynb", as_bytes(notebook("x = 1", "!ls\n\ny = alpha\n")))
    edits = (
        ReplaceExpression(span(source, "alpha"), "omega"),
        InsertStatement(span(source, "y = alpha"), "z = 0"),
    )
    (shown,) = rendered_fixes(source, [Fix("do", edits)])
    assert shown is not None
    assert [edit.start for edit in shown.edits] == [(3, 1, 2), (3, 5, 2)]
    assert shown.diff == (
        DiffLine("-", 3, "y = alpha"),
        DiffLine("+", 3, "z = 0"),
        DiffLine("+", 4, "y = omega"),
    )
