"""A rule about a setting is one short file and one page, whatever the run is written in."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from memlint.rule.new import begin

ROOT = Path(__file__).parents[2]
RULE = '''\
"""Rows of a micro-batch that are too many for the GPU of this test.

Source: this test.
"""

from __future__ import annotations

from collections.abc import Iterator

from memlint.rule import Finding, Level, Rule, TrainingRun, by_change

_MOST, _FEWER = 24, 6


def check(run: TrainingRun) -> Iterator[Finding]:
    rows = run.micro_batch
    if (rows.number or 0) > _MOST:
        message = f"{rows.said}: the activations of all rows are kept until backward"
        yield Finding(rows.span, message, by_change(run.set(micro_batch=_FEWER)))


RULE = Rule(
    level=Level.WASTE,
    summary="more rows in a micro-batch than the test allows",
    of_run=check,
)
'''
TRAINER = """\
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B", dtype="bfloat16")
args = TrainingArguments("out", per_device_train_batch_size=48, gradient_checkpointing=True)
Trainer(model=model, args=args, train_dataset=rows).train()
"""
LOOP = """\
import torch
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B", dtype=torch.bfloat16).cuda()
model.train()
optimizer = torch.optim.AdamW(model.parameters())
for batch in DataLoader(rows, batch_size=48, shuffle=True):
    model(**batch).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""
TRL_RECIPE = """\
model_name_or_path: Qwen/Qwen3-0.6B
dataset_name: trl-lib/Capybara
max_length: 1024
per_device_train_batch_size: 48
"""
AXOLOTL_RECIPE = """\
base_model: Qwen/Qwen3-0.6B
datasets:
  - path: a/b
    type: alpaca
sequence_len: 1024
micro_batch_size: 48
gradient_accumulation_steps: 1
"""
LAUNCHED = """\
from transformers import AutoModelForCausalLM, HfArgumentParser
from trl import SFTConfig, SFTTrainer

(args,) = HfArgumentParser(SFTConfig).parse_args_into_dataclasses()
SFTTrainer("Qwen/Qwen3-0.6B", args=args, train_dataset=rows).train()
"""
LAUNCH = """\
accelerate launch launched.py --output_dir out --per_device_train_batch_size 48
trl sft --config recipe.yaml --output_dir out
"""
FILES = {
    "trainer.py": TRAINER,
    "loop.py": LOOP,
    "recipe.yaml": TRL_RECIPE,
    "axolotl.yaml": AXOLOTL_RECIPE,
    "launched.py": LAUNCHED,
    "launch.sh": LAUNCH,
}


def memlint(rules: Path, folder: Path, *arguments: str) -> str:
    """What the command prints with the rules of a checkout."""
    paths = (rules, ROOT, ROOT / "runtime")
    done = subprocess.run(
        [sys.executable, "-m", "memlint", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, 1), done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def rules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The rules with one more, begun and written as CONTRIBUTING says."""
    checkout = tmp_path_factory.mktemp("checkout")
    shutil.copytree(ROOT / "rules", checkout / "rules")
    rule, page, *_ = begin(checkout, "MEM899", "crowded-micro-batch")
    rule.write_text(RULE)
    page.write_text("## Why it matters\n\nEach row keeps its activations.\n")
    return checkout / "rules"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def test_the_rule_is_short() -> None:
    assert RULE.count("\n") <= 40


def test_a_setting_is_found_wherever_it_is_written(rules: Path, project: Path) -> None:
    shown = memlint(
        rules, project, "check", "--no-cache", "--select", "MEM899", "--output-format", "json",
        "--target", "trl=1.16.0,transformers=5.23.0", ".",
    )  # fmt: skip
    findings: list[dict[str, Any]] = json.loads(shown)
    places = {(Path(each["filename"]).name, each["location"]["row"]): each for each in findings}
    assert set(places) == {
        ("trainer.py", 4),
        ("loop.py", 8),
        ("recipe.yaml", 4),
        ("axolotl.yaml", 6),
        ("launch.sh", 1),
    }
    for place, finding in places.items():
        assert "48" in finding["message"], place
        assert finding["fix"]["applicability"] == "unsafe", place
        assert finding["fix"]["edits"], place
    # Recipes and launch commands are not priced.
    assert all(places[place]["saving"] for place in (("trainer.py", 4), ("loop.py", 8)))


def test_its_fix_is_made_wherever_it_is_written(rules: Path, project: Path) -> None:
    memlint(
        rules, project, "fix", "--no-cache", "--select", "MEM899", "--unsafe-fixes",
        "--target", "trl=1.16.0,transformers=5.23.0", ".",
    )  # fmt: skip
    for name, text in FILES.items():
        assert (project / name).read_text() == text.replace("48", "6"), name
