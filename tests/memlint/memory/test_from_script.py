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


def test_a_loop_says_its_rows_and_its_precision() -> None:
    loop = """
import torch
from torch.utils.data import DataLoader

data = load_dataset("a", split="train")
loader = DataLoader(data, batch_size=12, shuffle=True)
optimizer = torch.optim.AdamW(model.parameters())
model.train()
for batch in loader:
    loss = model(**batch).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""
    found = settings(loop)
    assert (found["micro_batch"], found["autocast"]) == (12, False)
    mixed = settings(
        loop.replace("    loss = model", "    with torch.autocast('cuda'):\n        loss = model")
    )
    assert "autocast" not in mixed


def test_old_checkpoints_are_in_float32() -> None:
    assert estimate({"model": "gpt2", "micro_batch": 1}).settings.weights_dtype == "float32"
    assert estimate({"model": "t5-small", "micro_batch": 1}).settings.seq_len == 512
    assert (
        estimate({"model": "Qwen/Qwen3-8B", "micro_batch": 1}).settings.weights_dtype == "bfloat16"
    )


def test_what_the_runtime_does_is_read() -> None:
    found = settings("""
from memlint_runtime import fuse_causal_lm_loss

fuse_causal_lm_loss(model)
Trainer(model=model, args=TrainingArguments("out"), train_dataset=data).train()
""")
    assert found["loss"] == "liger"
    assert found["checkpointing"] == "none"
