"""A fault is said where its value stands, in the recipe or in the command that changes it."""

from __future__ import annotations

from pathlib import Path

import pytest

from memlint.cli.main import run

AXOLOTL = """\
base_model: meta-llama/Llama-3.1-8B
datasets:
  - path: d
    type: alpaca
sequence_len: 4096
micro_batch_size: 2
gradient_checkpointing: false
sample_packing: true
attn_implementation: flash_attention_2
bf16: true
"""
FACTORY = """\
model_name_or_path: meta-llama/Llama-3.1-8B
stage: sft
do_train: true
finetuning_type: lora
template: llama3
cutoff_len: 2048
output_dir: out
per_device_train_batch_size: 4
packing: false
disable_gradient_checkpointing: true
bf16: true
"""
TUNE = """\
model:
  _component_: torchtune.models.llama3.llama3_8b
tokenizer:
  _component_: torchtune.models.llama3.llama3_tokenizer
  max_seq_len: 2048
dataset:
  _component_: torchtune.datasets.alpaca_dataset
  packed: True
optimizer:
  _component_: bitsandbytes.optim.PagedAdamW8bit
optimizer_in_bwd: True
loss:
  _component_: torchtune.modules.loss.LinearCrossEntropyLoss
batch_size: 2
device: cuda
dtype: fp32
enable_activation_checkpointing: True
enable_activation_offloading: True
"""
TRL = """\
model_name_or_path: Qwen/Qwen2.5-7B
output_dir: out
learning_rate: 1.0e-5
activation_checkpointing: false
packing: true
attn_implementation: flash_attention_2
dtype: bfloat16
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text("")
    return tmp_path


def found(capsys: pytest.CaptureFixture[str], codes: str) -> list[str]:
    options = ["--output-format", "concise", "--target", "newest", "--select", codes]
    run(["check", "--no-cache", *options, "."])
    lines = (line.split() for line in capsys.readouterr().out.splitlines() if ": MEM" in line)
    return [f"{place.split(':')[0]} {code}" for place, code, *_ in lines]


@pytest.mark.parametrize(
    ("recipe", "name", "command", "codes"),
    [
        (AXOLOTL, "Justfile", "a:\n  axolotl train r.yml --micro-batch-size 4\n", "MEM301"),
        (AXOLOTL, "a.sh", "accelerate launch -m axolotl.cli.train r.yml --lr 1\n", "MEM301"),
        (FACTORY, "a.sh", "llamafactory-cli train r.yml logging_steps=1\n", "MEM103,MEM301"),
        (FACTORY, "Makefile", "a:\n\tllamafactory-cli train r.yml seed=1\n", "MEM103,MEM301"),
        (TUNE, "a.sh", "tune run full_finetune_single_device --config r.yml seed=3\n", "MEM401"),
        (
            TUNE,
            "a.sh",
            "tune run full_finetune_single_device --config r.yml dataset.seed=3\n",
            "MEM401",
        ),
        (TRL, "a.sh", "trl sft --config r.yml --learning_rate 1e-6\n", "MEM301"),
        # A key that the fault depends on is set anew, and the recipe is at fault with it too.
        (FACTORY, "a.sh", "llamafactory-cli train r.yml per_device_train_batch_size=8\n", "MEM103"),
        (
            AXOLOTL.replace("packing: true", "packing: false"),
            "a.sh",
            "axolotl train r.yml --micro-batch-size 8\naxolotl train r.yml --micro-batch-size 4\n",
            "MEM103",
        ),
        (
            TRL.replace("packing: true", "packing: false"),
            "a.sh",
            "trl sft --config r.yml --per_device_train_batch_size 4\n",
            "MEM103",
        ),
    ],
)
def test_a_fault_of_the_recipe_is_said_there(
    here: Path,
    capsys: pytest.CaptureFixture[str],
    recipe: str,
    name: str,
    command: str,
    codes: str,
) -> None:
    (here / "r.yml").write_text(recipe)
    (here / name).write_text(command)
    assert sorted(found(capsys, codes)) == [f"r.yml {code}" for code in codes.split(",")]


@pytest.mark.parametrize(
    ("recipe", "command", "code"),
    [
        # Written there.
        (AXOLOTL, "axolotl train r.yml --sample-packing false", "MEM103"),
        (TUNE, "tune run full_finetune_single_device --config r.yml dtype=fp32", "MEM401"),
        (TRL, "trl sft --config r.yml --activation_checkpointing false", "MEM301"),
        # Comes about by what is written there, and by what the recipe says.
        (
            TUNE,
            "tune run full_finetune_single_device --config r.yml gradient_accumulation_steps=8",
            "MEM505",
        ),
        (
            FACTORY.replace("batch_size: 4", "batch_size: 1"),
            "llamafactory-cli train r.yml per_device_train_batch_size=8",
            "MEM103",
        ),
        (
            FACTORY,
            "llamafactory-cli train r.yml per_device_train_batch_size=8\n"
            "llamafactory-cli train r.yml per_device_train_batch_size=1",
            "MEM103",
        ),
    ],
)
def test_what_the_command_does_is_said_there(
    here: Path, capsys: pytest.CaptureFixture[str], recipe: str, command: str, code: str
) -> None:
    (here / "r.yml").write_text(recipe)
    (here / "a.sh").write_text(f"{command}\n")
    assert found(capsys, code) == [f"a.sh {code}"]


@pytest.mark.parametrize(
    ("recipe", "command", "code"),
    [
        (AXOLOTL, "axolotl train r.yml --gradient-checkpointing true", "MEM301"),
        (FACTORY, "llamafactory-cli train r.yml packing=true neat_packing=true", "MEM103"),
        (TUNE, "tune run full_finetune_single_device --config r.yml dtype=bf16", "MEM401"),
    ],
)
def test_what_the_command_changes_is_no_fault_of_the_recipe(
    here: Path, capsys: pytest.CaptureFixture[str], recipe: str, command: str, code: str
) -> None:
    (here / "r.yml").write_text(recipe)
    (here / "a.sh").write_text(f"{command}\n")
    assert found(capsys, code) == []
    (here / "a.sh").write_text(f"echo {command}\n")
    assert found(capsys, code) == [f"r.yml {code}"]
