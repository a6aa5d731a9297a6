"""What Lightning's trainer calls of a data module and a module, in one file and in several."""

from __future__ import annotations

from pathlib import Path

import pytest

from memlint.cli.main import run
from memlint.cli.runs_of_file import runs_of_file

HEAD = """\
import pytorch_lightning as pl
import torch
from torch.utils.data import DataLoader, Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer

"""
ROWS = """\
class Rows(Dataset):
    def __init__(self, texts, tokenizer):
        self.texts, self.tokenizer = texts, tokenizer

    def __len__(self):
        return len(self.texts)

    def __getitem__(self, index):
        ids = self.tokenizer(
            self.texts[index], padding="max_length", max_length=768, truncation=True
        )["input_ids"]
        return {"input_ids": torch.tensor(ids), "labels": torch.tensor(ids)}

"""
DATA = """\
class Data(pl.LightningDataModule):
    def __init__(self, name):
        super().__init__()
        self.tokenizer = AutoTokenizer.from_pretrained(name)

    def setup(self, stage=None):
        self.rows = Rows(open("rows.txt").readlines(), self.tokenizer)

    def train_dataloader(self):
        return DataLoader(self.rows, batch_size=6)

"""
TUNED = """\
class Tuned(pl.LightningModule):
    def __init__(self, name):
        super().__init__()
        self.model = AutoModelForCausalLM.from_pretrained(name)

    def training_step(self, batch, index):
        return self.model(**batch).loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters())

"""
FIT = 'pl.Trainer().fit(Tuned("Qwen/Qwen3-0.6B"), datamodule=Data("Qwen/Qwen3-0.6B"))\n'
ONE = {"main.py": HEAD + ROWS + DATA + TUNED + FIT}
SEVERAL = {
    "rows.py": HEAD + ROWS,
    "data.py": HEAD + "from rows import Rows\n\n" + DATA,
    "tuned.py": HEAD + TUNED,
    "main.py": HEAD + "from data import Data\nfrom tuned import Tuned\n\n" + FIT,
}


def found(
    files: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> set[tuple[str, str]]:
    for name, text in {"pyproject.toml": "", **files}.items():
        (tmp_path / name).write_text(text)
    run(["check", "--no-cache", "--output-format", "concise", "--target", "newest", str(tmp_path)])
    lines = [line for line in capsys.readouterr().out.splitlines() if ": MEM" in line]
    return {(Path(line.split(":")[0]).name, line.split()[1]) for line in lines}


@pytest.mark.parametrize(("files", "home"), [(ONE, "main.py"), (SEVERAL, "rows.py")])
def test_rows_of_a_data_module_are_trained_on(
    files: dict[str, str], home: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (home, "MEM102") in found(files, tmp_path, capsys)


@pytest.mark.parametrize("name", ["val_dataloader", "test_dataloader"])
def test_rows_that_only_an_evaluation_reads(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {"main.py": ONE["main.py"].replace("train_dataloader", name)}
    # Without labels, nothing but its loader says what a data set is for.
    files["main.py"] = files["main.py"].replace('"labels": torch.tensor(ids)', '"n": index')
    assert "MEM102" not in {code for _, code in found(files, tmp_path, capsys)}


LOOP = (
    HEAD
    + """\
{imports}
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
optimizer = torch.optim.AdamW(model.parameters())
for batch in {loader}:
    model(**batch).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""
)
COLLATE = """\
from transformers import AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")

def together(texts):
    batch = tokenizer(texts, padding=True, truncation=True, max_length=768, return_tensors="pt")
    return {**batch, "labels": batch["input_ids"]}
"""
LOOPS = {
    "a data set of another file": {
        "rows.py": HEAD + ROWS,
        "main.py": LOOP.format(
            imports="from rows import Rows", loader="DataLoader(Rows(texts, tokenizer), 6)"
        ),
    },
    "a collator of another file": {
        "collate.py": COLLATE,
        "main.py": LOOP.format(
            imports="import collate",
            loader="DataLoader(texts, batch_size=6, collate_fn=collate.together)",
        ),
    },
    "a loop of another file": {
        "tuner.py": HEAD
        + """\
class Tuner:
    def __init__(self, model):
        self.model, self.optimizer = model, torch.optim.AdamW(model.parameters())

    def fit(self, rows):
        for batch in rows:
            self.model(**batch).loss.backward()
            self.optimizer.step()
            self.optimizer.zero_grad()
""",
        "collate.py": COLLATE,
        "main.py": HEAD
        + """\
from collate import together
from tuner import Tuner

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
Tuner(model).fit(DataLoader(texts, batch_size=6, collate_fn=together))
""",
    },
    "a data module and a module": SEVERAL,
}


@pytest.mark.parametrize("files", LOOPS.values(), ids=LOOPS)
def test_a_run_of_several_files_is_estimated(files: dict[str, str], tmp_path: Path) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    (only,) = runs_of_file(str(tmp_path / "main.py"), None, None)
    read = {name: only.settings.get(name) for name in ("model", "micro_batch", "seq_len")}
    assert read == {"model": "Qwen/Qwen3-0.6B", "micro_batch": 6, "seq_len": 768}
