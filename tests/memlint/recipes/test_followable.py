"""Advice in a recipe or at a command can be followed there."""

from __future__ import annotations

from pathlib import Path

import pytest

from memlint.cli.main import run

RECIPE = """\
model_name_or_path: Qwen/Qwen2.5-7B
output_dir: out
learning_rate: 1.0e-5
max_prompt_length: 512
dtype: bfloat16
"""
FLAGS = "--model_name_or_path Qwen/Qwen2.5-7B --output_dir out --dtype bfloat16"
TRAIN = """\
from transformers import AutoModelForCausalLM, HfArgumentParser, Trainer, TrainingArguments
(arguments,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()
model = AutoModelForCausalLM.from_pretrained("meta-llama/Llama-3.1-8B")
Trainer(model=model, args=arguments, train_dataset=rows).train()
"""
PLAIN = """\
from trl import SFTConfig, SFTTrainer
args = SFTConfig("out", gradient_checkpointing=False)
SFTTrainer(model="m/m-7b", args=args, train_dataset=d).train()
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text("")
    return tmp_path


def said(capsys: pytest.CaptureFixture[str], codes: str, target: str = "newest") -> str:
    capsys.readouterr()
    run(["check", "--no-cache", "--target", target, "--select", codes, "."])
    return capsys.readouterr().out


def test_a_key_that_only_code_could_replace_is_removed(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "dpo.yaml").write_text(RECIPE)
    (here / "run.sh").write_text(
        f"trl dpo --config dpo.yaml\ntrl dpo {FLAGS} --max_prompt_length 9"
    )
    shown = said(capsys, "MEM901")
    assert "memlint_runtime" not in shown
    assert shown.count("Remove `max_prompt_length`") == 2
    safe = ["fix", "--no-cache", "--target", "newest", "--select", "MEM901", "."]
    run(safe)
    assert (here / "dpo.yaml").read_text() == RECIPE
    run([*safe, "--unsafe-fixes"])
    assert (here / "dpo.yaml").read_text() == RECIPE.replace("max_prompt_length: 512\n", "")
    assert (here / "run.sh").read_text() == f"trl dpo --config dpo.yaml\ntrl dpo {FLAGS}"
    assert "MEM901" not in said(capsys, "MEM901")


def test_where_the_program_takes_it_nothing_is_removed(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "dpo.yaml").write_text(RECIPE)
    (here / "run.sh").write_text("trl dpo --config dpo.yaml\n")
    assert "max_prompt_length" not in said(capsys, "MEM901", "trl=0.15,transformers=4.48")


@pytest.mark.parametrize(
    ("target", "name"),
    [
        ("newest", "activation_checkpointing"),
        ("trl=0.15,transformers=4.48", "gradient_checkpointing"),
    ],
)
def test_the_option_that_is_named_is_not_deprecated(
    here: Path, capsys: pytest.CaptureFixture[str], target: str, name: str
) -> None:
    (here / "train.py").write_text(PLAIN)
    assert f"advice: Set `{name}=True`" in said(capsys, "MEM301", target)
    (here / "train.py").write_text(TRAIN)
    (here / "run.sh").write_text("python train.py --output_dir out\n")
    assert f"advice: Set `{name}=True`" in said(capsys, "MEM301", target)
    (here / "run.sh").write_text("python train.py --gradient_checkpointing False\n")
    flag = "`--gradient_checkpointing True`" if name[0] == "g" else f"`{name}=True`"
    assert f"advice: Set {flag}" in said(capsys, "MEM301", target)
    (here / "sft.yaml").write_text(f"{RECIPE}gradient_checkpointing: false\n")
    (here / "run.sh").write_text(f"trl sft {FLAGS} --gradient_checkpointing false\n")
    shown = said(capsys, "MEM301", target)
    assert f"advice: Set `{name}: true`" in shown
    assert f"advice: Set `--{name} true`" in shown
