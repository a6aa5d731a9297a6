"""Options in variables and arrays of a shell script, which commands may share."""

from __future__ import annotations

from pathlib import Path

import pytest

from memlint.cli.main import run
from memlint.recipes.launch import Command, read_commands
from tests.memlint.recipes.test_launch_checks import ARGPARSE, TARGET, fixed, found, here

__all__ = ["here"]


def the(text: str) -> Command:
    (command,) = read_commands(text, "shell")
    return command


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("A=(--a 1)\nA+=(--b 2)\npython t.py ${A[@]}", {"a": "1", "b": "2"}),
        ("A=(--a 1)\nif x; then A+=(--b 2); fi\npython t.py ${A[@]}", {"a": "1", "b": None}),
        ("A=(--a 1)\nif x; then A+=(--a 2); fi\npython t.py ${A[@]}", {"a": None}),
        ("A=(--a 1)\nx && A+=(--b=2)\npython t.py ${A[@]}", {"a": "1", "b": None}),
        ("A=(--a 1)\nA=(\"${A[@]}\" --b 2)\npython t.py ${A[@]}", {"a": "1", "b": "2"}),
        ("A='--a 1'\nA=\"$A --b 2\"\npython t.py $A", {"a": "1", "b": "2"}),
        ("A='--a 1'\nif x; then A=\"$A --b 2\"; fi\npython t.py $A", {"a": "1", "b": None}),
        ("A='--a 1'\nif x; then A+=' --a 2'; fi\npython t.py $A", {"a": None}),
        ("A=\nif x; then A=--b; fi\npython t.py --a 1 $A", {"a": "1", "b": None}),
        (
            "A=(--a 1)\nif x; then A+=(--b 2); else A+=(--c 3); python u; fi\npython t.py ${A[@]}",
            {"a": "1", "b": None, "c": None},
        ),
        ("A=(--a 1)\nif x; then if y; then A+=(--b 2); fi; fi\npython t.py ${A[@]}",
         {"a": "1", "b": None}),
        ("A=(--a 1)\nif x; then A=(--b 2); fi\npython t.py --c 3 ${A[@]}", {"c": "3"}),
        ("A=(--a 1)\nA[1]=2\npython t.py --c 3 ${A[@]}", {"c": "3"}),
        ("A=(--a 1)\nunset A\npython t.py --c 3 ${A[@]}", {"c": "3"}),
    ],
)  # fmt: skip
def test_what_is_added_to_a_variable(text: str, values: dict[str, str | None]) -> None:
    command = read_commands(text, "shell")[-1]
    last = {flag.name: flag.value for flag in command.settings}
    assert last == values


def test_an_unknown_part_leaves_the_others_known() -> None:
    command = the('A=(--a 1 $MORE)\nA+=("${REST[@]}")\npython t.py "${A[@]}" --b 2')
    assert command.has_unknown_arguments
    assert [(flag.name, flag.value) for flag in command.settings] == [("a", "1"), ("b", "2")]


ARRAY = """\
OPTIONS=(
  --attn eager  # as before
)
OPTIONS+=(--eval-rows 64)
if [ -n "$NAME" ]; then
  OPTIONS+=(--name "$NAME")
fi
accelerate launch t.py "${OPTIONS[@]}"
"""


def test_a_value_in_an_array_is_changed_there(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "t.py").write_text(ARGPARSE)
    (here / "run.sh").write_text(ARRAY)
    assert set(found(capsys)) >= {"run.sh:2:10: MEM304", "run.sh:4:23: MEM207"}
    after = fixed(here, "run.sh", "--select", "MEM304,MEM207")
    assert after == ARRAY.replace("eager", "sdpa").replace("64", "4")


SHARED = 'COMMON=(--attn eager)\n{first} t.py "${{COMMON[@]}}"\npython {second} ${{COMMON[@]}}\n'


@pytest.mark.parametrize("second", ["t.py --eval-rows 2", "other.py"])
def test_a_shared_value_is_changed_where_all_want_it(here: Path, second: str) -> None:
    for name in ("t.py", "other.py"):
        (here / name).write_text(ARGPARSE)
    text = SHARED.format(first="torchrun", second=second)
    (here / "run.sh").write_text(text)
    assert fixed(here, "run.sh", "--select", "MEM304") == text.replace("eager", "sdpa")


@pytest.mark.parametrize(
    "second",
    [
        "plain.py",  # reads no command line
        "missing.py",
        "-m pip",
        "reads.py",  # another meaning of the same option
    ],
)
def test_a_shared_value_stays_where_one_does_not(
    here: Path, capsys: pytest.CaptureFixture[str], second: str
) -> None:
    (here / "t.py").write_text(ARGPARSE)
    (here / "plain.py").write_text("import sys\n")
    (here / "reads.py").write_text(ARGPARSE.replace("attn_implementation=args.attn", ""))
    text = SHARED.format(first="python", second=second)
    (here / "run.sh").write_text(text)
    assert "run.sh:1:16: MEM304" in found(capsys)
    assert fixed(here, "run.sh", "--select", "MEM304", "--unsafe-fixes") == text


def test_a_shared_option_keeps_its_name_where_another_program_takes_it(here: Path) -> None:
    (here / "run.sh").write_text(
        "A=(--model_name_or_path m --max_seq_length 512)\n"
        'trl sft "${A[@]}"\npython mine.py "${A[@]}"\n'
    )
    text = (here / "run.sh").read_text()
    assert fixed(here, "run.sh", "--select", "MEM901") == text
    (here / "run.sh").write_text(text.replace("python mine.py", "trl sft --seed 1"))
    assert "--max_length 512)" in fixed(here, "run.sh", "--select", "MEM901")


PROGRAMS = """\
trl=(--model_name_or_path a/b --max_seq_length 512 --evaluation_strategy=steps)
trl sft "${trl[@]}"
tune=(dtype=fp32)
tune+=(enable_activation_checkpointing=False)
tune run full_finetune_single_device --config llama3_2/1B_full_single_device "${tune[@]}"
factory=(stage=sft do_train=true finetuning_type=lora flash_attn=disabled)
llamafactory-cli train "${factory[@]}"
"""


def test_options_of_programs_with_recipes(here: Path) -> None:
    (here / "run.sh").write_text(PROGRAMS)
    run(["fix", "--no-cache", "--unsafe-fixes", "--select", "MEM304,MEM301,MEM401,MEM901", *TARGET])
    assert (here / "run.sh").read_text() == (
        PROGRAMS.replace("max_seq_length", "max_length")
        .replace("evaluation_strategy", "eval_strategy")
        .replace("fp32", "bf16")
        .replace("disabled", "sdpa")
    )


def test_an_option_whose_value_stands_elsewhere_is_not_taken_out(here: Path) -> None:
    text = (
        "A=(--model_name_or_path m --use_logits_to_keep)\nB=(true --seed 1)\n"
        'trl dpo "${A[@]}" "${B[@]}"\n'
    )
    (here / "run.sh").write_text(text)
    assert fixed(here, "run.sh", "--select", "MEM901") == text
