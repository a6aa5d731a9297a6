"""Trainers of a script's own class: where the model computes the loss, its logits are there."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from tests.rules.test_scripts_above import codes, reported

SCRIPT = """
    import numpy as np
    import torch
    from transformers import (
        AutoModelForCausalLM, Trainer, TrainingArguments, default_data_collator,
    )
    class Tutor(Trainer):
        {body}
    def share(found):
        return {{"right": (np.argmax(found.predictions, -1) == found.label_ids).mean()}}
    net = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B", dtype=torch.bfloat16)
    choice = TrainingArguments(
        "out", bf16=True, per_device_train_batch_size=1, eval_strategy="steps", eval_steps=50,
        gradient_checkpointing=True,
    )
    tutor = Tutor(
        model=net, args=choice, train_dataset=first, eval_dataset=second,
        data_collator=default_data_collator, compute_metrics=share,
    )
    tutor.train()
"""
READS_LOSS = """
        def compute_loss(self, model, inputs, return_outputs=False, **kwargs):
            answer = model(**inputs)
            return (answer.loss, answer) if return_outputs else answer.loss
"""
CALLS_BASE = """
        def compute_loss(self, model, inputs, return_outputs=False, **kwargs):
            cost, answer = super().compute_loss(model, inputs, return_outputs=True, **kwargs)
            self.seen += 1
            return (cost, answer) if return_outputs else cost
"""
LOGS = """
        def log(self, logs, *rest):
            super().log({**logs, "hours": 1.0}, *rest)
"""
ADDS_LOGITS = """
        def compute_loss(self, model, inputs, return_outputs=False, **kwargs):
            answer = model(**inputs)
            sharp = answer.logits.float().softmax(-1).max(-1).values.mean()
            cost = answer["loss"] - 0.1 * sharp
            return (cost, answer) if return_outputs else cost
"""
COMPUTES = """
        def compute_loss(self, model, inputs, return_outputs=False, **kwargs):
            return my_cost(model, inputs)
"""
EVALUATES = """
        def prediction_step(self, model, inputs, prediction_loss_only, ignore_keys=None):
            return super().prediction_step(model, inputs, True, ignore_keys)
"""


def found(folder: Path, body: str) -> set[str]:
    text = dedent(SCRIPT).replace("    {body}", body.replace("\n    ", "\n").strip("\n"), 1)
    return codes(reported(folder, {"go.py": text})["go.py"])


@pytest.mark.parametrize("body", [READS_LOSS, CALLS_BASE, LOGS])
def test_the_loss_is_that_of_the_model(body: str, tmp_path: Path) -> None:
    assert {"MEM201", "MEM205", "MEM207"} <= found(tmp_path, body)


def test_what_reads_the_logits_needs_them(tmp_path: Path) -> None:
    told = found(tmp_path, ADDS_LOGITS)
    assert {"MEM205", "MEM207"} <= told
    assert "MEM201" not in told


def test_a_loss_of_which_nothing_is_known(tmp_path: Path) -> None:
    assert not {"MEM201", "MEM205", "MEM207"} & found(tmp_path, COMPUTES)


def test_an_evaluation_of_its_own(tmp_path: Path) -> None:
    assert not {"MEM205", "MEM207"} & found(tmp_path, LOGS + EVALUATES)


def test_a_base_in_another_file_decides(tmp_path: Path) -> None:
    base = "from transformers import Trainer\nclass Base(Trainer):" + COMPUTES.replace(
        "\n    ", "\n"
    )
    text = dedent(SCRIPT).replace("class Tutor(Trainer):\n    {body}", "class Tutor(Base): pass")
    files = {"base.py": base, "go.py": "from base import Base\n" + text}
    assert not {"MEM201", "MEM205", "MEM207"} & codes(reported(tmp_path, files)["go.py"])
    files["base.py"] = base.replace("return my_cost(model, inputs)", "return model(**inputs).loss")
    assert {"MEM205", "MEM207"} <= codes(reported(tmp_path, files)["go.py"])
