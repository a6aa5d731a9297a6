"""What is shown is what is written."""

from __future__ import annotations

import itertools
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memlint.fix.apply import previews
from memlint.fix.outcome import TextEdit
from memlint.fix.patches import unified_diff
from memlint.fix.splicing import text_edits
from memlint.source import Span
from memlint.source.edits import AddImport, RemoveKeyword, SetKeyword
from tests.memlint.fix.places import apply_edits

from .places import call


def patched(text: str, edits: tuple[TextEdit, ...]) -> str:
    data = text.encode()
    for edit in reversed(edits):
        data = data[: edit.span.start] + edit.content.encode() + data[edit.span.end :]
    return data.decode()


_TEXTS = st.lists(st.sampled_from(["a", "b", "é", "\n", "\r\n", "\r", "\u2028", "\x0c", "x = 1\n"]))


@given(_TEXTS.map("".join), _TEXTS.map("".join))
def test_text_edits_turn_one_text_into_the_other(before: str, after: str) -> None:
    edits = text_edits(before, after)
    assert patched(before, edits) == after
    assert all(one.span.end <= two.span.start for one, two in itertools.pairwise(edits))


def test_text_edits_are_small() -> None:
    assert text_edits("é\nf(a)\ng\n", "é\nf(a, k=1)\ng\n") == (TextEdit(Span(6, 6), ", k=1"),)
    assert text_edits("same\n", "same\n") == ()


def test_each_fix_is_shown_alone_and_says_what_it_would_do() -> None:
    text = "import os\nf(\n    é,\n    a=1,\n)\n"
    fixes = [
        (SetKeyword(call(text), "k", "torch.x"), AddImport("torch")),
        (RemoveKeyword(call(text), "a"),),
        (RemoveKeyword(call(text), "missing"),),
    ]
    shown = previews(text, fixes)
    for fix, one in zip(fixes[:2], shown, strict=False):
        assert one.text == apply_edits(text, [fix]).text != text
        assert patched(text, one.edits) == one.text
    assert shown[2].text == text
    assert "missing" in shown[2].refused[0]
    assert previews("f(", fixes[:1])[0].refused[0].startswith("the file cannot be rewritten")


def test_edits_of_all_fixes_together_make_the_text() -> None:
    text = "import os\nf(\n    é,\n    a=1,\n)\n"
    fixes = [
        (SetKeyword(call(text), "k", "torch.x"), AddImport("torch")),
        (RemoveKeyword(call(text), "a"),),
    ]
    applied = apply_edits(text, fixes)
    assert applied.applied == (0, 1)
    assert patched(text, applied.edits) == applied.text


@pytest.mark.skipif(shutil.which("git") is None, reason="git reads the patch")
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a\nb\nc\n", "a\nB\nc\n"),
        ("a\nb", "a\nB"),
        ("a\nb", "a\nb\n"),
        ("a\r\nb\r\n", "a\r\nc\r\nb\r\n"),
        ("a\u2028b\nc\n", "a\u2028b\nd\n"),
    ],
)
def test_git_applies_the_diff(before: str, after: str, tmp_path: Path) -> None:
    (tmp_path / "x.py").write_bytes(before.encode())
    diff = "".join(unified_diff(before, after, "x.py"))
    subprocess.run(
        ["git", "apply", "--whitespace=nowarn", "-"],
        input=diff.encode(), cwd=tmp_path, check=True,
    )  # fmt: skip
    assert (tmp_path / "x.py").read_bytes() == after.encode()
