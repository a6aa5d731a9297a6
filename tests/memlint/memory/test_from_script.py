"""Settings read from scripts: lengths of tokenization, adapters of all kinds, precision."""

from __future__ import annotations

from typing import Any

from memlint.api import Api, newest
from memlint.memory import estimate
from memlint.memory.from_script import settings_of
from memlint.script import build_script
from memlint.source import Source

HEAD = """\
from datasets import load_dataset
from peft import DeloraConfig, get_peft_model
from transformers import AutoModelForCausalLM, AutoTokenizer, Trainer, TrainingArguments

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen2.5-0.5B")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-0.5B")
"""


def settings(text: str) -> dict[str, Any]:
    found = settings_of(build_script(Source("a.py", HEAD + text), Api(newest())))
    assert found is not None
    return found


def test_the_length_of_tokenized_rows_is_the_runs() -> None:
    found = settings("""
def tokenize(rows):
    return tokenizer(rows["text"], truncation=True, max_length=768)

data = load_dataset("a", split="train").map(tokenize, batched=True)
Trainer(model=model, args=TrainingArguments("out"), train_dataset=data).train()
""")
    assert found["seq_len"] == 768


def test_every_adapter_is_one() -> None:
    found = settings("""
model = get_peft_model(model, DeloraConfig(r=32))
Trainer(model=model, args=TrainingArguments("out"), train_dataset=data).train()
""")
    assert (found["method"], found["lora"]) == ("lora", {"r": 32})


def test_without_mixed_precision_the_weights_dtype_computes() -> None:
    found = settings("""
args = TrainingArguments("out", bf16=False, fp16=False)
Trainer(model=model, args=args, train_dataset=data).train()
""")
    result = estimate({**found, "weights_dtype": "float32"})
    assert result.settings.compute_dtype == "float32"
    assert "compute_dtype" not in {
        each.name
        for each in estimate(
            settings("""
args = TrainingArguments("out", bf16=True)
Trainer(model=model, args=args, train_dataset=data).train()
""")
        ).assumptions
    }
