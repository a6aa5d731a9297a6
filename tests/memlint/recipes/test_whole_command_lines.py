"""Defaults that the commands of a project leave: certain where all that a script gets is known."""

from __future__ import annotations

from pathlib import Path

import pytest

from memlint.cli.main import run

HF = """\
import sys
from dataclasses import dataclass, field
from transformers import AutoModelForCausalLM, HfArgumentParser, Trainer, TrainingArguments

@dataclass
class Ours:
    model: str = field(default="meta-llama/Llama-3.1-8B")
    attention: str = "eager"

parser = HfArgumentParser((Ours, TrainingArguments))
ours, arguments = parser.parse_args_into_dataclasses()
model = AutoModelForCausalLM.from_pretrained(ours.model, attn_implementation=ours.attention)
trainer = Trainer(model=model, args=arguments, train_dataset=rows, eval_dataset=other)
trainer.train()
"""
# As the examples of transformers do it: the arguments, or a file with them.
OR_FILE = HF.replace(
    "ours, arguments = parser.parse_args_into_dataclasses()\n",
    "if len(sys.argv) == 2 and sys.argv[1].endswith('.json'):\n"
    "    ours, arguments = parser.parse_json_file(json_file=sys.argv[1])\n"
    "else:\n"
    "    ours, arguments = parser.parse_args_into_dataclasses()\n",
)
FILE = HF.replace("parse_args_into_dataclasses()", "parse_json_file('args.json')")
ARGPARSE = """\
import argparse
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
parser = argparse.ArgumentParser()
parser.add_argument("--model", default="meta-llama/Llama-3.1-8B")
parser.add_argument("--checkpoint", action="store_true")
parser.add_argument("--rows", type=int, default=8)
args = parser.parse_args()
model = AutoModelForCausalLM.from_pretrained(args.model)
config = TrainingArguments(
    "out",
    activation_checkpointing=args.checkpoint,
    per_device_train_batch_size=args.rows,
    bf16=True,
)
Trainer(model=model, args=config, train_dataset=rows).train()
"""
CLICK = """\
import click
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
@click.command()
@click.option("--checkpoint/--no-checkpoint", default=False)
@click.option("--rows", type=int, default=8)
def main(checkpoint, rows):
    model = AutoModelForCausalLM.from_pretrained("meta-llama/Llama-3.1-8B")
    config = TrainingArguments(
        "out", activation_checkpointing=checkpoint, per_device_train_batch_size=rows, bf16=True
    )
    Trainer(model=model, args=config, train_dataset=data).train()
main()
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text("")
    return tmp_path


def found(capsys: pytest.CaptureFixture[str], *codes: str) -> set[str]:
    options = ["--output-format", "concise", "--target", "newest", "--select", ",".join(codes)]
    run(["check", "--no-cache", *options, "."])
    lines = (line.split() for line in capsys.readouterr().out.splitlines() if ": MEM" in line)
    return {f"{':'.join(place.split(':')[:2])} {code}" for place, code, *_ in lines}


@pytest.mark.parametrize("script", [HF, OR_FILE])
@pytest.mark.parametrize(
    "command",
    [
        "python train.py --model meta-llama/Llama-3.1-8B --bf16 True --output_dir out",
        "torchrun --nproc_per_node $N train.py --output_dir out",
        "python train.py --output_dir a\npython train.py --output_dir b --bf16 True",
    ],
)
def test_a_library_s_default_that_nobody_overrides(
    here: Path, capsys: pytest.CaptureFixture[str], script: str, command: str
) -> None:
    (here / "train.py").write_text(script)
    assert found(capsys, "MEM301") == set()
    (here / "run.sh").write_text(f"{command}\n")
    (place,) = found(capsys, "MEM301")
    assert place.startswith("train.py:")


@pytest.mark.parametrize(
    "command",
    [
        'python train.py --output_dir out "$@"',
        "python train.py --output_dir out $EXTRA",
        "python train.py args.json",
        "python train.py --config args.yaml",
        "python train.py --output_dir a\npython train.py --activation_checkpointing True",
        "python train.py --activation_checkpointing $C",
        "python train.py --output_dir a\npython $SCRIPT --activation_checkpointing True",
        "cd $HERE\npython train.py --output_dir out",
        "echo python train.py --output_dir out",
        "# python train.py --output_dir out",
    ],
)
def test_what_somebody_may_override_is_unsure(
    here: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    (here / "train.py").write_text(OR_FILE)
    (here / "run.sh").write_text(f"{command}\n")
    assert found(capsys, "MEM301") == set()


def test_a_file_that_the_command_does_not_name_is_unsure(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "train.py").write_text(FILE)
    (here / "run.sh").write_text("python train.py --output_dir out\n")
    assert found(capsys, "MEM301") == set()


@pytest.mark.parametrize(("script", "row"), [(ARGPARSE, 5), (CLICK, 4)], ids=["argparse", "click"])
def test_a_default_of_the_script_is_said_where_it_stands(
    here: Path, capsys: pytest.CaptureFixture[str], script: str, row: int
) -> None:
    (here / "train.py").write_text(script)
    (here / "run.sh").write_text("python train.py --rows 4\n")
    assert found(capsys, "MEM301") == {f"train.py:{row} MEM301"}
    (here / "run.sh").write_text("python train.py --checkpoint\n")
    assert found(capsys, "MEM301") == set()


def test_a_field_s_default_is_changed_where_it_stands(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "train.py").write_text(HF)
    (here / "run.sh").write_text("python train.py --output_dir out\n")
    assert found(capsys, "MEM304") == {"train.py:8 MEM304"}
    run(["fix", "--no-cache", "--target", "newest", "--select", "MEM304", "."])
    assert (here / "train.py").read_text() == HF.replace('"eager"', '"sdpa"')


def test_flags_are_settings_with_the_command_s_place(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "train.py").write_text(HF)
    (here / "run.sh").write_text(
        "python train.py --output_dir out --eval_strategy steps \\\n"
        "  --activation_checkpointing False \\\n  --per_device_eval_batch_size 64\n"
    )
    assert found(capsys, "MEM207", "MEM301") == {"run.sh:2 MEM301", "run.sh:3 MEM207"}


def test_a_cached_result_holds_as_long_as_the_commands(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "train.py").write_text(HF)
    arguments = ["check", "--target", "newest", "--select", "MEM301", "--output-format", "concise"]
    for text, expected in (
        ("python train.py --output_dir out\n", True),
        ('python train.py --output_dir out "$@"\n', False),
    ):
        (here / "run.sh").write_text(text)
        run([*arguments, "train.py"])
        assert ("MEM301" in capsys.readouterr().out) is expected
