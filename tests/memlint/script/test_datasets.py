"""Data sets: from where, through what, to whom; what each preparation does to lengths."""

from __future__ import annotations

from textwrap import dedent

import pytest

from memlint.script.datasets import Dataset
from memlint.script.lengths import Lengths
from memlint.script.model import Script
from memlint.script.purpose import Purpose
from tests.memlint.script.scripts import read

HEADER = dedent("""
    import torch
    from datasets import load_dataset
    from torch.utils.data import DataLoader
    from transformers import AutoModelForCausalLM, AutoTokenizer, Trainer
    model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
    tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")
    data = load_dataset("imdb")
""")


def script_of(text: str) -> Script:
    return read(HEADER + dedent(text))


def only(text: str) -> Dataset:
    (dataset,) = script_of(text).datasets
    return dataset


# Script -> what the preparations do, with the tokens.
EFFECTS: dict[str, tuple[str, list[tuple[Lengths, int | None]]]] = {
    "tokenized": (
        """
        def tokenize(row):
            return tokenizer(row["text"])
        Trainer(model, train_dataset=data.map(tokenize)["train"])
        """,
        [(Lengths.TOKENIZED, None)],
    ),
    "truncated, of a split": (
        """
        def tokenize(row):
            return tokenizer(row["text"], truncation=True, max_length=512)
        train = data["train"].map(tokenize, batched=True)
        Trainer(model, train_dataset=train)
        """,
        [(Lengths.TRUNCATED, 512)],
    ),
    "padded by a lambda": (
        """
        train = data["train"].map(lambda row: tokenizer(row["text"], padding="max_length"))
        Trainer(model, train_dataset=train)
        """,
        [(Lengths.TOKENIZED, None), (Lengths.PADDED, None)],
    ),
    "through fn_kwargs": (
        """
        def tokenize(row, length):
            return tokenizer(row["text"], truncation=True, padding="max_length", max_length=length)
        Trainer(model, train_dataset=data["train"].map(tokenize, fn_kwargs={"length": 256}))
        """,
        [(Lengths.TRUNCATED, 256), (Lengths.PADDED, 256)],
    ),
    "through partial": (
        """
        from functools import partial
        def tokenize(tok, row, length=128):
            return tok(row["text"], truncation=True, max_length=length)
        Trainer(model, train_dataset=data["train"].map(partial(tokenize, tokenizer, length=64)))
        """,
        [(Lengths.TRUNCATED, 64)],
    ),
    "in a function that the mapped one calls": (
        """
        def encode(text):
            return tokenizer(text, truncation=True, max_length=32)
        def tokenize(row):
            return encode(row["text"])
        Trainer(model, train_dataset=data["train"].map(tokenize))
        """,
        [(Lengths.TRUNCATED, 32)],
    ),
    "tokenized, then cut into blocks": (
        """
        def tokenize(row):
            return tokenizer(row["text"])
        def group(rows):
            joined = {k: sum(rows[k], []) for k in rows}
            return {k: [t[i : i + 1024] for i in range(0, len(t), 1024)] for k, t in joined.items()}
        Trainer(model, train_dataset=data["train"].map(tokenize).map(group, batched=True))
        """,
        [(Lengths.TOKENIZED, None), (Lengths.CUT, 1024)],
    ),
    "cut off by hand": (
        """
        def tokenize(row):
            ids = tokenizer(row["text"]).input_ids
            return {"input_ids": ids[:2048]}
        Trainer(model, train_dataset=data["train"].map(tokenize))
        """,
        [(Lengths.TOKENIZED, None), (Lengths.TRUNCATED, 2048)],
    ),
    "filled up by hand": (
        """
        def tokenize(row):
            ids = tokenizer(row["text"], truncation=True, max_length=64)["input_ids"]
            return {"input_ids": ids + [0] * (64 - len(ids))}
        Trainer(model, train_dataset=data["train"].map(tokenize))
        """,
        [(Lengths.TRUNCATED, 64), (Lengths.PADDED, 64)],
    ),
    "filtered by length": (
        """
        train = data["train"].filter(lambda row: len(row["text"]) < 100)
        Trainer(model, train_dataset=train)
        """,
        [(Lengths.FILTERED, None)],
    ),
    "by a function elsewhere": (
        """
        from mine import tokenize
        Trainer(model, train_dataset=data["train"].map(tokenize))
        """,
        [(Lengths.UNKNOWN, None)],
    ),
    "with a helper elsewhere": (
        """
        from mine import encode
        def tokenize(row):
            return encode(tokenizer, row["text"])
        Trainer(model, train_dataset=data["train"].map(tokenize))
        """,
        [(Lengths.UNKNOWN, None)],
    ),
    "by a method": (
        """
        class Prepare:
            def __init__(self, tokenizer, length):
                self.tokenizer, self.length = tokenizer, length
            def __call__(self, row): ...
            def tokenize(self, row):
                return self.tokenizer(row["text"], truncation=True, max_length=self.length)
        prepare = Prepare(tokenizer, 99)
        Trainer(model, train_dataset=data["train"].map(prepare.tokenize))
        """,
        [(Lengths.TRUNCATED, 99)],
    ),
    "in a function that prepares": (
        """
        def prepare(data, length=77):
            def tokenize(row):
                return tokenizer(row["text"], truncation=True, max_length=length)
            return data.map(tokenize).shuffle(seed=1)
        Trainer(model, train_dataset=prepare(data["train"]))
        """,
        [(Lengths.TRUNCATED, 77)],
    ),
    "of items": (
        """
        class Texts(torch.utils.data.Dataset):
            def __getitem__(self, i):
                return tokenizer(self.rows[i], padding="max_length", max_length=128)
        Trainer(model, train_dataset=Texts())
        """,
        [(Lengths.TOKENIZED, None), (Lengths.PADDED, 128)],
    ),
    "in a collator": (
        """
        def collate(rows):
            return tokenizer.pad(rows, padding="max_length", max_length=256)
        Trainer(model, train_dataset=data["train"], data_collator=collate)
        """,
        [(Lengths.PADDED, 256)],
    ),
    "in a collator of transformers": (
        """
        from transformers import DataCollatorWithPadding
        collator = DataCollatorWithPadding(tokenizer, padding="max_length", max_length=256)
        Trainer(model, train_dataset=data["train"], data_collator=collator)
        """,
        [(Lengths.PADDED, 256)],
    ),
    "assigned back to its split": (
        """
        def tokenize(row):
            return tokenizer(row["text"], truncation=True, max_length=16)
        data["train"] = data["train"].map(tokenize)
        Trainer(model, train_dataset=data["train"])
        """,
        [(Lengths.TRUNCATED, 16)],
    ),
    "set in place": (
        """
        def tokenize(row):
            return tokenizer(row["text"], truncation=True, max_length=16)
        train = data["train"]
        train.set_transform(tokenize)
        Trainer(model, train_dataset=train)
        """,
        [(Lengths.TRUNCATED, 16)],
    ),
}


@pytest.mark.parametrize("case", EFFECTS)
def test_effects_on_lengths(case: str) -> None:
    text, expected = EFFECTS[case]
    dataset = only(text)
    assert [(one.kind, one.tokens) for one in dataset.effects] == expected
    assert dataset.purpose is Purpose.TRAINING


def test_followed_back_to_its_load() -> None:
    dataset = only("Trainer(model, train_dataset=data['train'].shuffle())")
    assert dataset.load is not None
    assert dataset.load.name == "datasets.load_dataset"


LOOPS: dict[str, tuple[str, Purpose]] = {
    "training": (
        "for batch in loader:\n    model(**batch).loss.backward()",
        Purpose.TRAINING,
    ),
    "training, enumerated and shown": (
        "from tqdm import tqdm\nfor i, batch in enumerate(tqdm(loader)):\n"
        "    model(**batch).loss.backward()",
        Purpose.TRAINING,
    ),
    "training, prepared": (
        "from accelerate import Accelerator\na = Accelerator()\n"
        "model, loader = a.prepare(model, loader)\n"
        "for batch in loader:\n    a.backward(model(**batch).loss)",
        Purpose.TRAINING,
    ),
    "training, in a function": (
        "def fit(model, batches):\n    for batch in batches:\n"
        "        model(**batch).loss.backward()\nfit(model, loader)",
        Purpose.TRAINING,
    ),
    "training, by next": (
        "batches = iter(loader)\nwhile True:\n    batch = next(batches)\n"
        "    model(**batch).loss.backward()",
        Purpose.TRAINING,
    ),
    "evaluation": (
        "model.eval()\nwith torch.no_grad():\n    for batch in loader:\n        model(**batch)",
        Purpose.EVALUATION,
    ),
    "inference": (
        "for batch in loader:\n    print(model.generate(**batch))",
        Purpose.INFERENCE,
    ),
    "nothing": ("", Purpose.UNKNOWN),
}


@pytest.mark.parametrize("case", LOOPS)
def test_purpose_is_where_it_goes(case: str) -> None:
    text, purpose = LOOPS[case]
    dataset = only(f"loader = DataLoader(data['test'], batch_size=4)\n{text}")
    assert dataset.purpose is purpose
    assert dataset.batch_size is not None
    assert dataset.batch_size.value == 4


def test_inference_prompts_after_training_are_no_data_set() -> None:
    dataset = only("""
        Trainer(model, train_dataset=data["train"]).train()
        tokens = tokenizer(prompts, padding="max_length", max_length=512, return_tensors="pt")
        model.generate(**tokens)
    """)
    assert dataset.effects == ()


def test_evaluation_of_a_trainer() -> None:
    script = script_of("Trainer(model, train_dataset=data['a'], eval_dataset=data['b'])")
    purposes = {one.purpose for one in script.datasets}
    assert purposes == {Purpose.TRAINING, Purpose.EVALUATION}
    assert not script_of("Trainer(model, train_dataset=None)").datasets


DIFFERS: dict[str, bool] = {
    'train = load_dataset("a", split="train").map(lambda row: {"text": row["q"]})': True,
    'train, test = load_dataset("a", split=["train", "test"])': True,
    'train = load_dataset("a") if chosen() else None': True,
    "train = unbound.shuffle()[0]": False,
    "from ours import train": False,
    'from datasets import load_from_disk\ntrain = load_from_disk("a")': False,
    "def group_texts(rows): ...\ntrain = data.map(group_texts, batched=True)": False,
    "def cut(ids): return [ids[i : i + 9] for i in range(0, 99, 9)]\n"
    'train = data.map(lambda row: {"ids": cut(row["ids"])})': False,
    'train = data.map(lambda row: tokenizer(row["q"], padding="max_length"))': False,
}


@pytest.mark.parametrize("text", DIFFERS)
def test_whether_lengths_differ(text: str) -> None:
    script = read(HEADER + text + "\nTrainer(model, train_dataset=train).train()\n")
    (trainer,) = script.trainers
    assert script.lengths_may_differ(trainer) is DIFFERS[text]


def test_a_name_that_nothing_binds_is_as_one_that_is_loaded() -> None:
    script = read(HEADER + "Trainer(model, train_dataset=snippet.shuffle()).train()\n")
    assert script.lengths_may_differ(script.trainers[0])


def test_a_trainer_that_only_evaluates_trains_on_nothing() -> None:
    text = "trainer = Trainer(model, train_dataset=data)\ntrainer.evaluate()\n"
    assert [one.purpose for one in read(HEADER + text).datasets] == [Purpose.UNKNOWN]


def test_effects_after_a_call_of_the_tokenizer() -> None:
    dataset = only("""
        def tokenize(row):
            return tokenizer(row["text"])
        rows = data.map(tokenize).map(elsewhere)
        Trainer(model, train_dataset=rows).train()
    """)
    (call,) = [one.call for one in dataset.script.tokenizations]
    assert [one.kind for one in dataset.effects_after(call)] == [Lengths.UNKNOWN]
