"""Keywords and values that no release of a library ever took."""

from __future__ import annotations

import pytest

from memlint.api.lookup import Api
from memlint.api.target_versions import newest, parse_target
from memlint.rule.findings import Applicability, Finding
from memlint.rule.registry import load
from memlint.run.engine import check_source
from memlint.source import Source

IMPORTS = """\
from transformers import BitsAndBytesConfig, Trainer, TrainingArguments
from trl import DPOConfig, GRPOConfig, SFTConfig, SFTTrainer
from peft import LoraConfig
"""


def check(text: str, target: str = "") -> list[Finding]:
    api = Api(parse_target(target) if target else newest())
    found = check_source(Source("a.py", IMPORTS + text), load(["MEM901"]), api)
    # What an old target cannot import is not asked here.
    return [one for one in found if "does not take" in one.message or "backend" in one.message]


@pytest.mark.parametrize(
    ("call", "option", "advice"),
    [
        ('DPOConfig("out", packing=True)', "packing", "an option of `SFTConfig`"),
        ('GRPOConfig("out", activation_offloading=True)', "activation_offloading", "`SFTConfig`"),
        ('TrainingArguments("out", lerning_rate=1e-4)', "lerning_rate", "`learning_rate`"),
        ('SFTTrainer(model, sft_config=SFTConfig("out"))', "sft_config", "as `args`"),
        ("LoraConfig(rank=8)", "rank", "Leave `rank` out"),
        ("LoraConfig(alpha=16)", "alpha", "Write `lora_alpha`"),
        ("SFTTrainer(model, dataset=rows)", "dataset", "Write `train_dataset` or `eval_dataset`"),
        ("SFTTrainer(model, training_args=given)", "training_args", "Write `args`"),
        ('TrainingArguments(**{"output_dir": "out", "epochs": 3})', "epochs", "`num_train_epochs`"),
    ],
)
def test_a_keyword_that_no_release_had_is_reported(call: str, option: str, advice: str) -> None:
    (found,) = check(f"made = {call}\n")
    assert f"does not take `{option}`, nor did any release" in found.message
    assert found.fix is not None
    assert found.fix.applicability is Applicability.DISPLAY
    assert advice in found.fix.message


@pytest.mark.parametrize(
    "text",
    [
        # A class of the script's own may have such a field.
        "class Own(DPOConfig):\n    packing: bool = False\nmade = Own('out', packing=True)\n",
        "class Own(DPOConfig):\n    def __init__(self, *a, packing=False, **k):\n"
        "        super().__init__(*a, **k)\nmade = Own('out', packing=True)\n",
        # Any attribute may be set.
        "made = DPOConfig('out')\nmade.packing = True\n",
        # Taken among ``**kwargs``.
        "made = BitsAndBytesConfig(load_in_4bit=True, mine=1)\n",
        # Unsloth puts classes of its own in their place.
        "import unsloth\nmade = SFTConfig('out', mine=1)\n",
        # The script tries it out.
        "try:\n    made = DPOConfig('out', packing=True)\n"
        "except TypeError:\n    made = DPOConfig('out')\n",
    ],
)
def test_nothing_is_said_where_the_keyword_may_be_taken(text: str) -> None:
    assert check(text) == []


def test_a_release_newer_than_the_tables_may_have_the_option() -> None:
    text = 'made = DPOConfig("out", packing=True)\n'
    assert check(text, "trl=1.15") != []
    assert check(text, "trl=99.0") == []


@pytest.mark.parametrize(
    ("call", "message", "advice"),
    [
        (
            'TrainingArguments("out", optim="adamw_torchfused")',
            "`optim='adamw_torchfused'`",
            "'adamw_torch_fused'",
        ),
        ('SFTConfig("out", torch_compile_backend="nvfuser")', "'nvfuser'", "'INDUCTOR'"),
        (
            'SFTConfig("out", torch_compile_backend="ofi")',
            "has no backend 'ofi'",
            "one of 'AOT_EAGER', 'CUDAGRAPHS', 'EAGER', 'INDUCTOR'",
        ),
        ('DPOConfig("out", loss_type=["sigmoid", "sftt"])', "'sftt'", "'sft'"),
        ('SFTConfig("out", eval_strategy="epochs")', "'epochs'", "'epoch'"),
    ],
)
def test_a_value_that_the_library_does_not_know_is_reported(
    call: str, message: str, advice: str
) -> None:
    (found,) = check(f"made = {call}\n")
    assert message in found.message
    assert found.fix is not None
    assert advice in found.fix.message


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ('made = TrainingArguments("out", optim="adamw_8bit", save_strategy="best")\n', ""),
        ('made = TrainingArguments("out", torch_compile_backend="inductor")\n', ""),
        ('made = TrainingArguments("out", optim=choose())\n', ""),
        ('made = TrainingArguments("out", save_strategy="best")\n', "transformers=4.47"),
        ('made = TrainingArguments("out", optim="adamw_hf")\n', "transformers=4.40"),
        ('made = TrainingArguments("out", optim="of_a_day_to_come")\n', "transformers=99.0"),
        ('import unsloth\nmade = TrainingArguments("out", optim="of_its_own")\n', ""),
    ],
)
def test_values_that_are_known_or_may_be_are_left_alone(text: str, target: str) -> None:
    assert check(text, target) == []


def test_values_are_those_of_the_target() -> None:
    text = 'made = TrainingArguments("out", save_strategy="best")\n'
    assert len(check(text, "transformers=4.46")) == 1
    (found,) = check('made = TrainingArguments("out", optim="adamw_apex_fused")\n')
    assert found.fix is not None
    assert "adamw_torch_fused" in found.fix.message
