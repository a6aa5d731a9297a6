"""``memlint fits``: the verdict, the batch and the next command are those of ``estimate``."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from memlint.cli.main import run
from memlint.rule.savings import ends

SCRIPT = """\
from datasets import load_dataset
from transformers import AutoModelForCausalLM
from trl import SFTConfig, SFTTrainer

model = AutoModelForCausalLM.from_pretrained("{model}", dtype="bfloat16")
args = SFTConfig(
    "out", per_device_train_batch_size=4, gradient_accumulation_steps=6, max_length=2048, bf16=True,
    activation_checkpointing={checkpointing}, loss_type="nll",
)
SFTTrainer(model, args=args, train_dataset=load_dataset("own/rows", split="train")).train()
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def answer(
    capsys: pytest.CaptureFixture[str], model: str, checkpointing: bool, *words: str
) -> tuple[int, dict[str, Any]]:
    Path("train.py").write_text(SCRIPT.format(model=model, checkpointing=checkpointing))
    asked = ["fits", *words, "--output-format", "json", "train.py"]
    status = run(asked)
    return status, json.loads(capsys.readouterr().out)


def estimated(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    run(["estimate", *words, "--output-format", "json", "train.py"])
    return json.loads(capsys.readouterr().out)


GPU = ("--gpu", "rtx4090-24gb")


def test_a_run_that_fits(capsys: pytest.CaptureFixture[str]) -> None:
    status, said = answer(capsys, "Qwen/Qwen2.5-0.5B", True, *GPU)
    assert (status, said["verdict"], said["with"]) == (0, "fits", [])
    assert said["peak"] == estimated(capsys, *GPU)["allocated"]["estimate"]
    # The largest that divides the 24 rows of a step.
    largest = estimated(capsys, *GPU, "--fit")["micro_batch"]
    assert said["micro_batch"] * said["gradient_accumulation"] == 24
    assert said["micro_batch"] <= largest
    assert not any(24 % each == 0 for each in range(said["micro_batch"] + 1, min(largest, 24) + 1))
    assert said["next"] == "memlint check --gpu rtx4090-24gb train.py"


def test_a_run_that_does_not(capsys: pytest.CaptureFixture[str]) -> None:
    status, said = answer(capsys, "Qwen/Qwen2.5-1.5B", False, *GPU)
    assert (status, said["verdict"]) == (1, "does not fit")
    assert said["with"]
    assert ends(said["peak_then"])[1] <= said["room"] < said["peak"]
    assert said["next"] == "memlint fix --fit --gpu rtx4090-24gb train.py"
    assert run([*shlex.split(said["next"])[1:], "--diff"]) in (0, 1)
    capsys.readouterr()
    assert run(["fits", *GPU, "train.py"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("train.py does not fit the 23.5 GiB of rtx4090-24gb: ")
    assert lines[-1] == f"next: {said['next']}"


def test_many_gpus(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--gpu", "a100-80gb", "--gpus", "4")
    status, said = answer(capsys, "Qwen/Qwen2.5-7B", True, *words)
    assert (status, said["verdict"]) == (0, "fits")
    chosen = estimated(capsys, *words, "--fit")["chosen"]
    assert said["with"][0] == chosen["sharding"]
    assert said["peak"] == chosen["allocated"]["estimate"]
    assert run(shlex.split(said["next"])[1:]) == 0
    assert Path("launch/accelerate.yaml").exists()


def test_where_nothing_helps(capsys: pytest.CaptureFixture[str]) -> None:
    status, said = answer(capsys, "meta-llama/Llama-3.1-405B", True, "--gpu", "t4-16gb")
    assert (status, said["peak_then"], said["micro_batch"]) == (1, None, 0)
    run(["fits", "--gpu", "t4-16gb", "--gpus", "2", "train.py"])
    assert "not even so" in capsys.readouterr().out


def test_a_gpu_must_be_named(capsys: pytest.CaptureFixture[str]) -> None:
    Path("train.py").write_text(SCRIPT.format(model="gpt2", checkpointing=True))
    assert run(["fits", "train.py"]) == 2
    assert "name the GPU with --gpu" in capsys.readouterr().err
