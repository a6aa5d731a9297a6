"""What launch commands give to scripts: found and fixed where the command writes it."""

from __future__ import annotations

from pathlib import Path

import pytest

from memlint.cli.main import run
from memlint.engine.command_line import Given
from memlint.script.call_settings import UNSURE
from memlint.script.model import build_script
from memlint.source import Source
from tests.memlint.script.scripts import api

PARSED = """\
from dataclasses import dataclass, field
from trl import ScriptArguments, SFTConfig, SFTTrainer, TrlParser
@dataclass
class Extra:
    max_seq_len: int = field(default=1)
parser = TrlParser((ScriptArguments, SFTConfig, Extra))
script_args, training_args, extra = parser.parse_args_and_config()
trainer = SFTTrainer(model="m/m", args=training_args, train_dataset=dataset)
trainer.train()
"""
ARGPARSE = """\
import argparse
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
parser = argparse.ArgumentParser()
parser.add_argument("--attn", default="sdpa")
parser.add_argument("--eval-rows", "-e", dest="rows", type=int, default=512)
args = parser.parse_args()
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-7B", attn_implementation=args.attn)
config = TrainingArguments(
    "out", per_device_train_batch_size=4, per_device_eval_batch_size=args.rows, bf16=True,
    eval_strategy="steps",
)
trainer = Trainer(model, config, train_dataset=rows, eval_dataset=others)
trainer.train()
"""
TARGET = ["--target", "trl=1.16,transformers=5.23"]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text("")
    return tmp_path


def found(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    run(["check", "--no-cache", "--output-format", "concise", *TARGET, *arguments])
    lines = capsys.readouterr().out.splitlines()
    return [line.split(" ")[0] + " " + line.split(" ")[1] for line in lines if ": MEM" in line]


def fixed(here: Path, name: str, *arguments: str) -> str:
    run(["fix", "--no-cache", *TARGET, *arguments, str(here)])
    return (here / name).read_text()


def test_a_removed_flag_is_renamed_where_it_stands(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "train.py").write_text(PARSED)
    (here / "scripts").mkdir()
    text = (
        "accelerate launch train.py \\\n  --max_seq_length 2048 \\\n"
        "  --evaluation-strategy 'steps' --max_seq_len 4  # both\n"
    )
    (here / "scripts/run.sh").write_text(text)
    assert [line for line in found(capsys) if "MEM901" in line] == [
        "scripts/run.sh:2:3: MEM901",
        "scripts/run.sh:3:3: MEM901",
    ]
    after = fixed(here, "scripts/run.sh", "--select", "MEM901")
    assert after == text.replace("max_seq_length", "max_length").replace(
        "evaluation-strategy", "eval-strategy"
    )
    assert (here / "train.py").read_text() == PARSED
    assert fixed(here, "scripts/run.sh", "--select", "MEM901") == after


@pytest.mark.parametrize(
    ("name", "text", "place", "after"),
    [
        ("run.sh", "python t.py --attn eager\n", "run.sh:1:20:", "python t.py --attn sdpa\n"),
        ("run.sh", "A=eager\npython t.py --attn=$A\n", "run.sh:1:3:", "A=sdpa\npython t.py"),
        ("Makefile", "a:\n\tpython t.py --attn eager\n", "Makefile:2:21:", "--attn sdpa\n"),
        ("justfile", "a:\n  python t.py --attn eager\n", "justfile:2:22:", "--attn sdpa\n"),
        ("Dockerfile", 'CMD ["python", "t.py", "--attn", "eager"]\n', "Dockerfile:1:35:", '"sdpa"'),
    ],
)
def test_a_value_is_changed_where_it_stands(
    here: Path,
    capsys: pytest.CaptureFixture[str],
    name: str,
    text: str,
    place: str,
    after: str,
) -> None:
    (here / "t.py").write_text(ARGPARSE)
    (here / name).write_text(text)
    assert f"{place} MEM304" in found(capsys)
    assert after in fixed(here, name, "--select", "MEM304")


@pytest.mark.parametrize(
    "text",
    [
        "X=eager\npython t.py --attn $X; echo $X\n",  # two read the place
        'python t.py --attn "eager"$EMPTY\n',  # nobody knows the value
        "python t.py --attn $1\n",
    ],
)
def test_what_is_no_plain_word_stays(here: Path, text: str) -> None:
    (here / "t.py").write_text(ARGPARSE)
    (here / "run.sh").write_text(text)
    assert fixed(here, "run.sh", "--select", "MEM304", "--unsafe-fixes") == text
    assert (here / "t.py").read_text() == ARGPARSE


def test_a_default_that_commands_override_is_not_reported(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "t.py").write_text(ARGPARSE)
    assert "t.py:5:73: MEM207" in found(capsys)
    (here / "a.sh").write_text("python t.py --eval-rows 4\n")
    assert not [line for line in found(capsys) if "MEM207" in line]
    (here / "b.sh").write_text("python t.py -e 64\n")
    assert [line for line in found(capsys) if "MEM207" in line] == ["b.sh:1:16: MEM207"]


def test_a_command_of_another_script_of_that_name_says_nothing(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "t.py").write_text(ARGPARSE)
    (here / "other").mkdir()
    (here / "other/t.py").write_text("")
    (here / "other/a.sh").write_text("python t.py --eval-rows 4\n")
    assert "t.py:5:73: MEM207" in found(capsys)


def test_an_option_of_the_script_s_own_is_none_of_the_library_s(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "train.py").write_text(PARSED.replace("max_seq_len:", "max_seq_length:"))
    (here / "run.sh").write_text("python train.py --max_seq_length 2048\n")
    assert not [line for line in found(capsys) if "MEM901" in line]


def test_an_option_that_the_script_declares_again_is_its_own(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = PARSED.replace("class Extra:", "class Extra(SFTConfig):").replace(
        "max_seq_len:", "max_seq_length:"
    )
    (here / "train.py").write_text(text.replace(", SFTConfig, Extra))", ", Extra))"))
    (here / "run.sh").write_text("python train.py --max_seq_length 2048\n")
    assert not [line for line in found(capsys) if line.startswith("run.sh")]


def test_remaining_arguments_may_be_anything(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = PARSED.replace("_and_config()", "_into_dataclasses(return_remaining_strings=True)")
    (here / "train.py").write_text(text.replace("extra = parser", "extra, rest = parser"))
    (here / "run.sh").write_text("python train.py --max_seq_length 2048\n")
    assert not [line for line in found(capsys) if line.startswith("run.sh")]


def test_a_cached_result_knows_of_commands(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def again() -> bool:
        run(["check", "--output-format", "concise", *TARGET, "t.py"])
        return "MEM207" in capsys.readouterr().out

    (here / "t.py").write_text(ARGPARSE)
    assert again()
    (here / "a.sh").write_text("python t.py --eval-rows 4\n")
    assert not again()
    (here / "a.sh").write_text("python t.py --attn sdpa\n")
    assert again()


def test_a_comment_suppresses_what_is_found(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "t.py").write_text(ARGPARSE)
    (here / "run.sh").write_text("python t.py --attn eager -e 4  # memlint: ignore[MEM304]\n")
    assert not [line for line in found(capsys) if line.startswith("run.sh")]


@pytest.mark.parametrize("text", ["echo hello\n", "pip install trl\n", "", "python \x00 ${ t.py"])
def test_files_that_start_nothing_are_passed_over(
    here: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    (here / "run.sh").write_text(text)
    assert run(["check", "--no-cache"]) == 0
    assert "run.sh" not in "".join(capsys.readouterr())
    assert run(["check", "--no-cache", "run.sh"]) == 2
    output = "".join(capsys.readouterr())
    assert "starts no training script" in output or "NUL" in output or "null" in output


@pytest.mark.parametrize(
    ("declared", "given", "value"),
    [
        ('type=int, default=1', "5", True),
        ('type=int, default=1', "x", False),
        ('default="sdpa"', "eager", True),
        ('type=convert, default="sdpa"', "eager", False),
        ('nargs="+", default=["sdpa"]', "eager", False),
    ],
)  # fmt: skip
def test_types_of_arguments(declared: str, given: str, value: bool) -> None:
    text = (
        "import argparse, torch\np = argparse.ArgumentParser()\n"
        f"p.add_argument('--a', {declared})\n"
        "torch.save(x=p.parse_args().a)\n"
    )
    script = build_script(Source("t.py", text), api(), given={"a": Given(given)})
    (call,) = (one for one in script.calls_to("torch.save"))
    assert (call.setting("x").value is not UNSURE) is value


def test_what_the_script_fixes_is_found_in_the_script(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "t.py").write_text(
        "import argparse\nfrom trl import SFTConfig, SFTTrainer\n"
        "parser = argparse.ArgumentParser()\nparser.add_argument('--model')\n"
        "args = parser.parse_args()\nconfig = SFTConfig('out')\n"
        "SFTTrainer(args.model, args=config, train_dataset=rows).train()\n"
    )
    (here / "run.sh").write_text("python t.py --model Qwen/Qwen2.5-0.5B\n")
    select = ["--select", "MEM401"]
    assert found(capsys, *select) == ["t.py:6:10: MEM401"]
    assert found(capsys, *select, "t.py") == ["t.py:6:10: MEM401"]
    assert found(capsys, *select, "run.sh") == []
    assert "model_init_kwargs" in fixed(here, "t.py", *select, "--unsafe-fixes")


def test_every_format_knows_which_commands_cannot_be_changed(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "run.sh").write_text("trl sft --model_name_or_path a --dataset_name d\n")
    for form in ("concise", "full"):
        run(["check", "--no-cache", "--output-format", form, *TARGET])
        out = capsys.readouterr().out
        assert "MEM103" in out
        assert "fixable" not in out


@pytest.mark.parametrize(
    ("words", "after"),
    [
        ('"--max_seq_length" 5', '"--max_length" 5'),
        ('"--max_seq_length=5"', '"--max_length=5"'),
        ('--"max_seq_length"=5', '--"max_seq_length"=5'),
        ("--max_seq_'length' 5", "--max_seq_'length' 5"),
        ('"--logging_dir=x" --max_seq_length 5', '"--logging_dir=x" --max_length 5'),
    ],
)
def test_quotes_around_an_option_stay(here: Path, words: str, after: str) -> None:
    (here / "run.sh").write_text(f"trl sft --model_name_or_path a {words} --seed 1\n")
    assert f"a {after} --seed 1" in fixed(here, "run.sh", "--select", "MEM901")


def test_a_program_in_exec_form_is_read(here: Path) -> None:
    text = 'FROM x\nCMD ["trl", "sft", "--model_name_or_path", "a", "--max_seq_length", "5"]\n'
    (here / "Dockerfile").write_text(text)
    after = fixed(here, "Dockerfile", "--select", "MEM901")
    assert after == text.replace("max_seq_length", "max_length")


def test_a_quoted_option_that_cannot_go_keeps_no_other_from_going(here: Path) -> None:
    (here / "run.sh").write_text(
        'trl dpo --model_name_or_path a "--use_logits_to_keep=true" --seed 1\n'
        "trl dpo --model_name_or_path b --use_logits_to_keep true --seed 1\n"
    )
    assert fixed(here, "run.sh", "--select", "MEM901") == (
        'trl dpo --model_name_or_path a "--use_logits_to_keep=true" --seed 1\n'
        "trl dpo --model_name_or_path b --seed 1\n"
    )


@pytest.mark.parametrize("value", ["'true'", '"true"', "true"])
@pytest.mark.parametrize("joint", [" ", "=", " \\\n  "])
@pytest.mark.parametrize("rest", ["", " --seed 1", "; echo", "&& echo", ">log"])
def test_the_quotes_of_a_value_go_with_it(here: Path, value: str, joint: str, rest: str) -> None:
    text = f"trl dpo --model_name_or_path a --use_logits_to_keep{joint}{value}{rest}\n"
    (here / "run.sh").write_text(text)
    after = f"trl dpo --model_name_or_path a{rest}\n"
    assert fixed(here, "run.sh", "--select", "MEM901") == after


BODY = """\
    model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-7B", attn_implementation=attn)
    config = TrainingArguments(
        "out", per_device_train_batch_size=4, per_device_eval_batch_size=rows, bf16=bf16,
        eval_strategy="steps",
    )
    Trainer(model, config, train_dataset=train, eval_dataset=others).train()
"""
IMPORTS = "from transformers import AutoModelForCausalLM, Trainer, TrainingArguments\n"
CLICK = f"""\
import click
{IMPORTS}
@click.command()
@click.option("--attn", default="sdpa")
@click.option("--eval-rows", "rows", default=512)
@click.option("--bf16/--no-bf16", default=True)
def main(attn, rows, bf16):
{BODY}
main()
"""
TYPER = f"""\
import typer
{IMPORTS}
app = typer.Typer()

@app.command()
def main(attn: str = "sdpa", eval_rows: int = typer.Option(512), bf16: bool = True):
    rows = eval_rows
{BODY}
app()
"""
FIRE = f"""\
import fire
{IMPORTS}
def main(attn="sdpa", eval_rows=512, bf16=True):
    rows = eval_rows
{BODY}
fire.Fire(main)
"""


@pytest.mark.parametrize("text", [CLICK, TYPER, FIRE], ids=["click", "typer", "fire"])
def test_other_parsers_get_what_the_command_gives(
    here: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    (here / "t.py").write_text(text)
    select = ["--select", "MEM207,MEM304"]
    assert [line.split(":")[0] for line in found(capsys, *select)] == ["t.py"]
    (here / "a.sh").write_text("python t.py --eval-rows 4\n")
    assert found(capsys, *select) == []
    (here / "a.sh").write_text("python t.py --eval-rows 64 --attn=eager\n")
    assert sorted(found(capsys, *select)) == ["a.sh:1:25: MEM207", "a.sh:1:35: MEM304"]
    after = fixed(here, "a.sh", *select)
    assert after == "python t.py --eval-rows 4 --attn=sdpa\n"
    assert (here / "t.py").read_text() == text


def test_a_switch_of_click_may_be_off() -> None:
    given = {"no_bf16": Given(True), "rows": Given("8")}
    (config,) = build_script(Source("t.py", CLICK), api(), given=given).configs
    assert config.setting("bf16").value is False
    assert config.setting("per_device_eval_batch_size").value == 512  # no option is called so


def test_an_option_that_nothing_replaces_goes_with_its_value(here: Path) -> None:
    (here / "train.py").write_text(PARSED)
    (here / "run.sh").write_text(
        "python train.py --seed 1 --save_safetensors 'True' --max_steps 9\n"
    )
    after = fixed(here, "run.sh", "--select", "MEM901")
    assert after == "python train.py --seed 1 --max_steps 9\n"


def test_an_option_may_be_that_of_a_class_out_of_sight(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "python train.py --save_safetensors True --per_device_eval_batch_size 64\n"
    (here / "run.sh").write_text(text)
    hidden = PARSED.replace("parser = ", "from company.options import Others\nparser = ")
    (here / "train.py").write_text(hidden.replace("SFTConfig, Extra", "SFTConfig, Others"))
    assert not [line for line in found(capsys) if "run.sh" in line and "MEM901" in line]
    assert fixed(here, "run.sh", "--select", "MEM901") == text


def test_an_option_that_an_environment_takes_over_is_advised(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "train.py").write_text(PARSED)
    text = "python train.py --seed 1 --logging_dir runs/one --report_to tensorboard\n"
    (here / "run.sh").write_text(text)
    assert found(capsys).count("run.sh:1:26: MEM901") == 1
    assert fixed(here, "run.sh", "--select", "MEM901") == text


def test_a_value_keeps_the_way_in_which_the_command_spells_switches(here: Path) -> None:
    (here / "t.py").write_text(PARSED)
    (here / "run.sh").write_text("python t.py --bf16=false --tf32=True\n")
    after = fixed(here, "run.sh", "--select", "MEM402", "--unsafe-fixes")
    assert after == "python t.py --bf16=true --tf32=True\n"


def test_a_comment_of_the_script_holds_for_its_commands_where_it_is_of_the_whole_file(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "t.py").write_text(ARGPARSE)
    (here / "run.sh").write_text("python t.py --attn eager\n")
    assert "run.sh:1:20: MEM304" in found(capsys, "--select", "MEM304")
    (here / "t.py").write_text(f"# memlint: ignore[MEM304]\n{ARGPARSE}")
    assert "run.sh:1:20: MEM304" in found(capsys, "--select", "MEM304")
    (here / "t.py").write_text(f"# memlint: ignore-file[MEM304]\n{ARGPARSE}")
    assert found(capsys, "--select", "MEM304") == []


@pytest.mark.parametrize(
    ("field", "places"), [("rows: int = 4", ["train.sh:1:15: MEM901"]), ("max_seq_length: int", [])]
)
def test_classes_in_other_files_of_the_project_are_seen(
    here: Path, capsys: pytest.CaptureFixture[str], field: str, places: list[str]
) -> None:
    head, _, rest = PARSED.partition("@dataclass\n")
    declared = f"from dataclasses import dataclass\n@dataclass\nclass Extra:\n    {field}\n"
    (here / "extra.py").write_text(declared)
    _, _, rest = rest.partition("default=1)\n")
    (here / "sft.py").write_text(f"{head}from extra import Extra\n{rest}")
    (here / "train.sh").write_text("python sft.py --max_seq_length 512\n")
    at_commands = [line for line in found(capsys, "train.sh") if "MEM901" in line]
    assert at_commands == places


PROGRAM = """\
from trl import SFTConfig, SFTTrainer, ScriptArguments, TrlParser

script, args = TrlParser((ScriptArguments, SFTConfig)).parse_args_and_config()
SFTTrainer("Qwen/Qwen3-1.7B", args, train_dataset=rows).train()
"""


def test_the_file_that_trl_s_parser_reads_is_an_option_of_the_parser(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "go.py").write_text(PROGRAM)
    (here / "go.yaml").write_text("output_dir: out\n")
    (here / "go.sh").write_text("python go.py --config go.yaml\n")
    assert not [line for line in found(capsys) if line.startswith("go.sh")]
