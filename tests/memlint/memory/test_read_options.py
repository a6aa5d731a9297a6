"""Settings by the ways in which scripts get options: files of four formats, flags of absl, classes
that pydantic and simple_parsing fill, branches on defaults, the number of processes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from memlint.cli.runs_of_file import runs_of_file

TRAINED = """
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

args = TrainingArguments("out", per_device_train_batch_size=ROWS)
Trainer(AutoModelForCausalLM.from_pretrained(NAME), args, train_dataset=data).train()
"""
PYDANTIC = """
import yaml
from pydantic import BaseModel, Field

class Batch(BaseModel):
    rows: int = Field(default=1, ge=1)

class Config(BaseModel):
    model: str
    batch: Batch = Batch()

    @classmethod
    def read(cls, path):
        with open(path) as file:
            return cls(**yaml.safe_load(file))

config = Config.read("config.yaml")
NAME, ROWS = config.model, config.batch.rows
"""
TOML = """
import tomllib
from pathlib import Path

with open(Path(__file__).with_name("run.toml"), "rb") as file:
    config = tomllib.load(file)
NAME, ROWS = config["model"]["name"], config["batch"]["rows"]
"""
INI = """
import configparser, os

config = configparser.ConfigParser()
config.read(os.path.join(os.path.dirname(__file__), "run.ini"))
batch = config["batch"]
NAME, ROWS = config.get("model", "name"), batch.getint("rows") + batch.getint("more", fallback=0)
"""
DOTENV = """
import os
from dotenv import load_dotenv

load_dotenv()
NAME, ROWS = os.environ["MODEL"], int(os.getenv("ROWS", "1"))
"""
ABSL = """
from absl import app, flags

FLAGS = flags.FLAGS
flags.DEFINE_string("model", "gpt2", "the model")
_ROWS = flags.DEFINE_integer("rows", 1, "rows")
flags.DEFINE_bool("more", True, "more rows")
NAME = FLAGS.model
ROWS = 16 if FLAGS.more else _ROWS.value
"""
SIMPLE = """
from dataclasses import dataclass
from simple_parsing import ArgumentParser

@dataclass
class Options:
    size: str = "large"
    name: str = None
    rows: int = 0

    def __post_init__(self):
        if self.name is None:
            self.name = {"large": "Qwen/Qwen3-1.7B", "small": "gpt2"}[self.size]
        if not self.rows:
            self.rows = 3

parser = ArgumentParser()
parser.add_arguments(Options, dest="options")
options = parser.parse_args().options
NAME, ROWS = options.name, options.rows
"""
ATTRS = """
import attrs

@attrs.define(frozen=True)
class Plan:
    model: str
    rows: int = 8

NAME, ROWS = attrs.evolve(Plan("Qwen/Qwen3-1.7B"), rows=3).model, 3
plan = attrs.evolve(Plan(NAME), rows=3)
ROWS = plan.rows
"""
TYRO = """
from dataclasses import dataclass, field
import tyro

@dataclass
class Batch:
    rows: int = 8
    more: bool = False

@dataclass
class Options:
    model: str = "gpt2"
    batch: Batch = field(default_factory=Batch)

options = tyro.cli(Options)
NAME, ROWS = options.model, options.batch.rows
"""
NEGATED = """
import argparse

parser = argparse.ArgumentParser()
parser.add_argument("--bits", type=int, default=16)
parser.add_argument("--small", action="store_true")
args = parser.parse_args()
LARGE, WHOLE = not args.small, args.bits == 16
NAME = "Qwen/Qwen3-1.7B" if LARGE else "gpt2"
ROWS = 3 if WHOLE else 16
"""
FILES = {
    "config.yaml": "model: Qwen/Qwen3-1.7B\nbatch: {rows: 3}\n",
    "run.toml": '[model]\nname = "Qwen/Qwen3-1.7B"\n[batch]\nrows = 3\n',
    "run.ini": "[model]\nname = Qwen/Qwen3-1.7B\n[batch]\nrows = 3\n",
    ".env": "# the model\nMODEL=Qwen/Qwen3-1.7B\nexport ROWS='3'  # rows\n",
    "go.sh": "python train.py --model=Qwen/Qwen3-1.7B --rows 3 --nomore\n",
    "nested.sh": "python train.py --model Qwen/Qwen3-1.7B --batch.rows 3 --batch.more\n",
}
CHOICE = """
import argparse

parser = argparse.ArgumentParser()
parser.add_argument("--size", default="large")
args = parser.parse_args()
"""
BRANCHES = """
if args.size == "tiny":
    NAME, ROWS = "gpt2", 16
elif args.size == "large":
    NAME, ROWS = "Qwen/Qwen3-1.7B", 3
else:
    NAME, ROWS = "Qwen/Qwen3-8B", 1
"""
CASES = """
match args.size:
    case "tiny" | "mini":
        NAME, ROWS = "gpt2", 16
    case "large" as size if ROWS_ARE_FEW:
        NAME, ROWS = "Qwen/Qwen3-1.7B", 3
    case _:
        NAME, ROWS = "Qwen/Qwen3-8B", 1
"""
LOOP = """
import os, torch
from transformers import AutoModelForCausalLM

{before}
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B", dtype=torch.bfloat16).cuda()
optimizer = torch.optim.AdamW(model.parameters())
{setup}
for step, batch in enumerate(torch.utils.data.DataLoader(rows, batch_size=4)):
    (model(**batch).loss / ({more})).backward()
    if (step + 1) % ({more}) == 0:
        optimizer.step()
        optimizer.zero_grad()
"""


def read(folder: Path, script: str, *names: str) -> dict[str, Any]:
    """The settings of a script beside some of the files."""
    for name in names:
        (folder / name).write_text(FILES[name])
    (folder / "train.py").write_text(script)
    (run,) = runs_of_file(str(folder / "train.py"), None, None)
    return dict(run.settings)


@pytest.mark.parametrize(
    ("script", "names"),
    [
        (PYDANTIC, ["config.yaml"]),
        (TOML, ["run.toml"]),
        (INI, ["run.ini"]),
        (DOTENV, [".env"]),
        (ABSL, ["go.sh"]),
        (SIMPLE, []),
        (ATTRS, []),
        (TYRO, ["nested.sh"]),
        (NEGATED, []),
        (CHOICE + BRANCHES, []),
        (CHOICE + CASES.replace("ROWS_ARE_FEW", "True"), []),
    ],
)
def test_options_reach_a_run(tmp_path: Path, script: str, names: list[str]) -> None:
    found = read(tmp_path, script + TRAINED, *names)
    assert (found["model"], found["micro_batch"]) == ("Qwen/Qwen3-1.7B", 3)


def test_a_flag_has_its_default(tmp_path: Path) -> None:
    found = read(tmp_path, ABSL + TRAINED)
    assert (found["model"], found["micro_batch"]) == ("gpt2", 16)


def test_what_is_set_by_unknown_names_may_be_any_attribute(tmp_path: Path) -> None:
    job = """
class Job:
    model, rows = "gpt2", 8

    def __init__(self, **options):
        for name, value in options.items():
            setattr(self, name, value)

job = Job(**read_options())
NAME, ROWS = job.model, job.rows
"""
    found = read(tmp_path, job + TRAINED)
    assert found.keys().isdisjoint(("model", "micro_batch"))


def test_names_of_one_text_are_adapted(tmp_path: Path) -> None:
    adapted = """
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
names = "q_proj, o_proj"
lora = LoraConfig(target_modules=[name.strip() for name in names.split(",")])
model = get_peft_model(AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B"), lora)
Trainer(model, TrainingArguments("out"), train_dataset=data).train()
"""
    assert read(tmp_path, adapted)["lora"]["target_modules"] == ["q_proj", "o_proj"]


def test_data_that_is_split_is_no_list_of_names(tmp_path: Path) -> None:
    text = f'names = "{"q_proj," * 20_000}"'
    adapted = """
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
lora = LoraConfig(target_modules=names.split(","))
model = get_peft_model(AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B"), lora)
Trainer(model, TrainingArguments("out"), train_dataset=data).train()
"""
    assert len(read(tmp_path, text + adapted)["lora"].get("target_modules", ())) < 10


def test_a_case_with_a_guard_that_nobody_knows_is_not_taken(tmp_path: Path) -> None:
    script = CHOICE + CASES.replace("ROWS_ARE_FEW", "few(args)") + TRAINED
    assert "model" not in read(tmp_path, script)


def test_a_function_returns_where_a_default_holds(tmp_path: Path) -> None:
    helper = """
def stepper(parameters):
    if args.size == "large":
        return bnb.optim.AdamW8bit(parameters)
    return torch.optim.SGD(parameters)
"""
    loop = LOOP.format(before="import bitsandbytes as bnb", setup="", more=1)
    loop = loop.replace("torch.optim.AdamW(", "stepper(")
    assert read(tmp_path, CHOICE + helper + loop)["optimizer"] == "AdamW8bit"


@pytest.mark.parametrize(
    ("before", "world"),
    [
        ("", "torch.distributed.get_world_size()"),
        ("", 'int(os.environ["WORLD_SIZE"])'),
        ("", 'int(os.environ.get("WORLD_SIZE", 1))'),
        ("", "torch.cuda.device_count()"),
        ("from accelerate import PartialState", "PartialState().num_processes"),
        ("import accelerate\naccelerator = accelerate.Accelerator()", "accelerator.num_processes"),
        ("import lightning\nfabric = lightning.Fabric(devices=4)", "fabric.world_size"),
    ],
)
@pytest.mark.parametrize("command", ["", "torchrun --nproc_per_node 4 train.py\n"])
def test_the_number_of_processes_reaches_arithmetic(
    tmp_path: Path, before: str, world: str, command: str
) -> None:
    (tmp_path / "go.sh").write_text(command)
    setup = f"rows_of_step = 64\nworld = {world}\nmore = rows_of_step // (4 * world)"
    found = read(tmp_path, LOOP.format(before=before, setup=setup, more="more"))
    processes = 4 if command or "Fabric" in before else 1
    assert found["gradient_accumulation"] == 16 // processes
    said = found.get("notes", {}).get("world_size", "")
    assert ("number of processes" in said) is (processes == 1)


def test_an_accumulation_that_is_not_known_is_said(tmp_path: Path) -> None:
    found = read(tmp_path, LOOP.format(before="", setup="more = how_many(rows)", more="more"))
    assert found["gradient_accumulation"] == 2
    assert "gradient_accumulation" in found["notes"]


@pytest.mark.parametrize(
    ("average", "copies"),
    [
        ("{n: p.detach().clone() for n, p in model.named_parameters()}", 1),
        ("{n: p.clone() for n, p in model.state_dict().items()}", 1),
        ("{n: p.clone().cpu() for n, p in model.state_dict().items()}", 0),
        ("[]\nfor one in model.parameters():\n    average.append(one.data.clone())", 1),
        ("[]\nfor one in model.parameters():\n    old = one.data.clone()", 0),
    ],
)
def test_an_average_by_hand_is_a_copy(tmp_path: Path, average: str, copies: int) -> None:
    found = read(tmp_path, LOOP.format(before="", setup=f"average = {average}", more=1))
    assert found.get("copies", 0) == copies


def test_fabric_converts_outputs(tmp_path: Path) -> None:
    before = 'import lightning\nfabric = lightning.Fabric(precision="bf16-mixed")'
    loop = LOOP.format(
        before=before, setup="model, optimizer = fabric.setup(model, optimizer)", more=1
    )
    assert read(tmp_path, loop)["float32_outputs"] is True


@pytest.mark.parametrize(
    ("loss", "copies"),
    [
        ("out.loss + kl_div(log_softmax(s.float() / 2, -1), softmax(t.float() / 2, -1))", 4),
        ("kl_div(log_softmax(s.float() / 2, -1), softmax(t.float() / 2, -1))", 3),
        ("out.loss - (softmax(t.float(), -1) * log_softmax(s.float(), -1)).sum(-1).mean()", 3),
        ("out.loss + kl_div(log_softmax(s / 2, -1), softmax(t / 2, -1))", 1),
    ],
)
def test_a_distillation_keeps_what_autograd_and_names_keep(
    tmp_path: Path, loss: str, copies: int
) -> None:
    step = f"""
from torch.nn.functional import kl_div, log_softmax, softmax
config = AutoConfig.from_pretrained("Qwen/Qwen3-1.7B", num_hidden_layers=20)
teacher = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-1.7B", config=config).cuda()
for batch in rows:
    with torch.no_grad():
        t = teacher(**batch).logits
    out = model(**batch)
    s = out.logits
    ({loss}).backward()
    optimizer.step()
"""
    before = "from transformers import AutoConfig"
    script = LOOP.format(before=before, setup="", more=1).partition("for step")[0]
    found = read(tmp_path, script + step)
    assert found["logits_copies"] == copies
    assert list(found["frozen_models"]) == ["Qwen/Qwen3-1.7B?num_hidden_layers=20"]


def test_files_of_settings_that_grow_take_no_longer(tmp_path: Path) -> None:
    """A file of blank lines took minutes; values that name others, ten times each, never end."""
    (tmp_path / ".env").write_text("\n" * 60_000 + FILES[".env"])
    lines = (f"x{number} = " + f"%(x{number + 1})s" * 10 for number in range(11))
    (tmp_path / "run.ini").write_text("\n".join(["[DEFAULT]", *lines, FILES["run.ini"]]))
    found = read(tmp_path, DOTENV + INI.replace("NAME, ROWS", "OTHER, ROWS") + TRAINED)
    assert (found["model"], found["micro_batch"]) == ("Qwen/Qwen3-1.7B", 3)
