"""Comments go with the option that they explain, to wherever it moves."""

from __future__ import annotations

import pytest

from memlint.source.edits import AddImport, Edit, RemoveKeyword, RemoveStatement, SetKeyword
from tests.memlint.fix.places import apply_edits, call, spot

OPTIONS = """\
f(
    # about old
    old=1,  # why one
    kept=2,  # two
)
"""


def applied(text: str, *edits: Edit) -> str:
    result = apply_edits(text, [edits])
    assert result.refused == {}
    return result.text


def moved(text: str) -> str:
    place = call(text)
    return applied(text, RemoveKeyword(place, "old"), SetKeyword(place, "new", "Made(1)"))


def test_an_option_that_is_replaced_keeps_its_comments() -> None:
    assert moved(OPTIONS) == (
        "f(\n    kept=2,  # two\n    # about old\n    new=Made(1),  # why one\n)\n"
    )


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_on_one_line_comments_stand_above_and_behind_the_statement(newline: str) -> None:
    text = f"g(a=1)\n{OPTIONS}".replace("\n", newline)
    new = applied(text, RemoveKeyword(call(text, 1), "old"), SetKeyword(call(text), "old", "1"))
    assert new == "# about old\ng(a=1, old=1)  # why one\nf(\n    kept=2,  # two\n)\n".replace(
        "\n", newline
    )


def test_a_new_value_gets_the_comment_behind_its_own() -> None:
    text = "f(\n    old=1,  # why one\n    new=2,  # two\n)\n"
    place = call(text)
    new = applied(text, RemoveKeyword(place, "old"), SetKeyword(place, "new", "3"))
    assert new == "f(\n    new=3,  # two  # why one\n)\n"


def test_comments_inside_a_value_that_goes_stay_above_the_statement() -> None:
    text = "if x:\n    f(old=(  # before\n        1  # why\n    ))\n"
    new = applied(text, RemoveKeyword(call(text), "old"))
    assert new == "if x:\n    # before\n    # why\n    f()\n"


def test_a_heading_of_several_options_stays() -> None:
    text = "f(\n    # speed\n    old=1,\n    kept=2,\n)\n"
    assert applied(text, RemoveKeyword(call(text), "old")) == "f(\n    # speed\n    kept=2,\n)\n"


@pytest.mark.parametrize("blanks", ["", " ", "\t "], ids=repr)
def test_comments_inside_a_value_that_moves_are_written_once(blanks: str) -> None:
    text = (
        "g(\n    a=1,\n)\nf(\n"
        f"    old={{\n        'x': 1,  # why one{blanks}\n        'y': 2,\n    }},  # options\n)\n"
    )
    value = f"{{\n    'x': 1,  # why one{blanks}\n    'y': 2,\n}}"
    edits = (RemoveKeyword(call(text, 1), "old"), SetKeyword(call(text), "old", value))
    assert applied(text, *edits) == (
        "g(\n    a=1,\n"
        f"    old={{\n        'x': 1,  # why one{blanks}\n        'y': 2,\n    }},  # options\n)\n"
        "f()\n"
    )


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_an_assignment_that_becomes_an_option_brings_its_comment_along(newline: str) -> None:
    text = "made = f(\n    a=1,  # one\n)\nmade.b = 2  # no more than two\n".replace("\n", newline)
    edits = (SetKeyword(call(text), "b", "2"), RemoveStatement(spot(text, "made.b = 2")))
    assert applied(text, *edits) == (
        "made = f(\n    a=1,  # one\n    b=2,  # no more than two\n)\n".replace("\n", newline)
    )


def test_the_comment_of_an_assignment_that_nothing_takes_the_place_of_goes() -> None:
    text = "made = f(a=1)\nmade.b = 2  # no more than two\n"
    assert applied(text, RemoveStatement(spot(text, "made.b = 2"))) == "made = f(a=1)\n"


def test_a_comment_of_two_statements_stays_with_the_other() -> None:
    text = "made = f(a=1)\nmade.b = 2; made.c = 3  # both\n"
    edits = (SetKeyword(call(text), "b", "2"), RemoveStatement(spot(text, "made.b = 2")))
    assert applied(text, *edits) == "made = f(a=1, b=2)\nmade.c = 3  # both\n"


def test_a_comment_never_moves_into_an_import() -> None:
    text = "from a import b\nf(\n    old=1,  # why one\n    kept=2,\n)\n"
    gone = RemoveKeyword(call(text), "old")
    new = applied(text, gone, AddImport("a", "C"), SetKeyword(call(text), "new", "C()"))
    assert new == "from a import C, b\nf(\n    kept=2,\n    new=C(),  # why one\n)\n"
    assert applied(text, gone, AddImport("a", "C")) == "from a import C, b\nf(\n    kept=2,\n)\n"
