"""Rows that one file makes and another trains on: whose padding is told where it is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from memlint.rule.registry import load
from tests.rules.test_scripts_above import codes, reported

LOOP = """
    import torch
    from torch.utils.data import DataLoader
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from rows import {imported}
    words = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
    net = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B").cuda()
    made = {made}
    steps = torch.optim.AdamW(net.parameters())
    for batch in DataLoader(made, batch_size=8, shuffle=True):
        net(**batch).loss.backward()
        steps.step()
        steps.zero_grad()
"""
TRAINER = """
    from transformers import AutoModelForCausalLM, AutoTokenizer, Trainer, TrainingArguments
    from rows import {imported}
    words = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
    net = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
    made = {made}
    Trainer(net, TrainingArguments("out"), train_dataset=made).train()
"""
HELD = """
    from torch.utils.data import Dataset
    class Held(Dataset):
        def __init__(self, rows, told=None):
            self.rows, self.told = rows, told
        def __len__(self):
            return len(self.rows)
        def __getitem__(self, place):
            return self.rows[place]
"""
BY_HAND = """
    from torch.utils.data import Dataset
    class Talks(Dataset):
        def __init__(self, rows, words, most):
            self.kept = []
            for row in rows:
                ids = words.convert_tokens_to_ids(words.tokenize(row))[:most]
                missing = most - len(ids)
                ids = ids + [words.pad_token_id] * missing
                self.kept.append({"input_ids": ids, "labels": ids})
        def __len__(self):
            return len(self.kept)
        def __getitem__(self, place):
            return self.kept[place]
"""
MADE = (
    HELD
    + """
    class Texts:
        def __init__(self, words, more=False):
            self.words, self.more = words, more
        def learned(self):
            read = [
                {{"n": n, **self.words(one, padding={how}, max_length=512)}}
                for n, one in enumerate(open("learn.txt"))
            ]
            return Held(read)
"""
)
MAPS = """
    from datasets import load_dataset
    from held import Held
    from words import read
    def fetch(name):
        rows = load_dataset(name, split="train").shuffle().map(read, batched=True)
        return Held(rows)
"""
READ = """
    from transformers import AutoTokenizer
    words = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
    def read(rows):
        return words(rows["text"], truncation=True, padding={how}, max_length=1024)
"""
FILLS = """
    def level(ids, most, pad=0):
        return ids[:most] + [pad] * (most - len(ids))
    def prepare(texts, tokenizer, most):
        rows = []
        for text in texts:
            ids = level(tokenizer(text)["input_ids"], most)
            rows.append({"input_ids": ids, "labels": ids})
        return rows
"""
PARTS = """
    from datasets import DatasetDict, load_dataset
    from transformers import AutoTokenizer
    def mapped(rows, words):
        def encode(batch):
            return words(batch["text"], padding="max_length", truncation=True)
        return rows.map(encode, batched=True, remove_columns=["text"])
    def learned(name):
        parts = load_dataset(name)["train"].train_test_split(test_size=0.2)
        words = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
        return mapped(DatasetDict({"train": parts["train"]}), words), words
    if __name__ == "__main__":
        learned("my/texts")
"""
FOUND = {
    "a list that functions fill up": {
        "rows.py": FILLS,
        "go.py": LOOP.format(imported="prepare", made="prepare(open('a'), words, 512)"),
    },
    "a list that functions fill up, for a trainer": {
        "rows.py": FILLS,
        "go.py": TRAINER.format(imported="prepare", made="prepare(open('a'), words, 512)"),
    },
    "a file that also runs by itself": {
        "rows.py": PARTS,
        "go.py": TRAINER.format(imported="learned", made="learned('my/texts')[0]['train']"),
    },
    "filled by hand, where only a data set is defined": {
        "rows.py": BY_HAND,
        "go.py": TRAINER.format(imported="Talks", made="Talks(open('a'), words, 768)"),
    },
    "filled by hand for a loop": {
        "rows.py": BY_HAND,
        "go.py": LOOP.format(imported="Talks", made="Talks(open('a'), words, 768)"),
    },
    "a list that a data set gets": {
        "rows.py": MADE.format(how="'max_length'").replace("{{", "{").replace("}}", "}"),
        "go.py": TRAINER.format(imported="Texts", made="Texts(words).learned()"),
    },
    "such a list in a loop": {
        "rows.py": MADE.format(how="'max_length'").replace("{{", "{").replace("}}", "}"),
        "go.py": LOOP.format(imported="Texts", made="Texts(words).learned()"),
    },
    "mapped rows that a data set gets": {
        "words.py": READ.format(how="'max_length'"),
        "held.py": HELD,
        "rows.py": MAPS,
        "go.py": LOOP.format(imported="fetch", made="fetch('my/texts')"),
    },
    "mapped rows for a trainer": {
        "words.py": READ.format(how="'max_length'"),
        "held.py": HELD,
        "rows.py": MAPS,
        "go.py": TRAINER.format(imported="fetch", made="fetch('my/texts')"),
    },
}
LEFT = {
    "a file that also runs by itself, whose rows only evaluate": {
        "rows.py": PARTS,
        "go.py": TRAINER.format(imported="learned", made="open('a')")
        + "    Trainer(net, eval_dataset=learned('b')[0]['train']).evaluate()\n",
    },
    "a list that functions fill up, and that is left": {
        "rows.py": FILLS,
        "go.py": LOOP.format(imported="prepare", made="open('a')")
        + "    print(prepare(open('a'), words, 512))\n",
    },
    "nothing trains on it": {**FOUND["filled by hand for a loop"], "go.py": "import rows"},
    "a list that is as long as its text": {
        "rows.py": MADE.format(how="False").replace("{{", "{").replace("}}", "}"),
        "go.py": TRAINER.format(imported="Texts", made="Texts(words).learned()"),
    },
    "a list that nobody trains on": {
        "rows.py": MADE.format(how="'max_length'").replace("{{", "{").replace("}}", "}"),
        "go.py": TRAINER.format(imported="Texts", made="open('a')")
        + "    Texts(words).learned()\n",
    },
    "mapped rows of their own lengths": {
        **FOUND["mapped rows for a trainer"],
        "words.py": READ.format(how="False"),
    },
}


def padded(folder: Path, files: dict[str, str]) -> set[str]:
    """The files in which padding is found."""
    told = reported(folder, {"pyproject.toml": "", **files}, load(["MEM102"]))
    return {name for name, found in told.items() if codes(found)}


@pytest.mark.parametrize("how", FOUND)
def test_padding_is_told_where_it_is_written(how: str, tmp_path: Path) -> None:
    assert padded(tmp_path, FOUND[how]) == {next(iter(FOUND[how]))}


@pytest.mark.parametrize("how", LEFT)
def test_other_rows_are_left(how: str, tmp_path: Path) -> None:
    assert padded(tmp_path, LEFT[how]) == set()


BASE = """
    import lightning
    from torch.utils.data import DataLoader
    class OwnDataModule(lightning.LightningDataModule):
        def train_dataloader(self):
            return DataLoader(self.parts["train"], batch_size=8)
"""
ITEMS = """
    from torch.utils.data import Dataset
    from base import OwnDataModule
    class Texts(Dataset):
        def __init__(self, rows, words):
            self.rows, self.words = rows, words
        def __getitem__(self, place):
            read = self.words(self.rows[place], truncation=True, padding="max_length")
            return {{"input_ids": read["input_ids"], "labels": read["input_ids"]}}
    class Learned({base}):
        def setup(self, stage):
            self.parts = {{"train": Texts(self.texts, self.words)}}
"""
MAPPED = """
    from datasets import load_dataset
    from base import OwnDataModule
    class Learned(OwnDataModule):
        def __init__(self, name, words):
            super().__init__()
            self.name, self.words = name, words
        def read(self, row):
            return self.words(row["text"], padding="max_length", max_length=256, truncation=True)
        def setup(self, stage=None):
            rows = load_dataset(self.name)
            self.parts = rows.map(self.read)
"""
LAMBDA = """
    from datasets import load_dataset
    from lightning.pytorch import LightningDataModule
    from torch.utils.data import DataLoader
    class Learned(LightningDataModule):
        def setup(self, stage=None):
            words, rows = self.words, load_dataset(self.name)
            self.rows = rows["train"].map(
                lambda row: words(row["text"], truncation=True, padding="max_length")
            )
        def train_dataloader(self):
            return DataLoader(self.rows, batch_size=8)
"""


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        (ITEMS.format(base="OwnDataModule"), {"data.py"}),
        (MAPPED, {"data.py"}),
        (LAMBDA, {"data.py"}),
        (ITEMS.format(base="object"), set()),
        (ITEMS.format(base="OwnDataModule").replace("Texts", "TestTexts"), set()),
    ],
)
def test_a_data_module_trains_whoever_makes_its_trainer(
    rows: str, told: set[str], tmp_path: Path
) -> None:
    assert padded(tmp_path, {"data.py": rows, "base.py": BASE}) == told


LOADERS = """
    from torch.utils.data import DataLoader, Dataset
    class Texts(Dataset):
        def __init__(self, rows, words):
            self.rows, self.words = rows, words
        def __getitem__(self, place):
            return self.words(self.rows[place], truncation=True, padding="max_length")
    def loaders(words):
        return {"learn": DataLoader(Texts(open("a"), words)), "ask": DataLoader(few)}
"""
FITS = """
    import pytorch_lightning as pl
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from rows import loaders
    class Tuned(pl.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
        def training_step(self, batch, place):
            return self.net(**batch).loss
        def configure_optimizers(self):
            return torch.optim.AdamW(self.parameters())
    made = loaders(AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B"))
    runner = pl.Trainer(max_epochs=1)
    runner.fit(Tuned(), {given})
"""


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("made['learn'], made['ask']", {"rows.py"}),
        ("train_dataloaders=made['learn']", {"rows.py"}),
        ("made['learn']", {"rows.py"}),
        ("made['ask'], made['learn']", set()),
        ("train_dataloaders=made['ask'], val_dataloaders=made['learn']", set()),
    ],
)
def test_loaders_that_the_trainer_of_lightning_gets(
    given: str, told: set[str], tmp_path: Path
) -> None:
    files = {"rows.py": LOADERS, "go.py": FITS.format(given=given)}
    assert padded(tmp_path, files) == told


def test_a_module_that_may_be_one_of_an_earlier_run(tmp_path: Path) -> None:
    fits = FITS.format(given="made['learn']").replace(
        "runner.fit(Tuned(), ",
        "module = Tuned()\n    if again:\n        module = Tuned.load_from_checkpoint('a.ckpt')\n"
        "    runner.fit(module, ",
    )
    old = fits.replace("pl.LightningModule", "LightningModule").replace(
        "import torch\n",
        "import torch\n    from pytorch_lightning.core.lightning import LightningModule\n",
    )
    for folder, text in (("a", fits), ("b", old)):
        assert padded(tmp_path / folder, {"rows.py": LOADERS, "go.py": text}) == {"rows.py"}


KEPT = (
    HELD
    + """
    import os, torch
    def fill(words, texts):
        made = []
        for one in texts:
            made.append(words(one, padding="max_length", max_length=512, return_tensors="pt"))
        return Held(made)
    def fetch(words, place):
        {body}
"""
)
ONCE = """if not os.path.isfile(place):
            torch.save(fill(words, open("a")), place)
        return torch.load({read})"""
PAIR = """first, second = f"{{place}}/learn.pt", f"{{place}}/ask.pt"
        if not os.path.isfile(first):
            learned, asked = fill(words, open("a")), fill(words, open("b"))
            torch.save(learned, first)
            torch.save(asked, second)
        return torch.load({read}, weights_only=False)"""
EARLY = """if os.path.isfile(place):
            return torch.load({read})
        made = fill(words, open("a"))
        torch.save(made, place)
        return made"""
APART = """torch.save(fill(words, open("a")), place)
        return torch.load({read})"""


@pytest.mark.parametrize(
    ("body", "read", "told"),
    [
        (ONCE, "place", {"rows.py"}),
        (PAIR, "first", {"rows.py"}),
        (EARLY, "place", {"rows.py"}),
        (APART, "place", {"rows.py"}),
        (APART, "place + '.old'", set()),
    ],
)
def test_rows_that_are_kept_in_a_file(body: str, read: str, told: set[str], tmp_path: Path) -> None:
    rows = KEPT.format(body=body.format(read=read))
    loop = LOOP.format(imported="fetch", made="fetch(words, 'rows.pt')")
    assert padded(tmp_path, {"rows.py": rows, "go.py": loop}) == told


ENDLESS = {
    "in the constructor": """
    from torch.utils.data import Dataset
    from wording import ask
    class Talks(Dataset):
        def __init__(self, rows, words):
            self.rows = []
            for row in rows:
                self.rows.append(words.encode(ask(row){cut}))
        def __getitem__(self, place):
            return self.rows[place]
    """,
    "in the items": """
    from torch.utils.data import Dataset
    from wording import ask
    class Talks(Dataset):
        def __init__(self, rows, words):
            self.rows, self.words = rows, words
        def __getitem__(self, place):
            ids = self.words.encode(ask(self.rows[place]){cut})
            return {{"input_ids": ids}}
    """,
    "in the stream": """
    from torch.utils.data import IterableDataset
    from wording import ask
    class Talks(IterableDataset):
        def __init__(self, rows, words):
            self.rows, self.words = rows, words
        def __iter__(self):
            for row in self.rows:
                yield {{"input_ids": self.words(ask(row){cut})["input_ids"]}}
    """,
}
ASKS = """
    from transformers import AutoModelForCausalLM, AutoTokenizer, Trainer, TrainingArguments
    from transformers import DataCollatorForLanguageModeling
    from rows import Talks
    words = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
    net = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
    options = TrainingArguments("out", per_device_train_batch_size=4)
    pads = DataCollatorForLanguageModeling(words, mlm=False)
    Trainer(net, options, train_dataset=Talks(open("a"), words), data_collator=pads).train()
"""
WORDING = """
    def ask(row):
        return "Question: " + row
"""


@pytest.mark.parametrize("where", ENDLESS)
def test_items_of_any_length_whose_text_a_third_file_writes(where: str, tmp_path: Path) -> None:
    for cut in ("", ", truncation=True, max_length=512"):
        files = {"rows.py": ENDLESS[where].format(cut=cut), "wording.py": WORDING, "go.py": ASKS}
        told = reported(tmp_path, {"pyproject.toml": "", **files}, load(["MEM101", "MEM104"]))
        assert codes(told["go.py"]) == {"MEM104"}
        assert codes(told["rows.py"]) == (set() if cut else {"MEM101"})
