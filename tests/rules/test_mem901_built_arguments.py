"""Options that reach a call by dictionaries built in steps, and by names of several things."""

# ruff: noqa: E501 (a script stands in one line)
from __future__ import annotations

import pytest

from memlint.api.lookup import Api
from memlint.api.target_versions import newest
from memlint.fix.fixpoint import fix_source
from memlint.rule.findings import Finding
from memlint.rule.registry import load
from memlint.run.engine import check_source
from memlint.source import Source

HEAD = "from transformers import TrainingArguments\n"


def check(text: str) -> list[Finding]:
    return check_source(Source("a.py", text), load(["MEM901"]), Api(newest()))


def fixed(text: str) -> str:
    result = fix_source(
        Source("a.py", text),
        unsafe=False,
        check=lambda one: check(one.text),
        reread=lambda new: Source("a.py", new),
    )
    assert result.error is None
    return result.source.text


@pytest.mark.parametrize(
    "text",
    [
        'kw = dict(output_dir="o")\nif long:\n    kw["evaluation_strategy"] = "no"\nargs = TrainingArguments(**kw)\n',
        'kw = {}\nfor one in rows:\n    kw["evaluation_strategy"] = one\nargs = TrainingArguments("o", **kw)\n',
        'kw = dict(output_dir="o")\nkw.update(evaluation_strategy="no")\nargs = TrainingArguments(**kw)\n',
        'kw = {"output_dir": "o"} | {"evaluation_strategy": "no"}\nargs = TrainingArguments(**kw)\n',
        'kw = dict(evaluation_strategy="no") if long else dict()\nargs = TrainingArguments("o", **kw)\n',
    ],
)
def test_an_option_of_a_dictionary_built_in_steps(text: str) -> None:
    (found,) = check(HEAD + text)
    assert "`evaluation_strategy`" in found.message


def test_an_option_under_a_condition_is_renamed_where_it_stands() -> None:
    text = (
        HEAD
        + 'kw = {}\nif long:\n    kw["evaluation_strategy"] = "no"\nTrainingArguments("o", **kw)\n'
    )
    assert fixed(text) == text.replace("evaluation_strategy", "eval_strategy")


@pytest.mark.parametrize(
    "text",
    [
        # Either name, by what the script found out.
        'if new:\n    kw = dict(eval_strategy="no")\nelse:\n    kw = dict(evaluation_strategy="no")\nTrainingArguments("o", **kw)\n',
        'kw = {}\nif version < "4.41":\n    kw["evaluation_strategy"] = "no"\nTrainingArguments("o", **kw)\n',
    ],
)
def test_scripts_that_choose_the_name_by_the_version_are_left_alone(text: str) -> None:
    assert check(HEAD + text) == []


SEVERAL = (
    "from trl import DPOTrainer, GRPOTrainer, SFTTrainer\n"
    "from peft import LoraConfig\n"
    "kind = {first} if tune else {second}\n"
    "trainer = kind(model, {option}=value)\n"
)


def test_a_call_of_one_of_several_classes_that_all_lack_the_option() -> None:
    text = SEVERAL.format(first="SFTTrainer", second="DPOTrainer", option="tokenizer")
    (found,) = check(text)
    assert "`tokenizer`" in found.message
    assert "processing_class=value" in fixed(text)


def test_a_call_of_which_one_class_takes_the_option_is_left_alone() -> None:
    text = SEVERAL.format(first="SFTTrainer", second="GRPOTrainer", option="reward_funcs")
    assert check(text) == []
