"""What fits several GPUs is applied to the script; what waits on the host fits its memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from memlint.cli.main import run
from memlint.memory.fit import Fitted, fit, run_of
from memlint.memory.settings import read_settings
from memlint.parallel.sharding_search import share

GIB = 2**30
TRAIN = """\
from datasets import load_dataset
from transformers import AutoModelForCausalLM
from trl import SFTConfig, SFTTrainer

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-7B", dtype="bfloat16")
args = SFTConfig(
    "out", per_device_train_batch_size={rows}, gradient_accumulation_steps={steps}, bf16=True,
    max_length=4096, packing=True, gradient_checkpointing=False,
)
SFTTrainer(model, args, train_dataset=load_dataset("a", split="train")).train()
"""
WHOLE: dict[str, Any] = {
    "model": "Qwen/Qwen2.5-7B", "trainer": "trl.SFTTrainer", "micro_batch": 2, "seq_len": 4096,
    "gradient_accumulation": 8, "weights_dtype": "bfloat16", "checkpointing": "full",
    "loss": "liger", "packed": True,
}  # fmt: skip
LONG: dict[str, Any] = {
    "model": "meta-llama/Llama-3.1-8B", "trainer": "trl.SFTTrainer", "method": "lora",
    "lora": {"r": 8}, "weights_dtype": "bfloat16", "micro_batch": 1, "seq_len": 16384,
    "checkpointing": "full", "loss": "liger", "packed": True, "gpu": "rtx4090-24gb",
}  # fmt: skip


def fixed(tmp_path: Path, text: str, *more: str) -> str:
    path = tmp_path / "train.py"
    path.write_text(text)
    run(["fix", "--fit", "--gpu", "a100-40gb", *more, str(path)])
    return path.read_text()


@pytest.mark.parametrize(("rows", "steps"), [(8, 4), (1, 32)])
def test_the_batch_with_which_four_gpus_share_a_run_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], rows: int, steps: int
) -> None:
    before = TRAIN.format(rows=rows, steps=steps)
    after = fixed(tmp_path, before, "--gpus", "4")
    said = capsys.readouterr().err
    assert after == TRAIN.format(rows=2, steps=16)
    assert "chosen: zero3" in said
    by_hand = next(line for line in said.splitlines() if "by hand:" in line)
    assert "Set `" in by_hand
    assert "--gpus 4 --gpu a100-40gb --write-launch" in by_hand


def test_nothing_is_written_where_no_way_to_share_fits(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = TRAIN.format(rows=8, steps=4)
    assert (
        fixed(tmp_path, before, "--gpu", "rtx4090-24gb", "--gpus", "2", "--host-memory", "16")
        == before
    )
    assert "host too small" in capsys.readouterr().err


def test_what_a_machine_cannot_hold_is_not_chosen() -> None:
    settings = read_settings({**WHOLE, "gpu": "rtx4090-24gb"})
    free = share(settings, (), 4)
    assert free.chosen is not None
    held = free.chosen.traffic.held
    assert held > 0
    narrow = share(settings, (), 4, held // 2)
    same = [one for one in narrow.candidates if one.strategy == free.chosen.strategy]
    assert same[0].verdict == "host too small"
    assert narrow.chosen is None or narrow.chosen.traffic.held <= held // 2
    assert share(settings, (), 4, held).chosen == free.chosen


def test_activations_wait_only_where_the_host_has_room() -> None:
    def with_host(host: int) -> Fitted:
        return fit(run_of(read_settings(LONG)), (), host)

    free = with_host(0)
    assert [dict(one.changes) for one in free.chosen] == [{"offload": "activations"}]
    # The input of each of 32 layers: 16,384 tokens of 4,096 numbers in 16 bits.
    assert free.on_host == 32 * 16384 * 4096 * 2
    assert with_host(free.on_host).chosen == free.chosen
    narrow = with_host(free.on_host - 1)
    assert narrow.on_host == 0
    assert {"offload": "activations"} not in [dict(one.changes) for one in narrow.chosen]


def test_options_of_machines_are_for_fit(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["fix", "--gpus", "2", "a.py"]) == 2
    assert run(["estimate", "--host-memory", "64", "--settings", "a.json"]) == 2
    assert "--fit" in capsys.readouterr().err
