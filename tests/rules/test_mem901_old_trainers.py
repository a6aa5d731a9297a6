"""What trainers of old scripts are given: formatting functions, arguments and limits.

Which versions ask for what, and where a fix must hold back.
"""

from __future__ import annotations

import pytest

from memlint.api.lookup import Api
from memlint.api.target_versions import newest, parse_target
from memlint.fix.fixpoint import fix_source
from memlint.rule.findings import Finding
from memlint.rule.registry import load
from memlint.run.engine import check_source
from memlint.source import Source


def check(text: str, target: str = "") -> list[Finding]:
    api = Api(parse_target(target) if target else newest())
    return check_source(Source("a.py", text), load(["MEM901"]), api)


def fixed(text: str, *, unsafe: bool = False) -> str:
    result = fix_source(
        Source("a.py", text),
        unsafe=unsafe,
        check=lambda one: check(one.text),
        reread=lambda new: Source("a.py", new),
    )
    assert result.error is None
    assert result.refused == ()
    return result.source.text


FORMATTING = """
from trl import SFTTrainer
def texts(rows):
{body}
SFTTrainer(model, train_dataset=dataset, formatting_func=texts)
"""
LOOP = "    made = []\n    for text in rows['text']:\n        made.append(text)\n    return made"


@pytest.mark.parametrize(("target", "found"), [("", 1), ("trl=0.21", 1), ("trl=0.20", 0)])
def test_one_text_is_wanted_since_the_version_that_dropped_batches(target: str, found: int) -> None:
    assert len(check(FORMATTING.format(body=LOOP), target)) == found


@pytest.mark.parametrize(
    "body",
    [
        "    return [text for text in rows['text']][0]",
        "    made = [rows['text']]\n    made = made[0]\n    return made",
        "    if rows['text']:\n        return [rows['text']]\n    return rows['other']",
        "    def inner():\n        return []\n    return str(inner())",
        "    return make(rows)",
    ],
)
def test_functions_that_may_return_one_text_are_left_alone(body: str) -> None:
    assert check(FORMATTING.format(body=body)) == []


def test_a_list_of_one_text_is_an_unsafe_change() -> None:
    text = FORMATTING.format(body="    return [f\"{rows['question']} {rows['answer']}\"]")
    assert fixed(text) == text
    assert "formatting_func=lambda row: texts(row)[0])" in fixed(text, unsafe=True)


def test_either_function_of_a_choice_gets_a_batch_of_one() -> None:
    text = f"""
from trl import SFTTrainer
def texts(rows):
{LOOP}
def others(rows):
    return [str(one) for one in rows["other"]]
chosen = texts if options.plain else others
SFTTrainer(model, train_dataset=dataset, formatting_func=chosen)
"""
    batch = "{name: [value] for name, value in row.items()}"
    assert f"formatting_func=lambda row: chosen({batch})[0])" in fixed(text)


LIMITED = """
from {home} import {name}Config, {name}Trainer
def make(model, data, {parameters}):
    args = {name}Config("out", {options})
    return {name}Trainer(model, args=args, train_dataset=data, eval_dataset={{"a": data}})
"""


def limited(name: str, options: str, *, home: str = "trl", parameters: str = "n") -> str:
    return LIMITED.format(name=name, options=options, home=home, parameters=parameters)


@pytest.mark.parametrize(
    ("name", "home", "options", "callee"),
    [
        ("DPO", "trl", "max_prompt_length=512", "limit_prompts(DPOTrainer, 512)"),
        ("GRPO", "trl", "max_prompt_length=n", "limit_prompts(GRPOTrainer, n)"),
        ("RLOO", "trl", "max_prompt_length=512", "limit_prompts(RLOOTrainer, 512)"),
        ("KTO", "trl", "max_prompt_length=512", "limit_prompts(KTOTrainer, 512)"),
        (
            "ORPO",
            "trl.experimental.orpo",
            "max_prompt_length=512",
            "limit_prompts(ORPOTrainer, 512)",
        ),
        (
            "CPO",
            "trl.experimental.cpo",
            "max_prompt_length=512, truncation_mode='keep_start'",
            'limit_prompts(CPOTrainer, 512, keep="start")',
        ),
    ],
)
def test_limits_of_prompts_are_kept_by_the_runtime(
    name: str, home: str, options: str, callee: str
) -> None:
    """Whatever the data look like: prompts of their own or shared ones, texts or conversations."""
    text = fixed(limited(name, options, home=home))
    assert f"return {callee}(model, args=args," in text
    assert "max_prompt_length" not in text


@pytest.mark.parametrize(
    ("text", "target"),
    [
        (limited("CPO", "max_prompt_length=9, truncation_mode=n", home="trl.experimental.cpo"), ""),
        (limited("DPO", "max_prompt_length=512"), "trl=1.0"),
        (limited("GRPO", "max_prompt_length=512").replace("args=args", "args=args, tools=t"), ""),
    ],
)
def test_limits_that_nobody_can_keep_for_certain_are_left_to_their_owner(
    text: str, target: str
) -> None:
    found = [one for one in check(text, target) if "`max_prompt_length`" in one.message]
    (fix,) = [one.fix for one in found]
    assert fix is not None
    assert fix.edits == ()


def test_a_limit_over_several_lines_is_assigned_in_parentheses() -> None:
    text = fixed(
        """
from trl import SFTConfig, SFTTrainer
args = SFTConfig("out")
limit = read()
trainer = SFTTrainer("m", args=args, train_dataset=d, max_seq_length=limit
    if limit else 512)
"""
    )
    assert "args.max_length = (limit\n    if limit else 512)\n" in text


ELSEWHERE = """
from trl import SFTTrainer
class Mine(SFTTrainer):
    pass
def make(args, more):
    return {trainer}
"""


@pytest.mark.parametrize(
    "trainer",
    [
        "SFTTrainer(model, args=args, packing=True, **more)",
        "SFTTrainer(model, args, packing=True)",
        "Mine(model, args=args, packing=True)",
    ],
)
def test_arguments_out_of_sight_are_left_where_more_is_unknown(trainer: str) -> None:
    text = ELSEWHERE.format(trainer=trainer)
    assert fixed(text) == text


def test_a_command_line_that_may_say_nothing_keeps_saying_nothing() -> None:
    text = """
import argparse
from transformers import HfArgumentParser, TrainingArguments
from trl import SFTTrainer
parser = argparse.ArgumentParser()
parser.add_argument("--length", type=int, default=None)
options = parser.parse_args()
(args,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()
SFTTrainer(model, args=args, max_seq_length=options.length)
"""
    assert "args=extend_arguments(args, SFTConfig, max_length=options.length)" in fixed(text)


def test_a_dictionary_that_is_read_by_the_old_name_keeps_it() -> None:
    text = """
from transformers import TrainingArguments
options = {"output_dir": "out", "warmup_ratio": 0.1}
print(options["warmup_ratio"])
TrainingArguments(**options)
"""
    assert fixed(text) == text


def test_classes_of_another_framework_have_a_like_to_go_to() -> None:
    (finding,) = check("from transformers import TFAutoModelForCausalLM as Auto\nAuto()\n")
    assert finding.fix is not None
    assert finding.fix.edits == ()
    assert finding.fix.message == (
        "Train with PyTorch, `AutoModelForCausalLM`: transformers has no models of TensorFlow any "
        "more, or stay below transformers 5.0"
    )


def test_a_lambda_that_makes_texts_of_many_rows() -> None:
    text = (
        "from trl import SFTTrainer\n"
        "SFTTrainer(model, train_dataset=dataset, formatting_func=lambda rows: {body})\n"
    )
    (found,) = check(text.format(body="[one.strip() for one in rows['text']]"))
    assert "returns a list" in found.message
    assert check(text.format(body="rows['text'].strip()")) == []
    named = (
        "from trl import SFTTrainer\n"
        "texts = lambda rows: [one.strip() for one in rows['text']]\n"
        "SFTTrainer(model, train_dataset=dataset, formatting_func=texts)\n"
    )
    assert "formatting_func=lambda row: texts(" in fixed(named)


def test_a_bound_method_that_makes_texts_of_many_rows() -> None:
    text = """
from trl import SFTTrainer
class Run:
    def texts(self, rows):
        return [one for one in rows["text"]]
    def train(self):
        SFTTrainer(model, train_dataset=dataset, formatting_func=self.texts)
"""
    (found,) = check(text)
    assert "returns a list" in found.message
