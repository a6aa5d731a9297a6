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

from memlint.memory.settings import with_pricing
from memlint.parallel.launch_writer import launch_files, write_files
from memlint.parallel.sharding_search import share
from memlint.rule.savings import Pricing
from memlint.source import Source
from tests.memlint.memory.test_described import estimated, settings
from tests.runtime.ranks import free_port
from tests.runtime.shared_prompt.training import tokenizer

ROOT = Path(__file__).parents[3]
HEAD = """\
import torch
from accelerate import Accelerator
from datasets import Dataset
from peft import LoraConfig
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
from trl import DPOConfig, DPOTrainer, SFTConfig, SFTTrainer

model = AutoModelForCausalLM.from_pretrained("model", dtype="{dtype}")
rows = [{{"input_ids": [*range(i, i + 32)], "labels": [*range(i, i + 32)]}} for i in range(30)]
common = dict(
    per_device_train_batch_size=2, gradient_accumulation_steps={steps}, max_steps=3, use_cpu=True,
    report_to="none", save_strategy="no", optim="adamw_torch", bf16=True,
)
"""
_TRAINER = """\
args = TrainingArguments("out", **common)
Trainer(model=model, args=args, train_dataset=Dataset.from_list(rows)).train()
"""
_SFT = """\
data = Dataset.from_list([{{"input_ids": row["input_ids"]}} for row in rows])
args = SFTConfig("out", max_length=32, loss_type="nll", **common)
trainer = SFTTrainer(model, args=args, train_dataset=data{more})
trainer.train()
"""
_DPO = """\
words = "w1 w2 w3 w4 w5 w6 w7 w8 w9 w10 w11 w12"
pairs = [{"prompt": words, "chosen": " " + words, "rejected": " " + words} for _ in rows]
args = DPOConfig("out", max_length=32, **common)
DPOTrainer(model, args=args, train_dataset=Dataset.from_list(pairs)).train()
"""
_LOOP = """\
accelerator = Accelerator(cpu=True, mixed_precision="bf16")
loader = torch.utils.data.DataLoader([torch.tensor(row["input_ids"]) for row in rows], batch_size=2)
optimizer = torch.optim.AdamW(model.parameters())
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
for batch in loader:
    loss = model(input_ids=batch, labels=batch).loss
    accelerator.backward(loss)
    optimizer.step()
    optimizer.zero_grad()
"""
_LORA = ', peft_config=LoraConfig(r=64, target_modules=["q_proj", "down_proj"])'
SCRIPTS = {
    "trainer": HEAD.format(dtype="float32", steps=2) + _TRAINER,
    "bf16": HEAD.format(dtype="bfloat16", steps=1) + _TRAINER,
    "sft": HEAD.format(dtype="float32", steps=2) + _SFT.format(more=""),
    "lora": HEAD.format(dtype="bfloat16", steps=2) + _SFT.format(more=_LORA),
    "dpo": HEAD.format(dtype="float32", steps=2) + _DPO,
    "loop": HEAD.format(dtype="float32", steps=1) + _LOOP,
}
ASSUMED = ("seq_len=32",)
KINDS = ("weights", "adapters", "gradients", "optimizer states", "master weights",
         "reference model")  # fmt: skip
PHASES = {"between": "forward", "step": "optimizer step"}

pytestmark = pytest.mark.matrix


@pytest.mark.parametrize("strategy", ["ddp", "fsdp2", "zero1", "zero2", "zero3"])
@pytest.mark.parametrize("script", SCRIPTS)
def test_each_process_holds_what_was_predicted(
    script: str, strategy: str, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    if strategy.startswith("zero") and find_spec("deepspeed") is None:
        pytest.skip("deepspeed is not installed: pip install deepspeed")
    monkeypatch.chdir(tmp_path)
    Path("pyproject.toml").touch()
    Path("train.py").write_text(SCRIPTS[script])
    config = Qwen2Config(
        vocab_size=2048, hidden_size=256, intermediate_size=768, num_hidden_layers=6,
        num_attention_heads=4, num_key_value_heads=2, tie_word_embeddings=False,
    )  # fmt: skip
    Qwen2ForCausalLM(config).save_pretrained("model")
    tokenizer().save_pretrained("model")
    (values,) = settings(Path("train.py"))
    shared = share(with_pricing(values, Pricing("h100-80gb", ASSUMED)), (), 2)
    found = [one for one in shared.candidates if one.strategy.name == strategy]
    if not found:
        assert strategy.startswith("zero")
        assert script == "loop"
        return
    shared = shared._replace(chosen=found[0])
    write_files("many", launch_files(shared, "many", Source("train.py", SCRIPTS[script])))
    capsys.readouterr()  # what libraries print when they are imported
    said = estimated(capsys, "train.py", "--assume", *ASSUMED)
    phases = {phase["name"]: phase["bytes_by_kind"] for phase in said["phases"]}
    for rank, measured in enumerate(launch()):
        for what, size in measured.items():
            predicted = sum(phases[PHASES[what]].get(kind, 0) for kind in KINDS)
            assert size == pytest.approx(predicted, rel=0.05), (rank, what)


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
    found = [json.loads(Path(f"rank{rank}.json").read_text()) for rank in range(2)]
    assert all("step" in each for each in found)
    return found
