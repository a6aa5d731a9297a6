"""Which collator the advice of MEM102 names: labels are a class, or a row of them."""

from __future__ import annotations

import pytest

from memlint.api import Api, newest
from memlint.engine import check_source
from memlint.rules import load
from memlint.source import Source

SCRIPT = """
from transformers import {loader}, AutoTokenizer, Trainer, TrainingArguments
tokenizer = AutoTokenizer.from_pretrained("bert-base-uncased")
model = {loader}.from_pretrained("bert-base-uncased")
def tokenize(batch):
    made = tokenizer(batch["text"], padding="max_length", max_length=512, return_tensors="pt")
    made["labels"] = batch["labels"]
    return made
Trainer(model, TrainingArguments("out"), train_dataset=dataset.map(tokenize, batched=True))
"""


@pytest.mark.parametrize(
    ("loader", "collator"),
    [
        ("AutoModelForSequenceClassification", "DataCollatorWithPadding"),
        ("AutoModelForTokenClassification", "DataCollatorForTokenClassification"),
        ("AutoModelForCausalLM", "DataCollatorForSeq2Seq"),
    ],
)
def test_the_advice_names_the_collator(loader: str, collator: str) -> None:
    source = Source("script.py", SCRIPT.format(loader=loader))
    (violation,) = check_source(source, load(["MEM102"]), Api(newest()))
    assert violation.fix is not None
    assert collator in violation.fix.message
