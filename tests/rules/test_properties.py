"""Properties of a script's own classes are what their functions return."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.rules.test_scripts_above import codes, reported

EXPERIMENT = """
    import functools, torch
    from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
    class Experiment:
        def __init__(self, rows):
            self.rows = rows
        {kind}
        def net(self):
            return AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B", dtype=torch.float32)
        @property
        def choice(self):
            return TrainingArguments("o", per_device_train_batch_size=self.rows, bf16={bf16})
        def start(self):
            print(self.net.config, self.choice.bf16)
            Trainer(model=self.net, args=self.choice, train_dataset=self.data).train()
    Experiment(4).start()
"""


@pytest.mark.parametrize("kind", ["@property", "@functools.cached_property"])
def test_a_trainer_is_given_properties(kind: str, tmp_path: Path) -> None:
    found = reported(tmp_path, {"a.py": EXPERIMENT.format(kind=kind, bf16=False)})["a.py"]
    assert codes(found) >= {"MEM301", "MEM401", "MEM402"}
    assert not codes(found) & {"MEM405", "MEM409"}  # one model, however often it is read
    found = reported(tmp_path, {"a.py": EXPERIMENT.format(kind=kind, bf16=True)})["a.py"]
    assert "MEM402" not in codes(found)


@pytest.mark.parametrize("kind", ["@choice.setter", "@registered", ""])
def test_a_method_that_is_no_property_gives_nothing_where_it_is_read(
    kind: str, tmp_path: Path
) -> None:
    text = EXPERIMENT.format(kind="@property", bf16=False)
    text = text.replace("@property\n        def choice", f"{kind}\n        def choice")
    assert "MEM402" not in codes(reported(tmp_path, {"a.py": text})["a.py"])


def test_a_property_that_reads_itself_ends(tmp_path: Path) -> None:
    text = EXPERIMENT.format(kind="@property", bf16="self.choice.bf16")
    assert "MEM402" not in codes(reported(tmp_path, {"a.py": text})["a.py"])
