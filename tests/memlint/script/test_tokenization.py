"""Where a tokenizer is called, and whether what it makes is trained on."""

from __future__ import annotations

import pytest

from tests.memlint.script.scripts import read

HEADER = """\
from datasets import load_dataset
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM, AutoTokenizer, Trainer
tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
raw = load_dataset("imdb")
def encode(row):
    return tokenizer(row["text"])
"""
TRAIN = "Trainer(model, train_dataset={}).train()\n"

# Code after the header -> whether the rows of ``encode`` are trained on.
PREPARES = {
    "rows = raw.map(encode)\n" + TRAIN.format("rows"): True,
    "rows = raw.map(lambda row: encode(row))\n" + TRAIN.format("rows"): True,
    "rows = raw.map(encode)\n" + TRAIN.format("raw") + "model.generate(rows)\n": False,
    TRAIN.format("raw")
    + "rows = raw.map(encode)\ntexts = [model.generate(**x) for x in DataLoader(rows)]\n": False,
    "rows = raw.map(encode)\n" + TRAIN.format("raw, eval_dataset=rows"): False,
    "FLAG = False\nrows = raw\nif FLAG:\n    rows = raw.map(encode)\n"
    + TRAIN.format("rows"): False,
    # What reads the loader is out of sight: it may be trained on.
    "rows = raw.map(encode)\nloader = wrapped(DataLoader(rows))\n" + TRAIN.format("raw"): True,
    "rows = raw.map(encode)\nprint(rows[0])\n" + TRAIN.format("raw"): False,
}


@pytest.mark.parametrize("text", PREPARES)
def test_prepares_training(text: str) -> None:
    (one,) = read(HEADER + text).tokenizations
    assert one.prepares_training is PREPARES[text]


def test_a_lambda_that_is_mapped_is_the_function() -> None:
    text = "rows = raw.map(lambda row: tokenizer(row['q']))\n" + TRAIN.format("rows")
    first, second = read(HEADER + text).tokenizations
    assert getattr(first.function, "name", "") == "encode"
    assert not hasattr(second.function, "name")
    assert second.prepares_training
    assert not first.prepares_training


def test_a_lambda_that_collates() -> None:
    text = """\
loader = DataLoader(raw, collate_fn=lambda rows: tokenizer.pad(rows))
for batch in loader:
    model(**batch).loss.backward()
"""
    assert read(HEADER + text).tokenizations[1].collates_training


def test_labels_and_lists() -> None:
    text = """\
def copy(row):
    made = tokenizer(row["text"])
    made["labels"] = made["input_ids"].copy()
    return made
def tensors(row):
    return {"labels": tokenizer(row["text"], return_tensors="pt").input_ids.squeeze()}
"""
    _, copied, squeezed = read(HEADER + text).tokenizations
    assert copied.labels == "copies"
    assert copied.makes_lists
    assert squeezed.labels == "others"
    assert not squeezed.makes_lists


# What a script does with something of which nothing else is known -> whether it is a tokenizer.
USED = {
    "tokenizer(rows['text'])": False,
    "my_tokenizer(rows['text'])": False,
    "turn(rows['text'], truncation=True)": True,
    "turn.pad_token = turn.eos_token\nturn(rows['text'])": True,
    "turn.encode(rows['text'])\nprint(turn.batch_decode(rows))": True,
    "turn(rows['sound'], sampling_rate=16_000, truncation=True)": False,
    "rows.encode('utf-8')": False,
}


@pytest.mark.parametrize("text", USED)
def test_a_tokenizer_is_known_by_its_use_and_not_by_its_name(text: str) -> None:
    script = read(f"from project import load\ntokenizer, my_tokenizer, turn, rows = load()\n{text}")
    places = {one.call.node.lineno for one in script.tokenizations}
    assert bool(places) is USED[text]


@pytest.mark.parametrize(("name", "unsure"), [("my_tokenizer", True), ("marked", False)])
def test_what_is_called_a_tokenizer_may_shorten_rows(name: str, unsure: bool) -> None:
    """Wrong where it counts tokens alone: nothing is said of rows that are too long."""
    text = f"""\
def prepare(row):
    return {{"text": row["text"], "made": tools.{name}(row["text"])}}
tools = open_tools()
Trainer(model, train_dataset=raw.map(prepare)).train()
"""
    script = read(HEADER + text)
    kinds = {effect.kind.value for data in script.datasets for effect in data.effects}
    assert ("unknown" in kinds) is unsure
