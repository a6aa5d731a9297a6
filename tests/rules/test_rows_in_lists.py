"""Rows that a function of another file tokenizes, one by one, for a list that is trained on."""

from __future__ import annotations

from pathlib import Path

import pytest

from memlint.project.config import Settings
from memlint.rule import registry
from memlint.run.jobs import Job
from memlint.run.session import Session

ONE_ROW = """
def encode(tokenizer, row):
    ids = tokenizer(row["text"], truncation=True, max_length=512, padding="max_length")["input_ids"]
    return {"input_ids": ids, "labels": list(ids)}
"""
ALL_ROWS = """
def encode(tokenizer, rows):
    found = []
    for row in rows:
        ids = tokenizer(row["text"], max_length=512, padding="max_length", return_tensors="pt")
        found.append({"input_ids": ids["input_ids"][0], "labels": ids["input_ids"][0]})
    return found
"""
ASKED = """
def encode(tokenizer, row):
    asked = tokenizer(row["text"], max_length=512, padding="max_length", return_tensors="pt")
    answer = teacher.generate(**asked)
    return tokenizer(tokenizer.decode(answer[0]), truncation=True, max_length=512)
"""
TRAINER = """
from transformers import AutoModelForCausalLM, AutoTokenizer, Trainer, TrainingArguments
from parts.rows import encode

tokenizer = AutoTokenizer.from_pretrained("my/base")
model = AutoModelForCausalLM.from_pretrained("my/base")
{made}
Trainer(model, TrainingArguments("out"), train_dataset={train}, eval_dataset={held}).train()
"""
LOOP = """
import torch
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM, AutoTokenizer
from parts.rows import encode


def learn(model, rows):
    optimizer = torch.optim.AdamW(model.parameters())
    for batch in DataLoader(rows, batch_size=8, shuffle=True):
        model(**batch).loss.backward()
        optimizer.step()
        optimizer.zero_grad()


tokenizer = AutoTokenizer.from_pretrained("my/base")
model = AutoModelForCausalLM.from_pretrained("my/base").to("cuda")
{made}
learn(model, {train})
"""
EACH = "made = [encode(tokenizer, row) for row in texts]"
PADDED = {
    "a comprehension": (ONE_ROW, TRAINER, EACH, "made", "None"),
    "a list that a function fills": (ALL_ROWS, LOOP, "made = encode(tokenizer, texts)", "made", ""),
    "a part of such a list": (ALL_ROWS, LOOP, "made = encode(tokenizer, texts)", "made[:n]", ""),
    "a data set of a list": (
        ONE_ROW,
        TRAINER.replace("\n\n", "\nfrom datasets import Dataset\n\n", 1),
        EACH,
        "Dataset.from_list(made)",
        "None",
    ),
}
OTHERS = {
    "rows to evaluate": (ONE_ROW, TRAINER, EACH, "ready", "made"),
    "what a teacher is asked": (ASKED, TRAINER, EACH, "made", "None"),
    "rows that nothing reads": (ONE_ROW, TRAINER, EACH, "ready", "None"),
    "rows that are as long as their text": (
        ONE_ROW.replace('"max_length")', "False)"), TRAINER, EACH, "made", "None",
    ),
}  # fmt: skip


def codes(parts: tuple[str, str, str, str, str], folder: Path) -> list[str]:
    """Return what is found in the module of a project of two files."""
    rows, script, made, train, held = parts
    (folder / "parts").mkdir()
    (folder / "pyproject.toml").write_text("")
    (folder / "run.py").write_text(script.format(made=made, train=train, held=held))
    module = folder / "parts" / "rows.py"
    module.write_text(rows)
    asked = Job(str(module), registry.selected(["MEM102"]), Settings().target)
    return [each.code for each in Session().check(asked, module.read_bytes()).findings]


@pytest.mark.parametrize("how", PADDED)
def test_rows_of_a_list_that_is_trained_on_are_found(how: str, tmp_path: Path) -> None:
    assert codes(PADDED[how], tmp_path) == ["MEM102"]


@pytest.mark.parametrize("how", OTHERS)
def test_other_lists_are_left(how: str, tmp_path: Path) -> None:
    assert codes(OTHERS[how], tmp_path) == []
