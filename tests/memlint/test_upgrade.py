"""``memlint upgrade``: what newer versions need, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from memlint.cli.main import run

OLD = """\
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("gpt2")
args = TrainingArguments("out", evaluation_strategy="no", group_by_words=True)
Trainer(model=model, args=args, train_dataset=rows).train()
"""


def test_only_what_the_versions_need_is_changed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "train.py"
    path.write_text(OLD)
    assert run(["check", "--no-cache", "--target", "newest", "--select", "MEM2,MEM3", str(path)])
    capsys.readouterr()
    assert run(["upgrade", str(path), "--to", "newest"]) == 1
    shown = capsys.readouterr()
    assert path.read_text() == OLD.replace("evaluation_strategy", "eval_strategy")
    assert "fixed 1 finding" in shown.err
    # What is left to do by hand, on one line each.
    (left,) = [line for line in shown.out.splitlines() if "MEM" in line]
    assert "`group_by_words`" in left


def test_a_diff_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "train.py"
    path.write_text(OLD)
    run(["upgrade", "--diff", str(path), "--to", "newest"])
    assert "+args = TrainingArguments" in capsys.readouterr().out
    assert path.read_text() == OLD


def test_versions_must_be_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["upgrade", "."]) == 2
    assert "--to" in capsys.readouterr().err
    assert run(["upgrade", ".", "--to", "trl"]) == 2
    assert "trl" in capsys.readouterr().err
