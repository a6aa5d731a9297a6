"""What a comment explains is not rewritten: it would be false afterwards."""

from __future__ import annotations

import pytest

from tests.rules.fixing import fixed, found

HEAD = "from trl import SFTConfig, SFTTrainer\n"
TAIL = '\nSFTTrainer("Qwen/Qwen3-0.6B", args=args, train_dataset=rows).train()\n'
EXPLAINED = (
    'args = SFTConfig("out", max_length=None)  # whole conversations',
    'args = SFTConfig(\n    "out",\n    max_length=None,  # "#1": whole conversations\n)',
    'args = SFTConfig(\n    "out",\n    # no maximum: answers end late\n    max_length=None,\n)',
    'args = SFTConfig(\n    "out",\n    max_length=None,\n)  # the length is bounded before',
    '# rows have a length of 300 at most\nargs = SFTConfig("out", max_length=None)',
    'LONGEST = None  # whole conversations\nargs = SFTConfig("out", max_length=LONGEST)',
    'args = SFTConfig("out")\nargs.max_length = None  # whole conversations',
    'options = {"max_length": None}  # whole conversations\nargs = SFTConfig("out", **options)',
)
PLAIN = (
    'args = SFTConfig("out", max_length=None)',
    'args = SFTConfig("out", max_length=None)  # noqa: E501',
    'args = SFTConfig("out #1", max_length=None)',
    '# training\nargs = SFTConfig("out", max_length=None)',
    'args = SFTConfig(\n    max_length=None,\n    output_dir="out",  # a folder\n)',
)


@pytest.mark.parametrize("text", EXPLAINED)
def test_what_a_comment_explains_stays(text: str) -> None:
    script = HEAD + text + TAIL
    assert [one.fix.applicability.value for one in found(script, "MEM101") if one.fix] == [
        "display"
    ]
    assert fixed(script, "MEM101", unsafe=True) == script


@pytest.mark.parametrize("text", PLAIN)
def test_other_comments_hold_nothing_back(text: str) -> None:
    script = HEAD + text + TAIL
    assert fixed(script, "MEM101", unsafe=True) != script


def test_what_stops_the_script_goes_all_the_same() -> None:
    script = 'from trl import DPOConfig\nargs = DPOConfig("out", warmup_ratio=0.1)  # a tenth\n'
    assert "warmup_ratio" not in fixed(script, "MEM901", "MEM902", target="trl=1.16")
