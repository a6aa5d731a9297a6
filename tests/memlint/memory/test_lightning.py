"""Settings of runs whose steps Lightning makes."""

from __future__ import annotations

from typing import Any

import pytest

from memlint.api.lookup import Api
from memlint.api.target_versions import newest
from memlint.runs.run_settings import settings_of
from memlint.script.model import build_script
from memlint.source import Source

SCRIPT = """\
import lightning as L
import torch
from transformers import AutoModelForCausalLM

class Tuned(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")

    def training_step(self, batch, index):
        return self.model(**batch).loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters())

rows = torch.utils.data.DataLoader(data, batch_size=6)
"""


def settings(trainer: str, text: str = SCRIPT) -> dict[str, Any] | None:
    text += f"{trainer}.fit(Tuned(), rows)\n"
    return settings_of(build_script(Source("a.py", text), Api(newest())))


def test_a_module_of_lightning_is_a_run() -> None:
    found = settings("L.Trainer()")
    assert found is not None
    assert (found["model"], found["micro_batch"]) == ("Qwen/Qwen3-0.6B", 6)
    assert (found["optimizer"], found["autocast"]) == ("AdamW", False)
    assert settings("L.Trainer()", SCRIPT.replace("L.LightningModule", "torch.nn.Module")) is None


@pytest.mark.parametrize(
    ("trainer", "expected"),
    [
        ("L.Trainer(precision='16-mixed')", {"compute_dtype": "float16", "autocast": True}),
        ("L.Trainer(precision='bf16-true')", {"weights_dtype": "bfloat16", "autocast": False}),
        ("L.Trainer(devices=4)", {"world_size": 4, "sharding": "ddp"}),
        (
            "L.Trainer(devices=[0, 1], num_nodes=2, strategy='fsdp')",
            {"world_size": 4, "sharding": "fsdp"},
        ),
        (
            "L.Trainer(devices=8, strategy='deepspeed_stage_3', precision='bf16-mixed')",
            {"sharding": "zero3", "weights_dtype": "bfloat16"},
        ),
        ("L.Trainer(accumulate_grad_batches=4)", {"gradient_accumulation": 4}),
    ],
)
def test_what_lightning_is_told(trainer: str, expected: dict[str, object]) -> None:
    found = settings(trainer) or {}
    assert {name: found.get(name) for name in expected} == expected
