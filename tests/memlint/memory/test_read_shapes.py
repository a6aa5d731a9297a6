"""Settings of scripts in shapes that people write: parsers, clusters, models by their sizes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from memlint.api.knowledge import model_types
from memlint.api.lookup import Api
from memlint.api.target_versions import newest
from memlint.cli.runs_of_file import runs_of_file
from memlint.memory import estimate
from memlint.runs.run_settings import settings_of
from memlint.script.model import build_script
from memlint.source import Source
from tests.memlint.memory.script_pairs import VECTORS

TRAINED = """
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

def main(name, rows, **more):
    model = AutoModelForCausalLM.from_pretrained(name, dtype="bfloat16")
    args = TrainingArguments("out", per_device_train_batch_size=rows, **more)
    Trainer(model=model, args=args, train_dataset=data).train()
"""
PARSED = {
    "tyro": """
import tyro
from dataclasses import dataclass

@dataclass
class Options:
    name: str = "Qwen/Qwen3-0.6B"
    rows: int = 6

options = tyro.cli(Options)
main(options.name, options.rows)
""",
    "pydantic": """
from pydantic import BaseModel, Field

class Part(BaseModel):
    rows: int = Field(6, ge=1)

class Options(BaseModel):
    name: str = Field(default="Qwen/Qwen3-0.6B")
    part: Part = Field(default_factory=Part)

options = Options()
main(options.name, options.part.rows)
""",
}
WRAPPED = """
import torch
from torch.nn.parallel import DistributedDataParallel
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B", dtype="bfloat16")
shared = DistributedDataParallel(model, gradient_as_bucket_view=True)
steps = torch.optim.AdamW(shared.parameters())
for turn, batch in enumerate(loader, 1):
    is_last = turn % 6 == 0
    shared(**batch).loss.backward()
    if is_last:
        steps.step()
        steps.zero_grad()
"""
BUILT = """
from transformers import {kind}Config, AutoModelForCausalLM, Trainer, TrainingArguments

shape = {kind}Config(vocab_size=8000, {sizes})
model = AutoModelForCausalLM.from_config(shape)
Trainer(model=model, args=TrainingArguments("out"), train_dataset=data).train()
"""
WORDS = """
import argparse

parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=1e-5)
parser.add_argument("name")
parser.add_argument("rows", type=int)
words = parser.parse_args()
main(words.name, words.rows)
"""


def read(text: str) -> dict[str, Any]:
    found = settings_of(build_script(Source("a.py", text), Api(newest())))
    assert found is not None
    return found


@pytest.mark.parametrize("parser", PARSED)
def test_the_defaults_of_a_class_that_is_parsed_are_read(parser: str) -> None:
    found = read(TRAINED + PARSED[parser])
    assert (found["model"], found["micro_batch"]) == ("Qwen/Qwen3-0.6B", 6)


def test_ddp_views_its_buckets_and_a_name_says_when_it_steps() -> None:
    found = read(WRAPPED)
    assert found["sharding_options"] == {"gradient_as_bucket_view": True}
    assert found["gradient_accumulation"] == 6


SHARED = "hidden_size=512, num_hidden_layers=6, num_attention_heads=8"


@pytest.mark.parametrize(
    ("kind", "sizes", "name"),
    [
        ("Llama", f"{SHARED}, intermediate_size=1376", "llama"),
        ("GPTNeoX", f"{SHARED}, intermediate_size=2048", "gpt_neox"),
        ("GPT2", "n_embd=512, n_layer=8, n_head=8", "gpt2"),
        ("T5", "d_model=512, d_kv=64, d_ff=2048, num_layers=6, num_heads=8", "t5"),
    ],
)
def test_a_model_is_read_by_the_sizes_that_its_script_gives(
    kind: str, sizes: str, name: str
) -> None:
    text = BUILT.format(kind=kind, sizes=sizes)
    config = read(text)["model"]["config"]
    assert (config["model_type"], config["vocab_size"]) == (name, 8000)
    # What the class decides is known too, where the class is.
    whole = read(text.replace("vocab_size=8000, ", ""))["model"]["config"]
    assert whole == {**config, "vocab_size": model_types.default_sizes(name)["vocab_size"]}


def test_a_model_whose_class_decides_sizes_that_are_not_known_is_unknown() -> None:
    assert "model" not in read(BUILT.format(kind="Apertus", sizes=SHARED))


def test_fsdp_that_a_switch_decides_is_said() -> None:
    sharded = 'fsdp=asked() or None, fsdp_config={"activation_checkpointing": True}'
    found = read(f'{TRAINED}\nmain("Qwen/Qwen3-0.6B", 2, {sharded})\n')
    assert (found["sharding"], found["checkpointing"]) == ("fsdp2", "full")
    assert "decided when it is run" in found["notes"]["sharding"]


def test_words_without_an_option_reach_the_parser(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAINED + WORDS)
    (tmp_path / "go.sh").write_text("python train.py Qwen/Qwen3-1.7B 12 --lr 2e-5\n")
    (run,) = runs_of_file(str(tmp_path / "go.sh"), None, None)
    assert (run.settings["model"], run.settings["micro_batch"]) == ("Qwen/Qwen3-1.7B", 12)


@pytest.mark.parametrize("asked", ["--nodes=3", "-N 3", "--nodes 3"])
def test_a_job_has_the_nodes_that_slurm_is_asked_for(tmp_path: Path, asked: str) -> None:
    (tmp_path / "train.py").write_text(f'{TRAINED}\nmain("Qwen/Qwen3-0.6B", 2)\n')
    start = "srun torchrun --nnodes=$SLURM_NNODES --nproc-per-node=$SLURM_GPUS_ON_NODE train.py\n"
    job = f"#!/bin/bash\n#SBATCH {asked}\n#SBATCH --gpus-per-node=h100:4\n{start}"
    (tmp_path / "job.sbatch").write_text(job)
    (run,) = runs_of_file(str(tmp_path / "job.sbatch"), None, None)
    assert run.settings["world_size"] == 12


def test_rows_that_a_collator_multiplies_are_said_where_nobody_can_count_them(
    tmp_path: Path,
) -> None:
    texts = "[row['text'] for row in rows] + [text for row in rows for text in row['others']]"
    script = VECTORS.format(
        collate=f"    return tokenizer({texts}, **how)",
        step="    first = second = model(**batch).last_hidden_state[:, 0]",
    )
    (tmp_path / "train.py").write_text(script)
    (found,) = runs_of_file(str(tmp_path / "train.py"), None, None)
    assert found.settings["micro_batch"] == 32
    assert "several of the batch" in found.settings["notes"]["micro_batch"]
    said = estimate(found.settings).assumptions
    assert "micro_batch" in {one.name for one in said}
