"""Fixes that import the runtime: what they require is said, and where they are left out."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest

from memlint.api.runtime import INSTALL, NEEDS, NEEDS_OF_TRL_PARTS, lacking
from memlint.api.target_versions import newest, parse_target
from memlint.cli.main import run

_SCRIPT = """\
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-4B", use_cache=False)
args = TrainingArguments("out", per_device_train_batch_size=8)
trainer = Trainer(model, args=args, train_dataset=data)
trainer.train()
"""
_RUN = ["a.py", "--no-cache", "--select", "MEM201"]


@pytest.fixture(autouse=True)
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "a.py"
    path.write_text(_SCRIPT)
    return path


def test_the_bounds_are_those_of_the_extra() -> None:
    path = Path(__file__).parents[2] / "pyproject.toml"
    extra = tomllib.loads(path.read_text())["project"]["optional-dependencies"]["runtime"]
    bounds = dict(re.fullmatch(r"(\w+)>=([\d.]+)", each).groups() for each in extra)  # type: ignore[union-attr]
    assert bounds == {**NEEDS, **NEEDS_OF_TRL_PARTS}


def test_check_names_what_to_install(capsys: pytest.CaptureFixture[str]) -> None:
    run(["check", *_RUN, "--target", "newest"])
    out = capsys.readouterr().out
    assert f"needs: {INSTALL}\n" in out
    assert f"1 of them imports memlint_runtime: `{INSTALL}`" in out
    run(["check", *_RUN, "--target", "newest", "--output-format=json"])
    (item,) = json.loads(capsys.readouterr().out)
    assert item["fix"]["requires"] == INSTALL
    assert item["assumed_versions"] == []


def test_fix_names_what_to_install(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(["fix", *_RUN, "--target", "newest"])
    assert "memlint_runtime" in script.read_text()
    assert f"The fixed code imports memlint_runtime: `{INSTALL}`." in capsys.readouterr().err


@pytest.mark.parametrize("by", ["option", "configuration"])
def test_such_fixes_can_be_left_out(
    by: str, script: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [*_RUN, "--target", "newest"]
    if by == "option":
        arguments.append("--no-runtime")
    else:
        Path("memlint.toml").write_text("runtime = false\n")
    run(["fix", *arguments])
    assert script.read_text() == _SCRIPT
    capsys.readouterr()
    run(["check", *arguments])
    out = capsys.readouterr().out
    assert "MEM201" in out
    assert "advice: " in out
    assert "fixable" not in out


@pytest.mark.parametrize("old", ["torch=2.9", "transformers=4.57", "transformers=5.16"])
def test_none_is_offered_below_what_the_runtime_supports(
    old: str, script: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(["fix", *_RUN, "--target", f"trl=1.16,{old}"])
    assert script.read_text() == _SCRIPT
    capsys.readouterr()
    run(["check", *_RUN, "--target", f"trl=1.16,{old}"])
    out = capsys.readouterr().out
    assert "MEM201" in out
    assert "memlint_runtime" not in out
    run(["fix", *_RUN, "--unsafe-fixes", "--target", f"trl=1.16,{old}"])
    assert "use_liger_kernel=True" in script.read_text()


def test_trl_is_needed_by_its_own_parts_only() -> None:
    target = parse_target("trl=1.12,transformers=5.23")
    assert lacking(["memlint_runtime.trl.GRPOTrainer"], target) == (
        "trl 1.16 or later (here 1.12)",
    )
    assert lacking(["memlint_runtime.losses.fuse_trl_losses"], target)
    assert lacking(["memlint_runtime.truncate_text"], target) == ()
    assert lacking(["memlint_runtime.trl.GRPOTrainer"], newest()) == ()
