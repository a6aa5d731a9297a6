"""Edits of launch commands: what they write, and what they leave to the user."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from memlint.fix.command_edits import apply_command_edits
from memlint.fix.outcome import Applied
from memlint.recipes.launch import read_commands
from memlint.source import Source, Span
from memlint.source.edits import (
    Edit,
    RemoveItem,
    RemoveStatement,
    RenameItem,
    ReplaceExpression,
    SetItem,
)

TRL = 'echo start\ntrl sft --learning_rate 1e-05 \\\n  --packing true --dtype "bfloat16" --bf16\n'


def span(text: str, program: str = "trl") -> Span:
    (found,) = (one.span for one in read_commands(text, "shell") if one.program == program)
    return found


def applied(text: str, *fixes: Sequence[Edit]) -> Applied:
    return apply_command_edits(Source("run.sh", text), fixes)


@pytest.mark.parametrize(
    ("edit", "old", "new"),
    [
        (SetItem(span(TRL), "learning_rate", "0.0002"), "1e-05", "0.0002"),
        (SetItem(span(TRL), "packing", "False"), "--packing true", "--packing false"),
        (SetItem(span(TRL), "dtype", "torch.float16"), '"bfloat16"', '"float16"'),
        (RemoveItem(span(TRL), "learning_rate"), " --learning_rate 1e-05", ""),
        (RemoveItem(span(TRL), "dtype"), ' --dtype "bfloat16"', ""),
        (RemoveItem(span(TRL), "bf16"), " --bf16", ""),
        (RemoveItem(span(TRL), "packing"), " \\\n  --packing true", ""),
        (RenameItem(span(TRL), "dtype", "model_dtype"), "--dtype", "--model_dtype"),
    ],
)
def test_an_edit_changes_its_own_word_alone(edit: Edit, old: str, new: str) -> None:
    assert TRL.count(old) == 1
    assert applied(TRL, [edit]).text == TRL.replace(old, new)


@pytest.mark.parametrize(
    ("old", "new"),
    [("--max-seq-length=4", "--max-length=4"), ("--max_seq_length 4", "--max_length 4")],
)
def test_a_new_name_is_written_as_the_old_one_was(old: str, new: str) -> None:
    text = f"trl sft {old}\n"
    edit = RenameItem(span(text), "max_seq_length", "max_length")
    assert applied(text, [edit]).text == f"trl sft {new}\n"


TUNE = "tune run full_finetune_single_device optimizer.lr=1e-5 optimizer=torch.optim.AdamW\n"


def test_an_override_of_a_section_is_changed_where_it_stands() -> None:
    start = TUNE.index("optimizer.lr")
    edit = SetItem(Span(start, start), "_component_", "'torch.optim.SGD'")
    assert applied(TUNE, [edit]).text == TUNE.replace("AdamW", "SGD")


def test_only_overrides_have_a_word_for_none() -> None:
    start = TUNE.index("optimizer.lr")
    assert " optimizer.lr=null " in applied(TUNE, [SetItem(Span(start, start), "lr", "None")]).text
    assert applied(TRL, [SetItem(span(TRL), "learning_rate", "None")]).text == TRL


QUOTED = "A=5\ntrl sft \"--bf16\" --seed $A '--max_steps' 3\n"


@pytest.mark.parametrize(
    ("text", "edit", "reason"),
    [
        (TRL, SetItem(span(TRL), "bf16", "False"), "no plain word"),
        (TRL, SetItem(span(TRL), "packing", "choose(x)"), "no plain word"),
        (TRL, SetItem(span(TRL), "packing", "'two words'"), "no plain word"),
        (TRL, RemoveItem(span(TRL), "seed"), "does not give the option"),
        (TRL, RemoveStatement(span(TRL)), "cannot be changed that way"),
        (QUOTED, RemoveItem(span(QUOTED), "bf16"), "in quotes"),
        (QUOTED, RemoveItem(span(QUOTED), "max_steps"), "in quotes"),
        (QUOTED, RemoveItem(span(QUOTED), "seed"), "no plain word"),
    ],
)
def test_what_cannot_be_done_is_refused(text: str, edit: Edit, reason: str) -> None:
    result = applied(text, [edit])
    assert result.text == text
    assert reason in result.refused[0]


def test_what_a_command_does_not_give_stays_away() -> None:
    text = "python train.py --packing true\n"
    result = applied(text, [RemoveItem(span(text, "python"), "padding_free")])
    assert result.refused == {0: "the command does not give the option"}


def test_two_fixes_of_one_word_take_turns() -> None:
    place = span(TRL)
    result = applied(TRL, [SetItem(place, "packing", "False")], [RemoveItem(place, "packing")])
    assert result.applied == (0,)
    assert result.refused == {}


def test_what_would_become_another_command_is_thrown_away() -> None:
    start = TRL.index("1e-05")
    result = applied(TRL, [ReplaceExpression(Span(start, start + 5), "1; trl dpo --x")])
    assert result.text == TRL
    assert "report this" in result.refused[0]
