"""What the examples of the shared-prompt rules cannot say: prices, obstacles, other rules."""

from __future__ import annotations

import pytest

from memlint.api.lookup import Api
from memlint.api.target_versions import newest, parse_target
from memlint.rule.findings import Applicability, Finding, Level
from memlint.rule.registry import load
from memlint.run.engine import check_source
from memlint.source import Source

APIS: dict[str, Api] = {}


def found(text: str, code: str, target: str = "") -> list[Finding]:
    if target not in APIS:
        APIS[target] = Api(parse_target(target) if target else newest())
    return check_source(Source("script.py", text), load([code]), APIS[target])


def grpo(options: str = "", extra: str = "", model: str = "Qwen/Qwen3-4B") -> str:
    return f"""
from peft import LoraConfig
from trl import GRPOConfig, GRPOTrainer, ModelConfig, get_peft_config
args = GRPOConfig("out", {options})
GRPOTrainer("{model}", reward_funcs=reward, args=args, {extra})
"""


@pytest.mark.parametrize(
    ("options", "target", "words", "level"),
    [
        # 8 (4096 + 256) / (4096 + 8 x 256)
        ("max_prompt_length=4096, max_completion_length=256", "", "5.7 times", Level.WASTE),
        # By the release's own defaults: 8 (512 + 256) / (512 + 8 x 256)
        ("", "trl=0.19", "2.4 times", Level.WASTE),
        # 2 (256 + 1024) / (256 + 2 x 1024): little to gain
        (
            "max_prompt_length=256, max_completion_length=1024, num_generations=2",
            "",
            "1.1 times",
            Level.HINT,
        ),
        ("num_generations=16", "", "up to 16 times", Level.WASTE),
        ("num_generations=int(input())", "", "once for every completion of its group", Level.WASTE),
    ],
)
def test_the_price(options: str, target: str, words: str, level: Level) -> None:
    (finding,) = found(grpo(options), "MEM601", target)
    assert words in finding.message
    assert finding.level is level


@pytest.mark.parametrize(
    ("text", "applicability"),
    [
        (grpo(), Applicability.SAFE),
        (grpo(extra="peft_config=LoraConfig(lora_dropout=0.0)"), Applicability.SAFE),
        (grpo("disable_dropout=True", "peft_config=LoraConfig(lora_dropout=0.1)"), "safe"),
        (grpo(extra="peft_config=LoraConfig(lora_dropout=0.1)"), Applicability.UNSAFE),
        (grpo(extra="peft_config=LoraConfig(lora_dropout=rate())"), Applicability.DISPLAY),
        (grpo(extra="peft_config=get_peft_config(ModelConfig())"), Applicability.SAFE),
        (grpo(extra="peft_config=get_peft_config(ModelConfig(use_peft=flag()))"), "display"),
        (grpo("torch_compile=True"), Applicability.DISPLAY),
        (grpo(model="Qwen/Qwen3-Next-80B-A3B-Instruct"), Applicability.UNSAFE),
        (grpo(model="LiquidAI/LFM2-1.2B"), Applicability.UNSAFE),
        (grpo(model="nvidia/Nemotron-H-8B-Base-8K"), Applicability.UNSAFE),
        (grpo(model="nvidia/Minitron-8B-Base"), Applicability.DISPLAY),
        (grpo(model="ai21labs/Jamba-v0.1"), Applicability.DISPLAY),
        (grpo(model="tiiuae/falcon-mamba-7b"), Applicability.DISPLAY),
        (grpo(model="openai-community/gpt2"), Applicability.DISPLAY),
        (grpo("per_device_train_batch_size=1"), Applicability.DISPLAY),
        (grpo("per_device_train_batch_size=1, gradient_accumulation_steps=8"), Applicability.SAFE),
        (grpo("per_device_train_batch_size=4"), Applicability.SAFE),
        (grpo("gradient_accumulation_steps=int(input())"), Applicability.SAFE),
        (grpo("generation_batch_size=64"), Applicability.UNSAFE),
        (grpo("generation_batch_size=64, gradient_accumulation_steps=4"), Applicability.UNSAFE),
        (grpo("generation_batch_size=64, gradient_accumulation_steps=8"), Applicability.SAFE),
        (grpo("generation_batch_size=int(input())"), Applicability.UNSAFE),
        (grpo("steps_per_generation=4"), Applicability.UNSAFE),
        (grpo("steps_per_generation=4, gradient_accumulation_steps=8"), Applicability.SAFE),
    ],
)
def test_what_the_swap_asks_for(text: str, applicability: Applicability) -> None:
    (finding,) = found(text, "MEM601")
    assert finding.fix is not None
    assert finding.fix.applicability == applicability
    assert bool(finding.fix.edits) is (applicability != Applicability.DISPLAY)


@pytest.mark.parametrize(
    ("rows", "steps", "how_often"),
    [
        (4, 1, "2 times"),
        (4, 2, "once"),
        (1, 8, "once"),
        (1, 2, "4 times"),
        (1, 3, "4 times"),  # of groups at rows 0-7, 8-15, ...: in steps 2 to 5, for one
        (3, 8, "once"),
        (3, 1, "4 times"),
        (2, '8, fsdp="full_shard"', "4 times"),  # parameters are gathered for each micro-batch
    ],
)
def test_how_often_a_cut_group_s_prompt_is_forwarded(
    rows: int, steps: object, how_often: str
) -> None:
    options = f"per_device_train_batch_size={rows}, gradient_accumulation_steps={steps}"
    (finding,) = found(grpo(options), "MEM601")
    assert finding.fix is not None
    assert f"forwards each prompt {how_often}" in finding.fix.message


def test_one_trainer_that_cannot_holds_the_import_back() -> None:
    both = grpo() + 'GRPOTrainer("openai-community/gpt2", reward_funcs=reward, args=args)\n'
    findings = found(both, "MEM601")
    assert len(findings) == 2
    assert not any(finding.fix and finding.fix.edits for finding in findings)


@pytest.mark.parametrize("home", ["trl", "memlint_runtime.trl"])
@pytest.mark.parametrize(
    ("code", "options", "extra"),
    [
        ("MEM901", "max_prompt_length=512", ""),
        ("MEM901", "", "tokenizer=tokenizer"),
    ],
)
def test_other_rules_see_the_runtimes_trainer(
    home: str, code: str, options: str, extra: str
) -> None:
    text = f"""
from {home} import GRPOTrainer
from trl import GRPOConfig
args = GRPOConfig("out", {options})
GRPOTrainer("Qwen/Qwen3-4B", reward_funcs=reward, args=args, {extra})
"""
    assert len(found(text, code)) == 1


def test_dropout_is_asked_of_the_adapter_that_is_trained() -> None:
    unused = "lora = LoraConfig(lora_dropout=0.1)\n" + grpo(model="Qwen/Qwen3-4B")
    text = unused.replace("lora =", "from peft import LoraConfig\nlora =", 1)
    (finding,) = found(text, "MEM601")
    assert finding.fix is not None
    assert "dropout" not in finding.fix.message


PAIRS = """
from memlint_runtime import truncate_text
from trl import DPOConfig, DPOTrainer
limit = {"tokenizer": tokenizer, "max_length": 3072}
dataset = dataset.map(truncate_text, fn_kwargs=limit)
options = {"args": DPOConfig("out", max_length=4096)}
trainer = DPOTrainer("Qwen/Qwen3-4B", train_dataset=dataset, **options)
"""


def test_preference_pairs_are_priced() -> None:
    (finding,) = found(PAIRS, "MEM605")
    assert "1.60 times" in finding.message  # 2 (3072 + 1024) / (3072 + 2 x 1024)
    assert finding.level is Level.HINT
    assert not found(PAIRS, "MEM605", "trl=0.19")  # another TRL is too much for so little
    assert not found(PAIRS.replace('"out",', '"out", max_prompt_length=512,'), "MEM605")


def test_a_script_that_asks_for_the_parameters_gets_advice() -> None:
    asked = "import inspect\nprint(inspect.signature(DPOTrainer.__init__).parameters)\n"
    (finding,) = found(f"{PAIRS}{asked}", "MEM605")
    assert finding.fix is not None
    assert finding.fix.applicability is Applicability.DISPLAY
    (plain,) = found(PAIRS, "MEM605")
    assert plain.fix is not None
    assert plain.fix.applicability is Applicability.SAFE


def test_options_that_are_gone_are_said() -> None:
    more = "num_generations=8, per_device_train_batch_size=8, gradient_accumulation_steps=4"
    for code in ("MEM601", "MEM108"):
        (finding,) = found(grpo(f"{more}, max_prompt_length=512", "tokenizer=None"), code)
        assert finding.fix is not None
        assert "takes no `tokenizer`, `max_prompt_length`" in finding.fix.message
        assert finding.fix.applicability is Applicability.UNSAFE
        # What it builds on decides, whatever the target has.
        text = grpo(f"{more}, logging_dir='runs'", "tokenizer=None")
        (older,) = found(text, code, "trl=0.24,transformers=4.57")
        assert older.fix is not None
        assert "takes no `tokenizer`, `logging_dir`" in older.fix.message


@pytest.mark.parametrize("code", ["MEM601", "MEM108"])
def test_a_processor_brings_more_than_text(code: str) -> None:
    options = "num_generations=8, per_device_train_batch_size=8, gradient_accumulation_steps=4"
    assert found(grpo(options, "processing_class=tokenizer"), code)
    assert not found(grpo(options, "processing_class=processor"), code)
