"""Sizes that scripts make themselves, in loops, losses and data sets of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from memlint.api.lookup import Api
from memlint.api.target_versions import newest
from memlint.memory import estimate
from memlint.run.described import runs_in
from memlint.run.runs import Runs

MODEL = """
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen2.5-0.5B")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-0.5B", dtype=torch.bfloat16).cuda()
optimizer = torch.optim.AdamW(model.parameters())
"""
STEP = """
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""


def settings(folder: Path, text: str, **files: str) -> dict[str, Any]:
    for name, content in {"pyproject__toml": "", **files, "train__py": text}.items():
        (folder / name.replace("__", ".")).write_text(content)
    api = Api(newest())
    (run,) = runs_in(str(folder / "train.py"), lambda path, source: api, Runs())
    return dict(run.settings)


def sizes(folder: Path, before: str, inside: str) -> tuple[int | None, int | None]:
    read = settings(folder, f"{MODEL}{before}\nfor turn in range(100):\n    {inside}{STEP}")
    return read.get("micro_batch"), read.get("seq_len")


@pytest.mark.parametrize(
    ("inside", "expected"),
    [
        ("ids = torch.randint(0, 90, (24, 40)).cuda()", (24, 40)),
        ("ids = torch.randint(0, 90, size=(6, 128), device='cuda')", (6, 128)),
        ("ids = torch.randint(0, 90, (rows, 64))", (None, 64)),
        ("ids = torch.zeros([2, 32], dtype=torch.long)", (2, 32)),
        ("ids = torch.randint(0, 90, shape)", (None, None)),
        ("ids = draw(torch.randint(0, 90, (24, 40)))", (None, None)),
    ],
)
def test_ids_that_a_step_draws(
    inside: str, expected: tuple[int | None, int | None], tmp_path: Path
) -> None:
    step = f"{inside}\n    loss = model(ids, labels=ids).loss"
    assert sizes(tmp_path, "import sys\nrows = int(sys.argv[1])", step) == expected


def test_no_size_is_that_of_the_labels_or_of_another_draw(tmp_path: Path) -> None:
    step = "loss = model(next(stream), labels=torch.randint(0, 9, (3, 5))).loss"
    before = "noise = torch.randint(0, 9, (7, 11))\nstream = open_stream()"
    assert sizes(tmp_path, before, step) == (None, None)


@pytest.mark.parametrize(
    ("before", "rows"),
    [
        ("BATCH_SIZE = 6", 6),
        ("config = {'batch_size': 6}\nBATCH_SIZE = config['batch_size']", 6),
        ("BATCH_SIZE = 6\nfor texts in chunks(held_out, batch_size):\n    pass\n", 6),
        ("BATCH_SIZE = 6\neval = lambda bs=12: score(bs)\nbs = 12\nprint(bs)", None),
        ("BATCH_SIZE = len(texts)", None),
        ("BATCH_SIZE = 'all'", None),
        ("BATCH_SIZE = -1", None),
    ],
)
def test_the_one_number_that_is_called_a_batch_size(
    before: str, rows: int | None, tmp_path: Path
) -> None:
    inside = "ids = pick(BATCH_SIZE)\n    loss = model(input_ids=ids, labels=ids).loss"
    text = f"{MODEL}{before}\nfor turn in range(100):\n    {inside}{STEP}"
    read = settings(tmp_path, text)
    assert read.get("micro_batch") == rows
    named = [one for one in estimate(read).assumptions if one.name == "micro_batch"]
    assert [one.reason.startswith("the script's `") for one in named] == [rows is not None]


def test_a_loader_says_more_than_a_name(tmp_path: Path) -> None:
    """The name is another thing's here: the guess would be wrong, and is not asked for."""
    loop = """
from torch.utils.data import DataLoader
batch_size, max_len = 64, 100
index(batch_size, max_len)
def collate(rows):
    return tokenizer(rows, truncation=True, max_length=256, padding=True, return_tensors="pt")
for batch in DataLoader(rows, batch_size=4, shuffle=True, collate_fn=collate):
    loss = model(**batch, labels=batch["input_ids"]).loss
"""
    read = settings(tmp_path, MODEL + loop + STEP)
    assert (read["micro_batch"], read["seq_len"]) == (4, 256)
    assert not {"micro_batch", "seq_len"} & set(read.get("notes", {}))


def test_tokens_of_a_function_that_the_step_calls(tmp_path: Path) -> None:
    made = """
def loss_of(texts, limit):
    rows = tokenizer(texts, truncation=True, max_length=limit, return_tensors="pt").to("cuda")
    return model(**rows, labels=rows["input_ids"]).loss

def shown(text):
    return tokenizer(text, truncation=True, max_length=900, return_tensors="pt")

print(shown("before"))
"""
    assert sizes(tmp_path, made, "loss = loss_of(texts, 384)") == (None, 384)


ROWS = """
from torch.utils.data import Dataset
from transformers import Trainer, TrainingArguments

class Rows(Dataset):
    def __init__(self, rows, longest):
        self.rows, self.longest = rows, longest

    def __getitem__(self, place):
        {body}

Trainer(model, TrainingArguments("out"), train_dataset=Rows(rows, 640)).train()
"""


@pytest.mark.parametrize(
    ("body", "tokens"),
    [
        ("ids = (self.rows[place] + [0])[: self.longest]\n        return {'input_ids': ids}", 640),
        ("return {'input_ids': self.rows[place][: self.longest]}", 640),
        ("text = self.rows[place][: self.longest]\n        return tokenizer(text)", None),
        ("text = clean(self.rows[place][: self.longest], seq=1)\n        return text", None),
        ("words = (self.rows[place] + ['.'])[: self.longest]\n        return encode(words)", None),
    ],
)
def test_rows_that_are_cut_off_as_ids(body: str, tokens: int | None, tmp_path: Path) -> None:
    """What is cut off and called a text has so many characters."""
    assert settings(tmp_path, MODEL + ROWS.format(body=body)).get("seq_len") == tokens


LOSS = """
from transformers import Trainer, TrainingArguments

class Own(Trainer):
    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        good = model(input_ids=inputs["good"]).logits
        {second}
        return -(good - bad).mean()

Own(model, TrainingArguments("out", per_device_train_batch_size=4), train_dataset=rows).train()
"""


@pytest.mark.parametrize(
    ("second", "rows"),
    [
        ("bad = model(input_ids=inputs['bad']).logits", 8),
        ("bad = 0", 4),
        ("bad = self.other(input_ids=inputs['bad']).logits", 4),
        ("with torch.no_grad():\n            bad = model(input_ids=inputs['bad']).logits", 4),
        ("bad = model(input_ids=inputs['bad']).logits if inputs['pairs'] else 0", 4),
    ],
)
def test_two_passes_of_a_trainers_own_loss(second: str, rows: int, tmp_path: Path) -> None:
    assert settings(tmp_path, MODEL + LOSS.format(second=second))["micro_batch"] == rows


def test_two_passes_of_a_trainer_that_counts_pairs_are_one_batch(tmp_path: Path) -> None:
    loss = LOSS.format(second="bad = model(input_ids=inputs['bad']).logits")
    loss = loss.replace("from transformers import Trainer, TrainingArguments", "import trl")
    loss = loss.replace("(Trainer)", "(trl.DPOTrainer)").replace("TrainingArgum", "trl.DPOConfig#")
    text = loss.replace("Own(model, trl.DPOConfig#ents(", "Own(model, None, trl.DPOConfig(")
    assert settings(tmp_path, MODEL + text)["micro_batch"] == 4


ADAPTER = """
import bitsandbytes as bnb
from peft import LoraConfig, get_peft_model
from transformers import Trainer, TrainingArguments

def names_of(model):
    found = set()
    for name, module in model.named_modules():
        if {test}:
            found.add(name.split(".")[-1])
    return list(found)

model = get_peft_model(model, LoraConfig(r=8, target_modules={targets}))
Trainer(model, TrainingArguments("out"), train_dataset=rows).train()
"""


@pytest.mark.parametrize(
    ("test", "targets", "expected"),
    [
        ("isinstance(module, bnb.nn.Linear4bit)", "names_of(model)", "all-linear"),
        ("isinstance(module, torch.nn.Linear)", "names_of(model)", "all-linear"),
        ("isinstance(module, torch.nn.Linear)", "['q_proj']", ["q_proj"]),
        ("isinstance(module, torch.nn.Linear)", "None", None),
        ("isinstance(module, torch.nn.Embedding)", "names_of(model)", None),
    ],
)
def test_targets_that_are_found_by_their_class(
    test: str, targets: str, expected: object, tmp_path: Path
) -> None:
    read = settings(tmp_path, MODEL + ADAPTER.format(test=test, targets=targets))
    assert read["lora"].get("target_modules") == expected


SFT = """
from omegaconf import OmegaConf
from trl import SFTConfig, SFTTrainer
cfg = OmegaConf.create({given})
args = SFTConfig("out", max_length=cfg.data.length, per_device_train_batch_size=cfg.rows, bf16=True)
SFTTrainer("Qwen/Qwen2.5-0.5B", args=args, train_dataset=rows).train()
"""


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("{'rows': 3, 'data': {'length': 700}}", (3, 700)),
        ("open('own.yaml').read()", (None, None)),
    ],
)
def test_a_configuration_that_is_made_of_a_dictionary(
    given: str, expected: tuple[int | None, int | None], tmp_path: Path
) -> None:
    read = settings(tmp_path, SFT.format(given=given))
    assert (read.get("micro_batch"), read.get("seq_len")) == expected


FSDP = "distributed_type: FSDP\nfsdp_config:\n  fsdp_version: 2\nnum_processes: 8\n"
START = "accelerate launch --config_file fsdp.yaml train.py"


@pytest.mark.parametrize(
    ("page", "more", "sharding"),
    [
        (f"```bash\n{START}\n```\n", {}, "fsdp2"),
        (f"Never `{START}`.\n", {}, None),
        (f"```bash\n{START}\n```\nor\n```bash\npython train.py\n```\n", {}, None),
        (f"```bash\n{START}\n```\n", {"run__sh": "python train.py --lr 1e-4\n"}, None),
        (f"```bash\n{START.replace('train', 'other')}\n```\n", {}, None),
    ],
)
def test_the_one_command_of_a_page_where_no_file_starts_a_script(
    page: str, more: dict[str, str], sharding: str | None, tmp_path: Path
) -> None:
    text = SFT.format(given="{'rows': 3, 'data': {'length': 700}}")
    read = settings(tmp_path, text, fsdp__yaml=FSDP, README__md=page, **more)
    assert read.get("sharding") == sharding


def test_without_a_size_buckets_are_deepspeeds_own(tmp_path: Path) -> None:
    """The libraries take the model's width for ``auto`` alone."""
    text = SFT.format(given="{'rows': 3, 'data': {'length': 700}}")
    engine = "deepspeed={'bf16': {'enabled': True}, 'zero_optimization': {'stage': 2}}, bf16"
    read = settings(tmp_path, text.replace("bf16", engine)) | {"world_size": 8}
    peaks = {
        size: estimate(read | {"sharding_options": given}).allocated.estimate
        for size, given in {
            "": {},
            "own": {"reduce_bucket_size": 500_000_000},
            "auto": {"reduce_bucket_size": "auto"},
        }.items()
    }
    assert estimate(read).allocated.estimate == peaks[""] == peaks["own"]
    assert peaks["own"] > peaks["auto"]
