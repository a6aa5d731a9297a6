"""Activation checkpointing that calls turn on, and calls that only seem to."""

from __future__ import annotations

import pytest

from memlint.api.lookup import Api
from memlint.api.target_versions import newest
from memlint.rule.registry import load
from memlint.run.engine import check_source
from memlint.source import Source

SCRIPT = """\
from peft import LoraConfig, prepare_model_for_kbit_training
from transformers import AutoModelForCausalLM, BitsAndBytesConfig, Trainer, TrainingArguments
from trl import SFTTrainer

four_bit = BitsAndBytesConfig(load_in_4bit=True)
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B"{quantized})
{call}
args = TrainingArguments("out")
{trainer}(model, args=args, train_dataset=dataset).train()
"""
QUANTIZED = ", quantization_config=four_bit"
PREPARED = "model = prepare_model_for_kbit_training(model)"
UNCHECKED = "model = prepare_model_for_kbit_training(model, use_gradient_checkpointing=False)"


def messages(trainer: str, code: str, call: str, quantized: str = QUANTIZED) -> list[str]:
    text = SCRIPT.format(quantized=quantized, call=call, trainer=trainer)
    return [one.message for one in check_source(Source("a.py", text), load([code]), Api(newest()))]


@pytest.mark.parametrize("call", [PREPARED, "model.gradient_checkpointing_enable()"])
def test_what_a_call_turned_on_is_not_called_off(call: str) -> None:
    assert messages("Trainer", "MEM301", call) == []
    (message,) = messages("SFTTrainer", "MEM905", call)
    assert "these turn off bf16, which" in message


@pytest.mark.parametrize(("call", "quantized"), [(UNCHECKED, QUANTIZED), (PREPARED, "")])
def test_a_preparation_that_turns_nothing_on(call: str, quantized: str) -> None:
    (message,) = messages("Trainer", "MEM301", call, quantized)
    assert "the k-bit preparation does not turn it on here" in message
    (message,) = messages("SFTTrainer", "MEM905", call, quantized)
    assert "turn off bf16 and activation checkpointing" in message


def test_a_preparation_of_unknown_weights_may_turn_it_on() -> None:
    assert messages("Trainer", "MEM301", "model = load()\n" + PREPARED) == []
