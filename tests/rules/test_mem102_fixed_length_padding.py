"""Which collator the advice of MEM102 names: labels are a class, or a row of them."""

from __future__ import annotations

import pytest

from memlint.api.lookup import Api
from memlint.api.target_versions import newest
from memlint.rule.registry import load
from memlint.run.engine import check_source
from memlint.runs.batches import batches_of_trainer
from memlint.source import Source
from tests.memlint.script.scripts import read

SCRIPT = """
from transformers import {loader}, AutoTokenizer, Trainer, TrainingArguments
tokenizer = AutoTokenizer.from_pretrained("bert-base-uncased")
model = {loader}.from_pretrained("bert-base-uncased")
def tokenize(batch):
    made = tokenizer(batch["text"], padding="max_length", max_length=512, return_tensors="pt")
    made["labels"] = batch["labels"]
    return dict(made)
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
    (finding,) = check_source(source, load(["MEM102"]), Api(newest()))
    assert finding.fix is not None
    assert collator in finding.fix.message


ITEMS = """
from torch.utils.data import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, Trainer, TrainingArguments
tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")

def preprocess(sources):
    ids = tokenizer(sources, padding="max_length", max_length=512, return_tensors="pt").input_ids
    return dict(input_ids=ids, labels=ids.clone())

class {name}(Dataset):
    def __getitem__(self, index):
        return {body}

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
Trainer(model, TrainingArguments("out"), train_dataset={name}()).train()
"""


def found(text: str) -> int:
    return len(check_source(Source("script.py", text), load(["MEM102"]), Api(newest())))


def test_a_function_that_makes_the_items_of_a_data_set() -> None:
    assert found(ITEMS.format(name="Conversations", body="preprocess([self.rows[index]])")) == 1
    assert found(ITEMS.format(name="Conversations", body="self.rows[index]")) == 0
    held_out = ITEMS.replace("train_dataset", "eval_dataset")
    assert found(held_out.format(name="EvaluationSet", body="preprocess([self.rows[index]])")) == 0


def test_pairs_of_a_reward_model() -> None:
    text = """
from torch.utils.data import Dataset
from transformers import AutoTokenizer, Trainer, TrainingArguments
tokenizer = AutoTokenizer.from_pretrained("gpt2")

class Pairs(Dataset):
    def __init__(self, pairs):
        for pair in pairs:
            chosen, {other} = pair["chosen"], pair["{other}"]
            made = tokenizer(chosen, padding="max_length", max_length=512, return_tensors="pt")
            self.rows.append((made, {other}))

Trainer(RewardModel(), TrainingArguments("out"), train_dataset=Pairs(read())).train()
"""
    assert found(text.format(other="rejected")) == 1
    assert found(text.format(other="prompt")) == 1
    assert found(text.format(other="prompt").replace("train_dataset", "eval_dataset")) == 0


def test_a_helper_of_a_data_set_that_makes_the_labels() -> None:
    text = """
from torch.utils.data import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, Trainer, TrainingArguments
tokenizer = AutoTokenizer.from_pretrained("gpt2")

def encode(text):
    return tokenizer(text, padding="max_length", max_length=512, return_tensors="pt")

class Rows(Dataset):
    def __init__(self, frame):
        self.ids = frame["text"].apply(lambda text: encode(text)["input_ids"][0])

    def __getitem__(self, index):
        return {"input_ids": self.ids[index], "%s": self.classes[index]}

Trainer(model, TrainingArguments("out"), train_dataset=Rows(frame)).train()
"""
    assert found(text % "labels") == 1
    assert found(text % "names") == 1
    assert found((text % "names").replace("train_dataset", "eval_dataset")) == 0


SKIPS = """
from transformers import AutoTokenizer
from trl import SFTConfig, SFTTrainer
tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
def encode(row):
    return tokenizer(row["text"], padding="max_length", max_length=300, truncation=True)
config = SFTConfig("out", per_device_train_batch_size=4{options})
SFTTrainer("Qwen/Qwen3-0.6B", args=config, train_dataset=rows.map(encode)).train()
"""


@pytest.mark.parametrize(
    ("options", "length"),
    [("", 1024), (', dataset_kwargs={"skip_prepare_dataset": True}', 300)],
)
def test_rows_that_are_left_as_they_are_have_the_tokenizers_length(
    options: str, length: int
) -> None:
    script = read(SKIPS.format(options=options))
    (trainer,) = script.trainers
    assert batches_of_trainer(script, trainer, trainer.config)["seq_len"] == length
