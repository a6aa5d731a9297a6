"""The written files start two processes here, which hold what was predicted, to 5 %.

DDP and FSDP2 run everywhere; ZeRO where deepspeed is installed (`pip install deepspeed==0.19.8`,
which no extra does). Measured: what the script's tensors take between two micro-batches and before
the step, on each rank; predicted: weights, gradients and states of an estimate that reads the
script with the files that start it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from transformers import Qwen2Config, Qwen2ForCausalLM

from memlint.memory.prices import with_pricing
from memlint.parallel.launch_writer import launch_files, write_files
from memlint.parallel.sharding_search import share
from memlint.rule.savings import Pricing
from memlint.source import Source
from tests.memlint.memory.test_described import estimated, settings
from tests.runtime.ranks import free_port

ROOT = Path(__file__).parents[3]
SCRIPT = """\
from datasets import Dataset
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("model", dtype="float32")
rows = [{"input_ids": [*range(i, i + 32)], "labels": [*range(i, i + 32)]} for i in range(64)]
args = TrainingArguments(
    "out", per_device_train_batch_size=2, gradient_accumulation_steps=2, max_steps=2, bf16=True,
    use_cpu=True, report_to="none", save_strategy="no", optim="adamw_torch",
)
trainer = Trainer(model=model, args=args, train_dataset=Dataset.from_list(rows))
trainer.train()
"""
ASSUMED = ("seq_len=32",)
KINDS = ("weights", "gradients", "optimizer states", "master weights")
PHASES = {"between": "forward", "step": "optimizer step"}

pytestmark = pytest.mark.matrix


@pytest.mark.parametrize("strategy", ["ddp", "fsdp2", "zero1", "zero2", "zero3"])
def test_each_process_holds_what_was_predicted(
    strategy: str, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    if strategy.startswith("zero") and find_spec("deepspeed") is None:
        pytest.skip("deepspeed is not installed: pip install deepspeed")
    monkeypatch.chdir(tmp_path)
    Path("pyproject.toml").touch()
    Path("train.py").write_text(SCRIPT)
    config = Qwen2Config(
        vocab_size=2048, hidden_size=256, intermediate_size=768, num_hidden_layers=6,
        num_attention_heads=4, num_key_value_heads=2, tie_word_embeddings=False,
    )  # fmt: skip
    Qwen2ForCausalLM(config).save_pretrained("model")
    (values,) = settings(Path("train.py"))
    shared = share(with_pricing(values, Pricing("h100-80gb", ASSUMED)), (), 2)
    (chosen,) = [one for one in shared.candidates if one.strategy.name == strategy]
    files = launch_files(shared._replace(chosen=chosen), "many", Source("train.py", SCRIPT))
    write_files("many", files)
    capsys.readouterr()  # what libraries print when they are imported
    said = estimated(capsys, "train.py", "--assume", *ASSUMED)
    phases = {phase["name"]: phase["bytes_by_kind"] for phase in said["phases"]}
    for rank, measured in enumerate(launch()):
        for what, phase in PHASES.items():
            predicted = sum(phases[phase].get(kind, 0) for kind in KINDS)
            assert measured[what] == pytest.approx(predicted, rel=0.05), (rank, what)


def launch() -> list[dict[str, int]]:
    """What each of two processes held that the written configuration started."""
    words = ["--main_process_port", str(free_port()), "-m", "tests.memlint.parallel.worker"]
    done = subprocess.run(
        [
            sys.executable, "-m", "accelerate.commands.launch",
            "--config_file", "many/accelerate.yaml", *words, "train.py",
        ],
        env={
            **os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "",
            "DS_ACCELERATOR": "cpu",
            "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
        },
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-6000:]
    return [json.loads(Path(f"rank{rank}.json").read_text()) for rank in range(2)]
