"""Recipes that scripts of a project read, by what these scripts train."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from memlint.cli.main import run

RECIPE = """\
model_name_or_path: Qwen/Qwen3-0.6B
per_device_train_batch_size: 4
learning_rate: 1.0e-5
output_dir: out
"""
SETTINGS = """\
from trl import ModelConfig, ScriptArguments, SFTConfig, TrlParser


def settings():
    return TrlParser((ScriptArguments, SFTConfig, ModelConfig)).parse_args_and_config()
"""
SCRIPT = """\
from settings import settings
from trl import SFTTrainer
{imported}

script, args, model_args = settings()
model = {cls}.from_pretrained(model_args.model_name_or_path)
SFTTrainer(model=model, args=args, train_dataset=rows).train()
"""
AUTO, OWN = "AutoModelForCausalLM", "RotatedForCausalLM"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("requirements.txt").write_text("trl==0.16.0\ntransformers==4.50.0\n")
    Path("settings.py").write_text(SETTINGS)


def fixes(capsys: pytest.CaptureFixture[str], code: str, recipe: str = RECIPE) -> list[str]:
    """The kinds of the fixes of ``code`` in a recipe."""
    Path("rotated.yaml").write_text(recipe)
    capsys.readouterr()
    run(["check", "--no-cache", "--output-format", "json", "rotated.yaml"])
    findings = json.loads(capsys.readouterr().out)
    return [each["fix"]["applicability"] for each in findings if each["code"] == code]


def train(name: str, cls: str) -> None:
    home = "transformers" if cls == AUTO else "modeling"
    Path(name).write_text(SCRIPT.format(imported=f"from {home} import {cls}", cls=cls))


def test_checkpointing_is_safe_where_the_script_trains_a_class_of_transformers(
    capsys: pytest.CaptureFixture[str],
) -> None:
    train("sft.py", AUTO)
    assert fixes(capsys, "MEM301") == ["safe"]


def test_checkpointing_is_unsafe_where_a_script_trains_a_class_of_the_project(
    capsys: pytest.CaptureFixture[str],
) -> None:
    train("sft.py", AUTO)
    train("sft_rotated.py", OWN)
    assert fixes(capsys, "MEM301") == ["unsafe"]


def test_checkpointing_is_unsafe_where_no_trainer_is_seen(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert fixes(capsys, "MEM301") == ["unsafe"]


def test_remote_code_is_an_option_of_the_model_where_the_configuration_has_none(
    capsys: pytest.CaptureFixture[str],
) -> None:
    train("sft.py", AUTO)
    trusting = f"{RECIPE}trust_remote_code: true\n"
    assert fixes(capsys, "MEM901", trusting) == []
    assert fixes(capsys, "MEM301", trusting) == ["unsafe"]
    assert fixes(capsys, "MEM301", trusting.replace("true", "false")) == ["safe"]


def test_every_script_that_may_read_a_recipe_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    train("sft.py", AUTO)
    Path("preferences.py").write_text(SETTINGS.replace("SFTConfig", "DPOConfig"))
    Path("rotated.yaml").write_text(RECIPE)
    capsys.readouterr()
    run(["debug", "rotated.yaml"])
    out = capsys.readouterr().out
    assert "settings.py:5, which reads it into" in out
    assert "; or " in out
    assert "preferences.py:5, which reads it into" in out
