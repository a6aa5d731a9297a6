"""A script on the runtime's trainers is understood as one on TRL's."""

from __future__ import annotations

import pytest

from memlint.api.drop_ins import original_of, stands_in
from memlint.rule import edits
from tests.memlint.script.scripts import read

USE = """
from trl import GRPOConfig
args = GRPOConfig("out", num_generations=4)
trainer = GRPOTrainer("Qwen/Qwen3-0.6B", reward_funcs=reward, args=args, train_dataset=rows)
"""


@pytest.mark.parametrize(
    ("line", "shares"),
    [
        ("from memlint_runtime.trl import GRPOTrainer", True),
        ("from memlint_runtime.trl.grpo import GRPOTrainer", True),
        ("from trl import GRPOTrainer", False),
        ("from trl.trainer.grpo_trainer import GRPOTrainer", False),
        (
            "from memlint_runtime.trl import GRPOTrainer as Base\n"
            "class GRPOTrainer(Base):\n    pass\n",
            True,
        ),
    ],
)
def test_its_trainer_is_trls(line: str, shares: bool) -> None:
    (trainer,) = read(f"{line}\n{USE}").trainers
    assert trainer.kind == "trl.GRPOTrainer"
    assert trainer.shares_prompts is shares
    assert trainer.config is not None
    assert trainer.config.setting("num_generations").value == 4
    assert trainer.has_option("processing_class")
    assert trainer.model.by_name


def test_names() -> None:
    assert original_of("memlint_runtime.trl.dpo.DPOTrainer.train") == "trl.DPOTrainer.train"
    assert original_of("memlint_runtime.trl") == "memlint_runtime.trl"
    assert original_of("memlint_runtime.truncate") == "memlint_runtime.truncate"
    assert not stands_in("trl.GRPOTrainer")


def test_a_stand_in_is_not_named_through_its_original() -> None:
    script = read("import trl\ntrainer = trl.GRPOTrainer('m', reward_funcs=reward)\n")
    (call,) = script.trainers
    found = edits.reference_to(script, "memlint_runtime.trl.GRPOTrainer", call.node)
    assert found is not None
    assert found.edits
    script = read(f"from memlint_runtime.trl import GRPOTrainer\n{USE}")
    found = edits.reference_to(script, "trl.GRPOTrainer", script.trainers[0].node)
    assert found is not None
    assert found.text == "GRPOTrainer"
    assert not found.edits
