"""What trainers and configurations refuse at run time, in which versions, and what they take."""

# ruff: noqa: E501 (a script stands in one line)
from __future__ import annotations

import pytest

from memlint.api.lookup import Api
from memlint.api.target_versions import newest, parse_target
from memlint.rule.findings import Applicability, Finding
from memlint.rule.registry import load
from memlint.run.engine import check_source
from memlint.source import Source

HEAD = """\
import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, BitsAndBytesConfig, DataCollatorForSeq2Seq
from transformers import Trainer, TrainingArguments
from trl import DPOConfig, DPOTrainer, GRPOConfig, GRPOTrainer, KTOConfig, SFTConfig, SFTTrainer
half = AutoModelForCausalLM.from_pretrained("m", torch_dtype=torch.float16)
plain = AutoModelForCausalLM.from_pretrained("m")
four = AutoModelForCausalLM.from_pretrained("m", quantization_config=BitsAndBytesConfig(load_in_4bit=True))
head = LoraConfig(target_modules=["q_proj", "v_proj", "lm_head"])
lora = LoraConfig(target_modules=["q_proj", "v_proj"])
def texts(row): return row["text"]
"""


def check(text: str, target: str = "") -> list[Finding]:
    api = Api(parse_target(target) if target else newest())
    return check_source(Source("a.py", HEAD + text + "\n"), load(["MEM903"]), api)


REFUSED = [
    ('SFTConfig("o", padding_free=True)', "not cut to max_length"),
    ('SFTConfig("o", packing=True, max_length=None)', "a length to pack to"),
    ('TrainingArguments("o", fp16=True, bf16=True)', "exclude each other"),
    ('TrainingArguments("o", load_best_model_at_end=True)', "do not coincide"),
    (
        'TrainingArguments("o", load_best_model_at_end=True, eval_strategy="steps", eval_steps=100, save_steps=150)',
        "every 150 steps",
    ),
    ('TrainingArguments("o", save_strategy="best")', "the metric"),
    ('TrainingArguments("o", lr_scheduler_type="reduce_lr_on_plateau")', "an evaluation"),
    ('TrainingArguments("o", optim="galore_adamw")', "modules"),
    ('GRPOConfig("o", num_generations=1)', "two generations"),
    ('GRPOConfig("o", auto_find_batch_size=True)', "whole groups"),
    ('GRPOConfig("o", sync_ref_model=True)', "no reference model"),
    ('GRPOConfig("o", generation_batch_size=8, steps_per_generation=2)', "twice"),
    ('KTOConfig("o", per_device_train_batch_size=1)', "two rows"),
    ('DPOConfig("o", loss_type="exo_pair")', "label smoothing"),
    ('DPOConfig("o", sync_ref_model=True, precompute_ref_log_probs=True)', "beforehand"),
    ('Trainer(four, TrainingArguments("o"), train_dataset=data)', "quantized"),
    ('Trainer(half, TrainingArguments("o", fp16=True), train_dataset=data)', "gradient scaler"),
    (
        'Trainer(plain, TrainingArguments("o", eval_strategy="epoch"), train_dataset=data)',
        "without an `eval_dataset`",
    ),
    ('SFTTrainer("m", args=SFTConfig("o"), train_dataset=data, peft_config=head)', "lm_head"),
    ('SFTTrainer(get_peft_model(plain, head), args=SFTConfig("o"), train_dataset=data)', "lm_head"),
    (
        'SFTTrainer("m", args=SFTConfig("o", padding_free=True, max_length=None), data_collator=DataCollatorForSeq2Seq(tokenizer), train_dataset=data)',
        "its own collator",
    ),
    (
        'SFTTrainer("m", args=SFTConfig("o", completion_only_loss=True), formatting_func=texts, train_dataset=data)',
        "one text",
    ),
    (
        'GRPOTrainer("m", args=GRPOConfig("o", reward_weights=[1.0]), reward_funcs=[a, b], train_dataset=data)',
        "1 reward weights for 2",
    ),
    (
        'DPOTrainer("m", args=DPOConfig("o", sync_ref_model=True), train_dataset=data, peft_config=lora)',
        "no reference model",
    ),
    ('DPOTrainer(plain, ref_model=plain, args=DPOConfig("o"), train_dataset=data)', "itself"),
]


@pytest.mark.parametrize(("call", "reason"), REFUSED)
def test_what_is_refused_is_reported_with_an_answer(call: str, reason: str) -> None:
    (found,) = check(f"made = {call}")
    assert "refuses this at run time" in found.message
    assert reason in found.message
    assert found.fix is not None


TAKEN = [
    # Another rule says that the option has another name.
    'TrainingArguments("o", load_best_model_at_end=True, evaluation_strategy="steps")',
    'TrainingArguments("o", lr_scheduler_type="reduce_lr_on_plateau", evaluation_strategy="epoch")',
    'SFTConfig("o", padding_free=True, packing=True)',
    'SFTConfig("o", padding_free=True, max_length=None)',
    'SFTConfig("o", padding_free=True, packing=True, packing_strategy="wrapped")',
    'SFTConfig("o", packing=True)',
    'SFTConfig("o", packing=True, max_length=limit)',
    'TrainingArguments("o", load_best_model_at_end=True, eval_strategy="steps", save_steps=500)',
    'TrainingArguments("o", load_best_model_at_end=True, eval_strategy="epoch", save_strategy="best")',
    'TrainingArguments("o", save_strategy="best", load_best_model_at_end=True, eval_strategy="steps")',
    'TrainingArguments("o", save_strategy="best", metric_for_best_model="loss")',
    'GRPOConfig("o", num_generations=2, sync_ref_model=True, beta=0.1)',
    'KTOConfig("o", per_device_train_batch_size=1, loss_type="apo_zero_unpaired")',
    'Trainer(get_peft_model(four, lora), TrainingArguments("o"), train_dataset=data)',
    'SFTTrainer(four, args=SFTConfig("o"), train_dataset=data, peft_config=lora)',
    'Trainer(half, TrainingArguments("o", bf16=True), train_dataset=data)',
    'Trainer(get_peft_model(half, lora), TrainingArguments("o", fp16=True), train_dataset=data)',
    'Trainer(half, TrainingArguments("o", fp16=True, deepspeed="z.json"), train_dataset=data)',
    'Trainer(half.float(), TrainingArguments("o", fp16=True), train_dataset=data)',
    'Trainer(plain, TrainingArguments("o", eval_strategy="epoch"), eval_dataset=data)',
    'Trainer(plain, TrainingArguments("o", eval_strategy="epoch"), **more)',
    'SFTTrainer("m", args=SFTConfig("o"), train_dataset=data, peft_config=lora)',
    'DPOTrainer(plain, ref_model=four, args=DPOConfig("o"), train_dataset=data, peft_config=lora)',
    'DPOTrainer("m", args=DPOConfig("o", sync_ref_model=True), train_dataset=data)',
]


@pytest.mark.parametrize("call", TAKEN)
def test_what_is_taken_is_left_alone(call: str) -> None:
    assert check(f"made = {call}") == []


@pytest.mark.parametrize(
    ("call", "target"),
    [
        ('SFTConfig("o", padding_free=True)', "trl=0.29"),
        ('GRPOConfig("o", auto_find_batch_size=True)', "trl=1.8"),
        ('GRPOConfig("o", sync_ref_model=True, beta=0.0)', "trl=0.27"),
        ('SFTTrainer("m", args=SFTConfig("o"), train_dataset=data, peft_config=head)', "trl=1.6"),
        (
            'Trainer(plain, TrainingArguments("o", eval_strategy="epoch"), train_dataset=data)',
            "transformers=4.45",
        ),
    ],
)
def test_older_versions_take_it(call: str, target: str) -> None:
    assert check(f"made = {call}", target) == []


def test_an_older_version_refuses_a_reference_beside_an_adapter() -> None:
    call = 'DPOTrainer(plain, ref_model=four, args=DPOConfig("o"), peft_config=lora)'
    (found,) = check(f"made = {call}", "trl=0.28")
    assert "the reference is the model without its adapter" in found.message


def test_what_nobody_trains_on_purpose_may_be_a_class_of_the_scripts_own() -> None:
    text = """
class Own(Trainer):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, eval_dataset=held_out, **kwargs)
made = Own(plain, TrainingArguments("o", eval_strategy="epoch"), train_dataset=data)"""
    assert check(text) == []


def test_fixes_of_what_has_one_answer_are_safe() -> None:
    (found,) = check('made = GRPOConfig("o", auto_find_batch_size=True)')
    assert found.fix is not None
    assert found.fix.applicability is Applicability.SAFE
    (found,) = check('made = SFTConfig("o", padding_free=True)')
    assert found.fix is not None
    assert found.fix.applicability is Applicability.UNSAFE
