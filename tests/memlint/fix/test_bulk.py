"""Large literals are spared, and what is too much for a rewrite is refused with a reason."""

from __future__ import annotations

import libcst as cst
import pytest

from memlint.fix.bulk import TooMuchError, without_bulk
from memlint.fix.outcome import FixError
from memlint.fix.spans import parse
from memlint.source import Span
from memlint.source.edits import RemoveKeyword, ReplaceExpression, SetKeyword
from tests.memlint.fix.places import apply_edits

NUMBERS = ",\r\n    ".join(map(str, range(3000)))


def test_inside_a_large_literal_are_blanks_and_offsets_stay() -> None:
    data = f"a = 'ä'\r\nb = [{NUMBERS}]\r\nc = {{'x': -1}}\r\n".encode()
    spared = without_bulk(data)
    assert len(spared) == len(data)
    assert b"2999" not in spared
    assert spared.startswith("a = 'ä'\r\nb = [ ".encode())
    assert spared.endswith(b"]\r\nc = {'x': -1}\r\n")


@pytest.mark.parametrize("literal", [f"[{NUMBERS}, name]", f"f({NUMBERS})", "[1, 2]"])
def test_what_an_edit_may_speak_of_stays(literal: str) -> None:
    data = f"a = {literal}\n".encode()
    assert without_bulk(data) == data


def test_an_edit_beside_a_large_literal_keeps_it() -> None:
    text = f"a = [{NUMBERS}]\r\nb = old\r\n"
    start = text.index("old")
    applied = apply_edits(text, [(ReplaceExpression(Span(start, start + 3), "new"),)])
    assert applied.text == text.replace("old", "new")


@pytest.mark.parametrize("blank", ["\n", "  \n", "\r\n"])
def test_many_blank_lines_are_seen_as_one(blank: str) -> None:
    blanks, few = blank * 20_000, blank * 200
    text = f"def f():\n    a = 1\n{blanks}    b = '''\n{few}'''\nc = old\n"
    tree = parse(text)
    assert len(tree.shown.splitlines()) < 10
    assert [node.value for node in tree.nodes(cst.Name)] == ["f", "a", "b", "c", "old"]
    edit = ReplaceExpression(Span(len(text) - 4, len(text) - 1), "new")
    assert apply_edits(text, [(edit,)]).text == text.replace("old", "new")


@pytest.mark.parametrize("index", ["x[{}]", "x [{}]", "f()[{}]"])
def test_numbers_that_are_no_list_stay(index: str) -> None:
    data = f"a = {index.format(NUMBERS)}\n".encode()
    assert without_bulk(data) == data


def test_comments_move_at_both_ends_of_a_long_file() -> None:
    call = "f(\n    a=1,  # why\n)\n"
    text = call + "# nothing\n" * 20_000 + call
    ends = (Span(0, len(call) - 1), Span(len(text) - len(call), len(text) - 1))
    applied = apply_edits(
        text, [(RemoveKeyword(end, "a"), SetKeyword(end, "b", "2")) for end in ends]
    )
    assert applied.text == text.replace("a=1", "b=2")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (("\n" * 90 + "x\n") * 800, "more than 60,000 lines"),
        ("x = a\n" * 17_000, "more than 50,000 words"),
        ("x = 1  # a comment that says nothing\n" * 20_000, "more than 400 kB of code"),
        ("x = " + "a + " * 5_000 + "b\n", "nested too deeply"),
        ("x = a" + ".b" * 5_000 + "\n", "nested too deeply"),
        ("x = " + "a and " * 5_000 + "b\n", "nested too deeply"),
    ],
)
def test_what_is_too_much_is_refused(text: str, reason: str) -> None:
    with pytest.raises(FixError, match=reason):
        parse(text)
    assert issubclass(TooMuchError, ValueError)
