"""The lines that differ: right for any two texts, and found in linear time."""

from __future__ import annotations

import difflib
import itertools
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memlint.fix import differences as module
from memlint.fix.differences import Block, differences

_LINES = st.lists(st.sampled_from("abcd\n"), max_size=30)


def put_together(old: list[str], new: list[str], blocks: list[Block]) -> list[str]:
    """``old`` with every block replaced by the lines that ``new`` has there."""
    result: list[str] = []
    position = 0
    for block in blocks:
        result += old[position : block.start]
        assert len(result) == block.new_start
        result += new[block.new_start : block.new_end]
        position = block.end
    return result + old[position:]


@given(_LINES, _LINES)
def test_blocks_turn_the_old_lines_into_the_new(old: list[str], new: list[str]) -> None:
    blocks = list(differences(old, new))
    assert put_together(old, new, blocks) == new
    for first, second in itertools.pairwise(blocks):
        assert first.end < second.start, "blocks that touch are one"
    assert all(block.start < block.end or block.new_start < block.new_end for block in blocks)


@given(_LINES, _LINES)
def test_no_fewer_lines_would_do_where_none_stands_once(old: list[str], new: list[str]) -> None:
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    kept = sum(size for *_, size in matcher.get_matching_blocks())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_shared_once", lambda before, after: [])
        gone = sum(block.end - block.start for block in differences(old, new))
    assert len(old) - gone >= kept


@given(_LINES, _LINES)
def test_what_is_too_different_differs_as_a_whole(old: list[str], new: list[str]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_PAIRS", 2)
        patch.setattr(module, "_DEPTH", 1)
        blocks = list(differences(old, new))
    assert put_together(old, new, blocks) == new


@pytest.mark.parametrize("middle", ["\n", "# same\n"])
def test_changes_around_many_equal_lines_stay_apart(middle: str) -> None:
    old = ["first\n", *[middle] * 120, "anchor\n", *[middle] * 120, "last\n"]
    new = ["1st\n", "new\n", *old[1:-1], "z\n"]
    new.insert(123, "here\n")
    assert list(differences(old, new)) == [
        Block(0, 1, 0, 2),
        Block(122, 122, 123, 124),
        Block(len(old) - 1, len(old), len(new) - 1, len(new)),
    ]


def test_texts_without_an_anchor_are_no_work() -> None:
    draw = random.Random(0)
    some = [f"{number}\n" for number in range(200)]
    old = [draw.choice(some) for _ in range(40_000)]
    new = [draw.choice(some) for _ in range(40_000)]
    assert put_together(old, new, list(differences(old, new))) == new
    old, new = ["a\n", *["\n"] * 40_000], [*["\n"] * 50_000, "b\n"]
    assert put_together(old, new, list(differences(old, new))) == new
