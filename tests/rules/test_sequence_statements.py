"""What is said of tokenization, padding and lengths, and where nothing is known of them."""

from __future__ import annotations

import pytest

from memlint.api.lookup import Api
from memlint.api.target_versions import newest, parse_target
from memlint.rule.findings import Finding
from memlint.rule.registry import load
from memlint.run.engine import check_source
from memlint.source import Source


def found(text: str, code: str, target: str = "") -> list[Finding]:
    api = Api(parse_target(target) if target else newest())
    return list(check_source(Source("a.py", text), load([code]), api))


TOKENIZED = """\
from transformers import AutoModelForCausalLM, AutoTokenizer, Trainer

{tokenizer}

def tokenize(row):
    return {call}

train = dataset.map(tokenize)
Trainer(AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B"), args, train_dataset=train).train()
"""
TOKENIZERS = (
    'tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")',
    "tokenizer = load_tokenizer()",
    'tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")\nprint(tokenizer)\ndel tokenizer',
    "def main(tokenizer): ...",
)


@pytest.mark.parametrize("tokenizer", TOKENIZERS)
def test_a_chat_template_that_makes_text_tokenizes_nothing(tokenizer: str) -> None:
    call = '{"text": tokenizer.apply_chat_template(row["messages"], tokenize=False)}'
    assert found(TOKENIZED.format(tokenizer=tokenizer, call=call), "MEM101") == []
    # A name alone makes no tokenizer: only the first is known to be one.
    call = 'tokenizer(row["text"])'
    known = 1 if tokenizer == TOKENIZERS[0] else 0
    assert len(found(TOKENIZED.format(tokenizer=tokenizer, call=call), "MEM101")) == known


PADDED = """\
import argparse
from datasets import load_dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, Trainer
{head}
tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")

def tokenize(row):
    return tokenizer(row["train_text"], padding="max_length", max_length=512, truncation=True)

raw = load_dataset("a")
{use}
"""


@pytest.mark.parametrize(
    "use",
    [
        "trainer = Trainer(model, args, train_dataset=raw)\ntrainer.train()\n"
        'rows = raw.map(tokenize, remove_columns=["train_text"])\ntrainer.predict(rows)',
        "Trainer(model, args, train_dataset=raw).train()\n"
        'prompts = raw.map(tokenize, remove_columns="train_id")\nfor row in prompts:\n'
        "    model.generate(**row)",
        "rows = raw.map(tokenize)\nTrainer(model, args, None, raw, rows).train()",
        "def prepare(rows):\n    return rows.map(tokenize)\ntrained = prepare(raw)\n"
        "Trainer(model, args, train_dataset=raw, eval_dataset=trained).train()",
    ],
)
def test_rows_that_are_not_trained_on_may_be_padded(use: str) -> None:
    assert found(PADDED.format(head="", use=use), "MEM102") == []


@pytest.mark.parametrize(
    "use",
    [
        "test = raw.map(tokenize)\nTrainer(model, args, train_dataset=test).train()",
        "rows = raw.map(tokenize).shuffle()\nTrainer(model, args, None, rows).train()",
        "rows = raw.map(tokenize)\nloader = DataLoader(rows)\nfor batch in loader:\n"
        "    model(**batch).loss.backward()",
        "def prepare(rows):\n    return rows.map(tokenize)\nrows = prepare(raw)\n"
        "Trainer(model, args, train_dataset=rows).train()",
        # Nobody sees where they go: their name must do.
        "rows = raw.map(tokenize)\nlaunch(rows)\nTrainer(model, args, train_dataset=raw).train()",
    ],
)
def test_rows_that_are_trained_on_are_reported(use: str) -> None:
    assert len(found(PADDED.format(head="", use=use), "MEM102")) == 1


FLAG = """
parser = argparse.ArgumentParser()
parser.add_argument("--fixed", action="{action}")
flags = parser.parse_args()
"""
TRAINED = "Trainer(model, args, train_dataset=rows).train()"


@pytest.mark.parametrize(
    ("action", "test", "count"),
    [
        ("store_true", "flags.fixed", 0),
        ("store_false", "flags.fixed", 1),
        ("store_true", "not flags.fixed", 1),
        ("store_true", "flags.fixed and flags.other", 0),
        ("store_true", "unknown", 1),
    ],
)
def test_a_branch_that_the_default_switches_off_does_nothing(
    action: str, test: str, count: int
) -> None:
    use = f"rows = raw\nif {test}:\n    rows = raw.map(tokenize)\n{TRAINED}"
    text = PADDED.format(head=FLAG.format(action=action), use=use)
    assert len(found(text, "MEM102")) == count


SFT = """\
from datasets import load_dataset, load_from_disk
from trl import {config}, {trainer}
{data}
args = {config}("out", per_device_train_batch_size=4)
{trainer}("Qwen/Qwen3-0.6B", args=args, {given}).train()
"""


def padded(
    data: str, trainer: str = "SFTTrainer", given: str = "train_dataset=rows", code: str = "MEM103"
) -> list[str]:
    config = trainer.replace("Trainer", "Config")
    text = SFT.format(data=data, given=given, trainer=trainer, config=config)
    return [one.message for one in found(text, code)]


@pytest.mark.parametrize(
    "data",
    [
        "",
        'rows = load_dataset("a", split="train")',
        'rows = load_dataset("a")["train"].shuffle(seed=0).select(range(9))',
        'rows = load_dataset("a")\nrows = rows.map(lambda row: {"text": row["q"]})',
        'def load():\n    return load_dataset("a")\nrows = load()',
        'def prepare(raw):\n    return raw.filter(len)\nrows = prepare(load_dataset("a"))',
        'rows, test = load_dataset("a", split=["train", "test"])',
    ],
)
def test_rows_that_are_loaded_in_sight_differ_in_length(data: str) -> None:
    (message,) = padded(data)
    assert "typically about half of the batch is padding" in message


@pytest.mark.parametrize(
    "data",
    [
        "from ours import rows",
        "from ours import *",
        "from ours import load\nrows = load()",
        "import ours\nrows = ours.data.train",
        'rows = load_from_disk("tokenized")',
        'from ours import tokenize\nrows = load_dataset("a").map(tokenize)',
        'from ours import cut\nrows = load_dataset("a").map(lambda row: cut(row["text"]))',
        'def group_texts(rows): ...\nrows = load_dataset("a").map(group_texts, batched=True)',
        "def f(rows):\n    return [rows[i : i + 9] for i in range(0, 99, 9)]\n"
        'rows = load_dataset("a").map(f, batched=True)',
        'def f(row):\n    return tokenizer(row["text"], padding="max_length")\n'
        'rows = load_dataset("a").map(f)',
    ],
)
def test_nothing_is_said_of_lengths_that_nobody_sees(data: str) -> None:
    assert padded("")
    assert padded(data) == []


@pytest.mark.parametrize(
    ("data", "pads"),
    [
        ("from ours import load\nrows = load()", True),
        ('rows = load_from_disk("pairs")', True),
        ('from ours import chat\nrows = load_dataset("a").map(chat)', True),
        ('def group_texts(rows): ...\nrows = load_dataset("a").map(group_texts)', False),
    ],
)
def test_pairs_differ_in_length_unless_they_are_seen_to_be_cut(data: str, pads: bool) -> None:
    assert bool(padded(data, "DPOTrainer", code="MEM104")) is pads


def test_a_data_set_out_of_sight_has_no_lengths() -> None:
    assert padded("from ours import data_module", given="**data_module()") == []
    assert padded("def train(rows):\n    return rows", given="") == []


def test_the_rows_of_a_pair_share_their_prompt() -> None:
    (message,) = padded("", "DPOTrainer", code="MEM104")
    assert "the longest of 8: typically about half to two thirds" in message
    assert "as the rows of a pair share their prompt" in message


COLLATED = """\
from transformers import AutoModelForCausalLM, DataCollatorForSeq2Seq, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("{checkpoint}")
args = TrainingArguments("out", per_device_train_batch_size=4)
trainer = Trainer(
    model, args, train_dataset=dataset, data_collator=DataCollatorForSeq2Seq(tokenizer)
)
trainer.train()
"""


@pytest.mark.parametrize(
    ("checkpoint", "offered"),
    [
        ("Qwen/Qwen3-0.6B", True),
        ("openai-community/gpt2-xl", False),
        ("distilbert/distilgpt2", False),
        ("bigcode/starcoder2-3b", False),
    ],
)
def test_models_that_drop_attention_weights_get_advice_alone(
    checkpoint: str, offered: bool
) -> None:
    (finding,) = found(COLLATED.format(checkpoint=checkpoint), "MEM104")
    assert finding.fix is not None
    assert bool(finding.fix.edits) is offered
    assert ("attention dropout" in finding.fix.message) is not offered
