"""Which program a command comes to, and what that program does where nothing is said."""

from __future__ import annotations

from pathlib import Path

import pytest

from memlint.cli.main import run
from memlint.recipes.launch import read_commands

MODEL = "--model_name_or_path Qwen/Qwen2.5-7B --dataset_name d --output_dir o"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text("")
    return tmp_path


def codes(capsys: pytest.CaptureFixture[str], target: str = "newest") -> list[str]:
    run(["check", "--no-cache", "--output-format", "concise", "--target", target, "."])
    lines = capsys.readouterr().out.splitlines()
    return [line.split()[1] for line in lines if ": MEM" in line]


@pytest.mark.parametrize(
    ("text", "program", "name"),
    [
        ("python -m trl.scripts.sft --bf16 x", "trl", "sft"),
        ("uv run python3 -m trl.scripts.reward --bf16 x", "trl", "reward"),
        ("accelerate launch --num_processes 8 -m trl.scripts.dpo --bf16 x", "accelerate", "dpo"),
        ("torchrun --nproc_per_node=4 -m trl.scripts.grpo --bf16 x", "torchrun", "grpo"),
        ("python -m torch.distributed.run -m trl.scripts.kto --bf16 x", "torchrun", "kto"),
    ],
)
def test_a_module_of_trl_is_its_program(text: str, program: str, name: str) -> None:
    (command,) = read_commands(text, "shell")
    assert command.target is not None
    assert (command.program, command.starts) == (program, "trl")
    assert (command.target.kind, command.target.text) == ("name", name)
    assert text.encode()[command.target.span.start : command.target.span.end].decode() == name
    assert [flag.name for flag in command.settings] == ["bf16"]


@pytest.mark.parametrize(
    "text",
    ["python -m trl.scripts", "python -m ours.trl.scripts.sft --a 1", "python trl.scripts.sft"],
)
def test_another_module_is_not(text: str) -> None:
    assert [command.starts for command in read_commands(text, "shell")] == ["python"]


def test_a_launcher_of_axolotl_s_module(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "run.sh").write_text("accelerate launch -m axolotl.cli.train c.yml --load-in-8bit a\n")
    (here / "Makefile").write_text(
        "t:\n\ttorchrun -m axolotl.cli.train c.yml --gradient-checkpointing false\n"
    )
    assert codes(capsys) == ["MEM301"]


@pytest.mark.parametrize(
    "lead", ["python -m trl.scripts.sft", "accelerate launch -m trl.scripts.sft", "trl sft"]
)
def test_full_precision_is_told_as_in_python(
    here: Path, capsys: pytest.CaptureFixture[str], lead: str
) -> None:
    (here / "run.sh").write_text(f"{lead} {MODEL} --bf16 false\n")
    assert {"MEM401", "MEM402", "MEM501"} <= set(codes(capsys))
    (here / "run.sh").write_text(f"{lead} {MODEL} --bf16 false --dtype bfloat16\n")
    assert not {"MEM401", "MEM402", "MEM501"} & set(codes(capsys))


@pytest.mark.parametrize(
    "text",
    [
        f'trl sft {MODEL} --bf16 false "$@"\n',
        f"trl sft {MODEL} --bf16 false --dtype $DTYPE\n",
        f"trl sft {MODEL} --bf16 false --config elsewhere.yaml\n",
        f"echo trl sft {MODEL} --bf16 false\n",
        f"# trl sft {MODEL} --bf16 false\n",
    ],
)
def test_what_may_be_another_dtype_is_none(
    here: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    (here / "run.sh").write_text(text)
    assert not {"MEM401", "MEM402", "MEM501"} & set(codes(capsys))


def test_the_default_is_the_release_s(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "run.sh").write_text(f"trl sft {MODEL} --bf16 false\n")
    assert "MEM401" not in codes(capsys, "trl=0.15,transformers=4.48")


RECIPE = """\
model_name_or_path: Qwen/Qwen2.5-7B
output_dir: out
bf16: false
learning_rate: 1.0e-5
"""


def test_a_recipe_that_trl_reads_has_its_defaults(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "sft.yaml").write_text(RECIPE)
    (here / "run.sh").write_text("trl sft --config sft.yaml\n")
    assert {"MEM401", "MEM402", "MEM501"} <= set(codes(capsys))
    (here / "other.sh").write_text("python train.py --config sft.yaml\n")
    assert not {"MEM401", "MEM402", "MEM501"} & set(codes(capsys))


MODULE = """\
from transformers import AutoModelForCausalLM, HfArgumentParser, Trainer, TrainingArguments

(args,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()
net = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B")
Trainer(net, args, train_dataset=rows).train()
"""
STARTED = "--output_dir out --evaluation_strategy no"


@pytest.mark.parametrize(
    ("place", "command"),
    [
        ("coach/fit.py", "python -m coach.fit"),
        ("src/coach/fit.py", "python -m coach.fit"),
        ("src/coach/fit.py", "PYTHONPATH=src python3 -m coach.fit"),
        ("lib/coach/fit.py", "PYTHONPATH=other:lib torchrun -m coach.fit"),
        ("src/coach/__main__.py", "accelerate launch --module coach"),
    ],
)
def test_a_module_is_the_file_that_python_would_start(
    here: Path, capsys: pytest.CaptureFixture[str], place: str, command: str
) -> None:
    script = here / place
    script.parent.mkdir(parents=True)
    script.write_text(MODULE)
    (here / "run.sh").write_text(f"{command} {STARTED}\n")
    # Below the project's folder, and with all that the command decides of the script.
    assert {"MEM301", "MEM901"} <= set(codes(capsys))


def test_a_module_of_another_package_starts_nothing_here(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "fit.py").write_text(MODULE)
    (here / "run.sh").write_text(f"python -m other.fit {STARTED}\n")
    assert codes(capsys) == ["MEM201"]


READS_A_FILE = """\
import sys
from transformers import AutoModelForCausalLM, HfArgumentParser, Trainer, TrainingArguments

(args,) = HfArgumentParser(TrainingArguments).parse_yaml_file(sys.argv[1])
net = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B")
Trainer(net, args, train_dataset=rows).train()
"""


@pytest.mark.parametrize("half", ["fp16", "bf16"])
def test_a_file_that_a_command_hands_over_without_an_option_enters_the_run(
    here: Path, capsys: pytest.CaptureFixture[str], half: str
) -> None:
    (here / "fit.py").write_text(READS_A_FILE)
    (here / "large.yaml").write_text(f"output_dir: out\n{half}: true\n")
    (here / "run.sh").write_text("accelerate launch fit.py large.yaml\n")
    run(["estimate", "--target", "newest", "fit.py"])
    said = capsys.readouterr().out
    assert f"compute {'float16' if half == 'fp16' else 'bfloat16'};" in said


@pytest.mark.parametrize(("taken", "known"), [("sys.argv[1]", True), ("pick(sys.argv)", False)])
def test_of_two_files_without_options_the_one_that_is_taken_counts(
    here: Path, capsys: pytest.CaptureFixture[str], taken: str, known: bool
) -> None:
    (here / "fit.py").write_text(READS_A_FILE.replace("sys.argv[1]", taken))
    (here / "large.yaml").write_text("output_dir: out\nfp16: true\n")
    (here / "run.sh").write_text("accelerate launch fit.py large.yaml more.yaml\n")
    run(["estimate", "--target", "newest", "fit.py"])
    assert ("compute float16;" in capsys.readouterr().out) is known
