"""Launch commands in the cells of notebooks, and those that scripts of Python start."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from memlint.cli.main import run

TRL = "trl sft --model_name_or_path Qwen/Qwen2.5-7B --output_dir o --dataset_name d"
TRAIN = """\
from transformers import AutoModelForCausalLM, HfArgumentParser, Trainer, TrainingArguments
(arguments,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()
model = AutoModelForCausalLM.from_pretrained("meta-llama/Llama-3.1-8B")
Trainer(model=model, args=arguments, train_dataset=rows).train()
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text("")
    return tmp_path


def write(path: Path, *cells: str) -> None:
    code = [
        {"cell_type": "code", "metadata": {}, "outputs": [], "source": cell.splitlines(True)}
        for cell in cells
    ]
    path.write_text(json.dumps({"cells": code, "metadata": {}, "nbformat": 4}, indent=1))


def found(capsys: pytest.CaptureFixture[str], *codes: str) -> list[str]:
    options = ["--output-format", "concise", "--target", "newest", "--select", ",".join(codes)]
    run(["check", "--no-cache", *options, "."])
    lines = (line.split() for line in capsys.readouterr().out.splitlines() if ": MEM" in line)
    return [f"{place} {code}" for place, code, *_ in lines]


@pytest.mark.parametrize(
    ("cell", "place"),
    [
        (f"!{TRL} --dtype float32", "1:1:87:"),
        (f"x = 1\n  !{TRL} \\\n    --dtype=float32\ny = 2", "1:3:13:"),
        (f"%%bash\nset -e\nD=float32\n{TRL} --dtype $D\n", "1:3:3:"),
        (f"%%sh\n# comment\n\n{TRL} \\\n\t--dtype float32\n", "1:5:10:"),
        ("!tune run full_finetune_single_device --config x 'dtype=fp32'", "1:1:51:"),
        ("!accelerate launch -m trl.scripts.sft --model_name_or_path a/b --dtype float32", None),
    ],
)
def test_a_command_is_found_where_it_stands(
    here: Path, capsys: pytest.CaptureFixture[str], cell: str, place: str | None
) -> None:
    write(here / "n.ipynb", cell, "z = 'é'")
    (line,) = found(capsys, "MEM401")
    assert place is None or line == f"n.ipynb:{place} MEM401"


def test_a_cell_may_be_one_text(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cell = {"cell_type": "code", "metadata": {}, "source": f"%%bash\n{TRL} --dtype float32"}
    (here / "n.ipynb").write_text(json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4}))
    assert found(capsys, "MEM401") == ["n.ipynb:1:2:86: MEM401"]


@pytest.mark.parametrize(
    "cell",
    [
        f"# !{TRL} --dtype float32",
        f"!echo {TRL} --dtype float32",
        f"print('!{TRL} --dtype float32')",
        f"!{TRL} --dtype {{dtype}}",
        f"%%writefile run.py\n!{TRL} --dtype float32",
        f"%%bash\necho '{TRL} --dtype float32'",
        f"text = '''\n!{TRL} --dtype float32\n'''",
    ],
)
def test_what_is_no_command_is_none(
    here: Path, capsys: pytest.CaptureFixture[str], cell: str
) -> None:
    write(here / "n.ipynb", cell)
    assert found(capsys, "MEM401") == []


def test_a_cell_starts_a_script_as_a_file_does(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "train.py").write_text(TRAIN)
    write(here / "n.ipynb", "!accelerate launch train.py --activation_checkpointing False")
    assert found(capsys, "MEM301") == ["n.ipynb:1:1:56: MEM301"]
    write(here / "n.ipynb", "%%bash\npython train.py --output_dir out\n")
    assert found(capsys, "MEM301") == ["train.py:2:16: MEM301"]
    write(here / "n.ipynb", "%%bash\npython train.py --activation_checkpointing True\n")
    assert found(capsys, "MEM301") == []


def test_a_fix_is_advice(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(here / "n.ipynb", f"!{TRL} --max_seq_length 512")
    before = (here / "n.ipynb").read_text()
    run(["fix", "--no-cache", "--unsafe-fixes", "--target", "newest", "."])
    assert (here / "n.ipynb").read_text() == before
    capsys.readouterr()
    run(["check", "--no-cache", "--target", "newest", "--select", "MEM901", "."])
    shown = capsys.readouterr().out
    assert f"1 | !{TRL} --max_seq_length 512\n" in shown
    assert "advice: Write `max_length` instead" in shown


TUNE = "tune run full_finetune_single_device --config"


@pytest.mark.parametrize(
    "call",
    [
        f"os.system('{TUNE} x dtype=fp32')",
        f'done = subprocess.run(f"{TUNE} {{name}} dtype=fp32", shell=True)',
        f'subprocess.check_call(\n    "cd b && {TUNE} x.yaml dtype=fp32", shell=True\n)',
        'subprocess.Popen(["tune", "run", RECIPE, "--config", "x", "dtype=fp32"])',
        "subprocess.run(\n    [\n        'trl', 'sft', '--model_name_or_path', 'a/b',\n"
        "        '--dataset_name', str(data), '--dtype', 'float32',\n    ]\n)",
    ],
)
def test_a_command_that_a_script_of_python_starts_is_found(
    here: Path, capsys: pytest.CaptureFixture[str], call: str
) -> None:
    (here / "go.py").write_text(f"import os, subprocess\n\nRECIPE = 'lora_finetune_dpo'\n{call}\n")
    lines = found(capsys, "MEM401")
    wanted = [] if "RECIPE" in call else ["MEM401"]
    assert [line.split()[1] for line in lines] == wanted
    assert run(["fix", "--no-cache", "--unsafe-fixes", "--select", "MEM401", "go.py"]) in (0, 1)
    assert call in (here / "go.py").read_text(), "nothing of it is rewritten"


@pytest.mark.parametrize(
    "text",
    [
        f"# os.system('{TUNE} x dtype=fp32')\n",
        f'command = "{TUNE} x dtype=fp32"\nprint(command)\n',
        f"import os\n\nos.system('echo {TUNE} x dtype=fp32')\n",
        "import subprocess\n\nsubprocess.run(command + ['dtype=fp32'])  # tune run x\n",
    ],
)
def test_what_a_script_does_not_start_is_passed_over(
    here: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    (here / "go.py").write_text(text)
    assert found(capsys, "MEM401") == []


@pytest.mark.parametrize("recipe", ['"$1"', "$RECIPE", "configs/$SIZE.yaml"])
def test_a_recipe_of_an_unknown_name_may_say_anything(
    here: Path, capsys: pytest.CaptureFixture[str], recipe: str
) -> None:
    (here / "go.sh").write_text(f"{TRL} --config {recipe}\n")
    assert found(capsys, "MEM401", "MEM103", "MEM501") == []
    (here / "go.sh").write_text(f"{TRL}\n")
    assert {line.split()[1] for line in found(capsys, "MEM401", "MEM103")} == {"MEM401", "MEM103"}
