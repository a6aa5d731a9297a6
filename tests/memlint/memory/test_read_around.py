"""Settings that stand around a script: variables of its command, the file that a word names, what
DeepSpeed's engine and TRL's trainers do with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from memlint.cli.runs_of_file import runs_of_file
from memlint.memory import estimate

SCRIPT = """
import os
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

def flag(name, default=False):
    value = os.environ.get(name)
    if value is None:
        return default
    return value.strip().lower() in {"1", "true"}

NAME = os.environ["BASE"]
precision = os.environ.get("PRECISION", "fp32")
args = TrainingArguments(
    "out",
    per_device_train_batch_size=int(os.getenv("ROWS", "2")),
    bf16=precision == "bf16",
)
Trainer(AutoModelForCausalLM.from_pretrained(NAME), args, train_dataset=data).train()
"""
FILE = """
import os, sys
from transformers import AutoModelForCausalLM, HfArgumentParser, Trainer, TrainingArguments

parser = HfArgumentParser(TrainingArguments)
if len(sys.argv) == 2 and sys.argv[1].endswith(".json"):
    (args,) = parser.parse_json_file(json_file=os.path.abspath(sys.argv[1]))
else:
    (args,) = parser.parse_args_into_dataclasses()
Trainer(AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B"), args, train_dataset=data).train()
"""
ENGINE = """
import deepspeed, torch
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B", dtype=torch.bfloat16)
loader = torch.utils.data.DataLoader(rows, batch_size=2)
how = {"gradient_accumulation_steps": 4, "bf16": {"enabled": True}}
engine, *_ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=how)
for batch in loader:
    loss = engine(**batch).loss
    engine.backward(loss)
    engine.step()
"""
TURNS = """
import itertools, torch
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B", dtype=torch.bfloat16).cuda()
optimizer = torch.optim.AdamW(model.parameters())
for step in range(100):
    for ids in itertools.islice(rows, 16):
        (model(input_ids=ids, labels=ids).loss / 16).backward()
    optimizer.step()
    optimizer.zero_grad()
"""
ADAPTED = """
from peft import LoraConfig
from trl import {kind}Config, {kind}Trainer

args = {kind}Config("out", gradient_checkpointing=True, {more})
lora = LoraConfig(r=8, lora_dropout=0.05, target_modules="all-linear")
{kind}Trainer("Qwen/Qwen3-0.6B", args=args, train_dataset=data, peft_config=lora).train()
"""


ELSEWHERE = """
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
import settings_env as env

args = TrainingArguments("out", per_device_train_batch_size=env.ROWS)
Trainer(AutoModelForCausalLM.from_pretrained(env.BASE), args, train_dataset=data).train()
"""
MERGED = """
import sys
from omegaconf import OmegaConf
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

conf = OmegaConf.merge(OmegaConf.load("conf.yaml"), OmegaConf.{given})
args = TrainingArguments("out", **OmegaConf.to_container(conf.training))
Trainer(AutoModelForCausalLM.from_pretrained(conf.model.name), args, train_dataset=data).train()
"""
BESIDE = """
import json, pathlib
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

cfg = json.loads((pathlib.Path(__file__).resolve().parent / "how.json").read_text())
name = cfg.pop("model")
args = TrainingArguments(**cfg)
Trainer(AutoModelForCausalLM.from_pretrained(name), args, train_dataset=data).train()
"""
TAUGHT = """
import torch
from transformers import AutoModelForCausalLM

class Distiller:
    def __init__(self):
        self.student = self._load("Qwen/Qwen3-0.6B")
        self.teacher = self._load("Qwen/Qwen3-1.7B").eval().requires_grad_(False)
        self.optimizer = torch.optim.AdamW(self.student.parameters())

    @staticmethod
    def _load(name):
        return AutoModelForCausalLM.from_pretrained(name, dtype=torch.bfloat16).to("cuda")

    def fit(self):
        for batch in torch.utils.data.DataLoader(rows, batch_size=4):
            with torch.no_grad():
                wanted = self.teacher(**batch).logits
            out = self.student(**batch)
            loss = out.loss + torch.nn.functional.mse_loss(out.logits, wanted)
            loss.backward()
            self.optimizer.step()
            self.optimizer.zero_grad()

Distiller().fit()
"""
COMPOSED = """
import hydra
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

@hydra.main(version_base=None, config_path="conf", config_name="config")
def main(cfg):
    args = TrainingArguments("out", per_device_train_batch_size=cfg.rows)
    Trainer(AutoModelForCausalLM.from_pretrained(cfg.model.name), args, train_dataset=d).train()

main()
"""
BY_DEFAULT = """
import json, pathlib, sys
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

def how(argv):
    name = argv[1] if len(argv) > 1 else "how.json"
    return json.loads((pathlib.Path(__file__).parent / name).read_text())

cfg = how(sys.argv)
model = AutoModelForCausalLM.from_pretrained(cfg["model"])
Trainer(model, TrainingArguments(**cfg["training"]), train_dataset=d).train()
"""


def read(folder: Path, script: str, command: str = "") -> dict[str, Any]:
    """The settings of a script beside a file of commands."""
    (folder / "train.py").write_text(script)
    if command:
        (folder / "go.sh").write_text(command)
    (run,) = runs_of_file(str(folder / "train.py"), None, None)
    return dict(run.settings)


@pytest.mark.parametrize(
    "command",
    [
        "export BASE=Qwen/Qwen3-1.7B ROWS=12\nexport PRECISION=bf16\nexec python -u train.py\n",
        "BASE=Qwen/Qwen3-1.7B ROWS=12 PRECISION=bf16 accelerate launch train.py\n",
    ],
)
def test_a_command_gives_variables(tmp_path: Path, command: str) -> None:
    found = read(tmp_path, SCRIPT, command)
    assert (found["model"], found["micro_batch"]) == ("Qwen/Qwen3-1.7B", 12)


def test_each_command_gives_its_own_variables(tmp_path: Path) -> None:
    starts = [f"BASE=Qwen/Qwen3-1.7B ROWS={rows} python train.py\n" for rows in (4, 12)]
    (tmp_path / "train.py").write_text(SCRIPT)
    (tmp_path / "go.sh").write_text("".join(starts))
    runs = runs_of_file(str(tmp_path / "train.py"), None, None)
    assert [run.settings["micro_batch"] for run in runs] == [4, 12]


def test_a_variable_of_another_script_gives_nothing(tmp_path: Path) -> None:
    assert "model" not in read(tmp_path, SCRIPT, "BASE=Qwen/Qwen3-1.7B python other.py\n")


def test_a_file_that_a_word_names_turns_checkpointing_on_by_its_older_name(tmp_path: Path) -> None:
    options = {"output_dir": "out", "gradient_checkpointing": True}
    (tmp_path / "sft.json").write_text(json.dumps(options))
    assert read(tmp_path, FILE, "python train.py sft.json\n")["checkpointing"] == "full"


@pytest.mark.parametrize("name", ["Qwen/Qwen3-0.6B-large", "Qwen/Qwen3-0.6B"])
def test_the_end_of_a_name_decides(tmp_path: Path, name: str) -> None:
    script = FILE.partition("parser =")[0] + (
        f'name = "{name}"\nargs = TrainingArguments("out", '
        'activation_checkpointing=name.lower().endswith("-LARGE".lower()))\n'
        "Trainer(AutoModelForCausalLM.from_pretrained(name), args, train_dataset=data).train()\n"
    )
    again = "full" if name.endswith("large") else "none"
    assert read(tmp_path, script)["checkpointing"] == again


@pytest.mark.parametrize(("script", "count"), [(ENGINE, 4), (TURNS, 16)])
def test_steps_are_accumulated(tmp_path: Path, script: str, count: int) -> None:
    assert read(tmp_path, script)["gradient_accumulation"] == count


@pytest.mark.parametrize(
    ("kind", "more", "share"),
    [("DPO", "", 0.0), ("DPO", "disable_dropout=False", 0.05), ("SFT", "", 0.05)],
)
def test_trl_drops_nothing_where_it_prefers(
    tmp_path: Path, kind: str, more: str, share: float
) -> None:
    assert read(tmp_path, ADAPTED.format(kind=kind, more=more))["lora"]["dropout"] == share


@pytest.mark.parametrize(("stage", "again"), [(3, "reentrant"), (2, "full")])
def test_adapters_under_deepspeed(tmp_path: Path, stage: int, again: str) -> None:
    how = f"accelerate launch --use_deepspeed --zero_stage {stage} --mixed_precision bf16"
    found = read(
        tmp_path, ADAPTED.format(kind="SFT", more=""), f"{how} --num_processes 4 train.py\n"
    )
    assert (found["checkpointing"], found["lora"]["dtype"]) == (again, "bfloat16")


def test_a_loss_over_labels_copies_labels() -> None:
    settings = {
        "model": "distilbert/distilbert-base-uncased", "head": "classes", "labels": 2,
        "trainer": "loop", "micro_batch": 64, "seq_len": 128,
    }  # fmt: skip
    plain, copied = (estimate({**settings, "logits_copies": copies}) for copies in (0, 4))
    assert copied.allocated.estimate - plain.allocated.estimate < 2**20


def test_a_module_reads_the_variables_of_a_command(tmp_path: Path) -> None:
    module = 'import os\nBASE = os.getenv("BASE", "gpt2")\nROWS = int(os.getenv("ROWS", "1"))\n'
    (tmp_path / "settings_env.py").write_text(module)
    found = read(tmp_path, ELSEWHERE, "export BASE=Qwen/Qwen3-1.7B ROWS=3\npython train.py\n")
    assert (found["model"], found["micro_batch"]) == ("Qwen/Qwen3-1.7B", 3)


@pytest.mark.parametrize("given", ["from_cli()", "from_dotlist(sys.argv[1:])"])
def test_a_command_sets_keys_of_a_configuration(tmp_path: Path, given: str) -> None:
    conf = "model: {name: gpt2}\ntraining: {per_device_train_batch_size: 1, optim: adafactor}\n"
    (tmp_path / "conf.yaml").write_text(conf)
    start = "python train.py model.name=Qwen/Qwen3-1.7B training.per_device_train_batch_size=3\n"
    found = read(tmp_path, MERGED.format(given=given), start)
    assert (found["model"], found["micro_batch"]) == ("Qwen/Qwen3-1.7B", 3)
    assert found["optimizer"] == "adafactor"


def test_the_text_of_a_file_is_parsed(tmp_path: Path) -> None:
    how = {"model": "Qwen/Qwen3-1.7B", "output_dir": "out", "per_device_train_batch_size": 3}
    (tmp_path / "how.json").write_text(json.dumps(how))
    found = read(tmp_path, BESIDE)
    assert (found["model"], found["micro_batch"]) == ("Qwen/Qwen3-1.7B", 3)


def test_a_helper_loads_the_student_and_its_teacher(tmp_path: Path) -> None:
    found = read(tmp_path, TAUGHT)
    assert found["model"] == "Qwen/Qwen3-0.6B"
    assert list(found["frozen_models"]) == ["Qwen/Qwen3-1.7B"]


@pytest.mark.parametrize(
    ("command", "name", "rows"),
    [
        ("python train.py model=large rows=3\n", "Qwen/Qwen3-1.7B", 3),
        ("python train.py\n", "gpt2", 1),
        ("python train.py model=$SIZE\n", None, 1),
    ],
)
def test_a_command_chooses_the_file_of_a_group(
    tmp_path: Path, command: str, name: str | None, rows: int
) -> None:
    (tmp_path / "conf/model").mkdir(parents=True)
    (tmp_path / "conf/config.yaml").write_text("defaults: [{model: small}, _self_]\nrows: 1\n")
    (tmp_path / "conf/model/small.yaml").write_text("name: gpt2\n")
    (tmp_path / "conf/model/large.yaml").write_text("name: Qwen/Qwen3-1.7B\n")
    found = read(tmp_path, COMPOSED, command)
    assert (found.get("model"), found["micro_batch"]) == (name, rows)


@pytest.mark.parametrize("command", ["", "python train.py\n", "python train.py other.json\n"])
def test_a_script_without_words_reads_its_own_file(tmp_path: Path, command: str) -> None:
    for place, size in (("how.json", "0.6B"), ("other.json", "1.7B")):
        training = {"output_dir": "out", "per_device_train_batch_size": 3}
        how = {"model": f"Qwen/Qwen3-{size}", "training": training}
        (tmp_path / place).write_text(json.dumps(how))
    found = read(tmp_path, BY_DEFAULT, command)
    assert found["model"] == f"Qwen/Qwen3-{'1.7B' if 'other' in command else '0.6B'}"
