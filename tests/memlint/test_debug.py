"""``memlint debug``: what the model knows of a script."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from memlint.cli.main import main


def test_debug_shows_where_each_value_comes_from(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "import torch\nfrom transformers import AutoModelForCausalLM, Trainer, TrainingArguments\n"
        "SIZE = 4\n"
        "model = AutoModelForCausalLM.from_pretrained('m', dtype=torch.bfloat16)\n"
        "args = TrainingArguments('out', per_device_train_batch_size=SIZE, **more)\n"
        "Trainer(model, args).train()\n"
    )
    done = CliRunner().invoke(main, ["debug", str(script), "--target", "transformers=5.23"])
    assert done.exit_code == 0, done.output
    assert "line 5: transformers.TrainingArguments" in done.output
    assert "per_device_train_batch_size = 4 (given, literal, line 3)" in done.output
    assert "(more settings may come from elsewhere)" in done.output
    assert "dtype = torch.bfloat16 (given, literal, line 4)" in done.output


def test_debug_says_what_is_wrong_with_a_file(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text("def (:\n")
    done = CliRunner().invoke(main, ["debug", str(tmp_path / "bad.py")])
    assert done.exit_code != 0
    assert "does not parse" in done.output
    done = CliRunner().invoke(main, ["debug", str(tmp_path / "none.py")])
    assert "Traceback" not in done.output


@pytest.mark.parametrize("command", ["debug", "estimate"])
def test_a_script_may_be_the_standard_input(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = "import trl\ntrl.SFTTrainer('gpt2', train_dataset=rows).train()\n"
    Path("stdin.py").write_text(text)
    named = CliRunner().invoke(main, [command, "stdin.py"])
    read = CliRunner().invoke(main, [command, "-"], input=text)
    assert "SFTTrainer" in read.output
    assert (read.exit_code, read.output) == (0, named.output)
    broken = CliRunner().invoke(main, [command, "-"], input="x = (\n")
    assert broken.exit_code == 1
    assert "stdin.py:1 does not parse: '(' was never closed" in broken.output


def test_debug_follows_what_other_files_set(tmp_path: Path) -> None:
    (tmp_path / "sizes.py").write_text(
        "from transformers import AutoModelForCausalLM\nROWS = 6\n"
        "def load():\n    return AutoModelForCausalLM.from_pretrained('m')\n"
    )
    script = tmp_path / "train.py"
    script.write_text(
        "from transformers import Trainer, TrainingArguments\n"
        "from sizes import ROWS, load\n"
        "args = TrainingArguments('out', per_device_train_batch_size=ROWS)\n"
        "Trainer(load(), args).train()\n"
    )
    done = CliRunner().invoke(main, ["debug", str(script), "--target", "transformers=5.23"])
    assert done.exit_code == 0, done.output
    assert "per_device_train_batch_size = 6 (given, literal)" in done.output
    assert f"loaded at line 4 of {os.path.relpath(tmp_path / 'sizes.py')}" in done.output
