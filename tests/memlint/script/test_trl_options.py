"""What TRL's helpers make of its options, and the files that parsers read, as a run's settings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from memlint.cli.runs_of_file import runs_of_file

SCRIPT = """\
from transformers import AutoModelForCausalLM
from trl import ModelConfig, SFTConfig, SFTTrainer, TrlParser, get_peft_config
from trl import get_quantization_config

parser = TrlParser((SFTConfig, ModelConfig))
args, model_args = parser.parse_args_and_config()
quantization = get_quantization_config(model_args)
options = {}
if quantization is not None:
    options["quantization_config"] = quantization
model = AutoModelForCausalLM.from_pretrained(model_args.model_name_or_path, **options)
SFTTrainer(model, args=args, train_dataset=data, peft_config=get_peft_config(model_args)).train()
"""
# The same, but that the trainer loads the model.
BY_NAME = SCRIPT.replace("SFTTrainer(model,", "SFTTrainer(model_args.model_name_or_path,")
COMMAND = "python train.py --model_name_or_path Qwen/Qwen3-8B --output_dir out "


@pytest.fixture
def here(tmp_path: Path) -> Path:
    (tmp_path / "pyproject.toml").write_text("")
    return tmp_path


def settings(here: Path, command: str, script: str = SCRIPT, **files: str) -> dict[str, Any]:
    (here / "train.py").write_text(script)
    (here / "run.sh").write_text(command + "\n")
    for name, text in files.items():
        (here / f"{name}.yaml").write_text(text)
    (run,) = runs_of_file(str(here / "run.sh"), None, None)
    return dict(run.settings)


def test_no_option_is_no_adapter_and_no_quantization(here: Path) -> None:
    found = settings(here, COMMAND)
    assert (found["method"], "quantization" in found) == ("full", False)


def test_a_command_s_options_are_those_of_the_adapters(here: Path) -> None:
    flags = "--use_peft --lora_r 64 --lora_target_modules q_proj o_proj"
    found = settings(here, COMMAND + flags)
    assert (found["method"], found["lora"]) == (
        "lora",
        {"r": 64, "target_modules": ["q_proj", "o_proj"]},
    )


def test_adapters_have_the_rank_that_trl_gives_them(here: Path) -> None:
    assert settings(here, COMMAND + "--use_peft")["lora"]["r"] == 16
    recipe = "model_name_or_path: Qwen/Qwen3-8B\nuse_peft: true\nmax_length: 512\noutput_dir: o\n"
    assert settings(here, "trl sft --config a.yaml", a=recipe)["lora"]["r"] == 16


def test_four_bits_of_a_command(here: Path) -> None:
    flags = "--use_peft --load_in_4bit --use_bnb_nested_quant"
    found = settings(here, COMMAND + flags)
    assert found["method"] == "qlora"
    stored = found["quantization"]
    assert (stored["bits"], stored["type"], stored["double_quant"]) == (4, "nf4", True)


def test_a_file_that_is_silent_leaves_the_defaults(here: Path) -> None:
    recipe = "model_name_or_path: Qwen/Qwen3-8B\noutput_dir: out\nmax_length: 512\n"
    assert settings(here, "python train.py --config a.yaml", a=recipe)["method"] == "full"


def test_lists_and_mappings_of_a_file_are_read(here: Path) -> None:
    recipe = (
        "model_name_or_path: Qwen/Qwen3-8B\noutput_dir: out\nmax_length: 512\nuse_peft: true\n"
        "lora_target_modules: [up_proj]\nmodel_init_kwargs: {dtype: bfloat16}\n"
    )
    found = settings(here, "python train.py --config a.yaml", BY_NAME, a=recipe)
    assert (found["lora"]["target_modules"], found["weights_dtype"]) == (["up_proj"], "bfloat16")


def test_a_file_that_a_parser_is_given_by_name(tmp_path: Path) -> None:
    (tmp_path / "train.json").write_text(
        json.dumps({"name": "Qwen/Qwen3-0.6B", "output_dir": "o", "per_device_train_batch_size": 3})
    )
    script = tmp_path / "train.py"
    script.write_text("""\
from dataclasses import dataclass
from transformers import AutoModelForCausalLM, HfArgumentParser, Trainer, TrainingArguments

@dataclass
class Ours:
    name: str = "gpt2"

ours, args = HfArgumentParser((Ours, TrainingArguments)).parse_json_file(json_file="train.json")
model = AutoModelForCausalLM.from_pretrained(ours.name)
Trainer(model=model, args=args, train_dataset=data).train()
""")
    (run,) = runs_of_file(str(script), None, None)
    assert (run.settings["model"], run.settings["micro_batch"]) == ("Qwen/Qwen3-0.6B", 3)
