"""Large literals are spared, and what is too much for a rewrite is refused with a reason."""

from __future__ import annotations

import pytest

from memlint.fix import apply_edits
from memlint.fix.bulk import TooMuchError, without_bulk
from memlint.fix.outcome import FixError
from memlint.fix.spans import parse
from memlint.rule.edits import ReplaceExpression
from memlint.source import Span

NUMBERS = ",\r\n    ".join(map(str, range(3000)))


def test_inside_a_large_literal_are_blanks_and_offsets_stay() -> None:
    data = f"a = 'ä'\r\nb = [{NUMBERS}]\r\nc = {{'x': -1}}\r\n".encode()
    spared = without_bulk(data)
    assert len(spared) == len(data)
    assert spared.count(b"\r\n") == data.count(b"\r\n")
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


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("x = 1  # a comment that says nothing\n" * 20_000, "more than 400 kB of code"),
        ("x = " + "a + " * 5_000 + "b\n", "nested too deeply"),
        ("x = a" + ".b" * 5_000 + "\n", "nested too deeply"),
    ],
)
def test_what_is_too_much_is_refused(text: str, reason: str) -> None:
    with pytest.raises(FixError, match=reason):
        parse(text)
    assert issubclass(TooMuchError, ValueError)
