"""What plain arguments cancel, by what was written and by what the version's defaults are."""

from __future__ import annotations

import pytest

from memlint.api.lookup import Api
from memlint.api.target_versions import newest, parse_target
from memlint.rule.registry import load
from memlint.run.engine import check_source
from memlint.source import Source


def messages(arguments: str, trainer: str = "", target: str = "", code: str = "MEM905") -> str:
    text = f"""
from transformers import TrainingArguments
from trl import SFTTrainer
SFTTrainer("Qwen/Qwen3-0.6B", args=TrainingArguments("out", {arguments}), {trainer})
"""
    api = Api(parse_target(target) if target else newest())
    return " ".join(one.message for one in check_source(Source("a.py", text), load([code]), api))


@pytest.mark.parametrize(
    ("arguments", "cancelled"),
    [
        ("", "these turn off bf16 and activation checkpointing, which"),
        ("fp16=True", "these turn off activation checkpointing, which"),
        ("bf16=True", "these turn off activation checkpointing, which"),
        ("activation_checkpointing=True", "these turn off bf16, which"),
    ],
)
def test_only_what_nobody_wrote_is_called_cancelled(arguments: str, cancelled: str) -> None:
    assert cancelled in messages(arguments)


def test_written_values_cancel_nothing_but_options_want_a_place() -> None:
    written = "bf16=True, gradient_checkpointing=True"
    assert messages(written) == ""
    assert "no place in them for `packing`" in messages(written, "packing=True")


def test_defaults_that_the_version_does_not_have_are_not_cancelled() -> None:
    old = "trl=0.12,transformers=4.46"
    assert messages("", target=old) == ""
    # Then nothing but its own rule says that checkpointing is off.
    assert "checkpointing off" in messages("", target=old, code="MEM301")
    assert messages("", code="MEM301") == ""


@pytest.mark.parametrize(
    ("written", "kept"), [("fp16=False", True), ("fp16=wish", True), ("fp16=True", False)]
)
def test_full_precision_stays_where_fp16_is_not_definitely_on(written: str, kept: bool) -> None:
    text = f"""
import sys
from transformers import TrainingArguments
from trl import SFTTrainer
wish = "half" in sys.argv
args = TrainingArguments("out", {written})
SFTTrainer("Qwen/Qwen3-0.6B", args=args)
"""
    (found,) = check_source(Source("a.py", text), load(["MEM905"]), Api(newest()))
    assert found.fix is not None
    assert ("bf16" in str(found.fix.edits)) is kept


@pytest.mark.parametrize(("kind", "waits"), [("TrainingArguments", True), ("SFTConfig", False)])
def test_an_option_that_moves_waits_for_the_configuration(kind: str, waits: bool) -> None:
    text = f"""
from transformers import TrainingArguments
from trl import SFTConfig, SFTTrainer
SFTTrainer("Qwen/Qwen3-0.6B", args={kind}("out"), packing=True)
"""
    (found,) = check_source(Source("a.py", text), load(["MEM901"]), Api(newest()))
    assert found.fix is not None
    assert ("once that is TRL's own (MEM905)" in found.fix.message) is waits
    assert bool(found.fix.edits) is not waits


REFUSED = """
from transformers import TrainingArguments
from trl import {trainer}Trainer
args = TrainingArguments("out"{options})
{later}
{trainer}Trainer("Qwen/Qwen3-0.6B", args=args)
"""


@pytest.mark.parametrize(
    ("trainer", "later", "target", "stops"),
    [
        ("DPO", "", "", True),
        ("Reward", "", "", True),
        ("DPO", "", "trl=0.24,transformers=4.57", True),
        ("DPO", "", "trl=0.12,transformers=4.46", False),
        ("SFT", "", "", False),
        ("DPO", "args.model_init_kwargs = None", "", False),
        ("DPO", "class DPOTrainer(DPOTrainer):\n    pass", "", False),
    ],
)
def test_trainers_that_read_what_plain_arguments_lack_stop(
    trainer: str, later: str, target: str, stops: bool
) -> None:
    text = REFUSED.format(trainer=trainer, later=later, options="")
    api = Api(parse_target(target) if target else newest())
    said = " ".join(
        one.message for one in check_source(Source("a.py", text), load(["MEM905"]), api)
    )
    assert ("it reads their `model_init_kwargs`" in said) is stops


def test_all_that_is_written_is_no_place_for_what_is_read() -> None:
    written = ", bf16=True, gradient_checkpointing=True"
    text = REFUSED.format(trainer="DPO", later="", options=written)
    (found,) = check_source(Source("a.py", text), load(["MEM905"]), Api(newest()))
    assert found.message.endswith("which only `DPOConfig` has, and stops")
