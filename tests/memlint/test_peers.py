"""Defects that other linters of training scripts have, each as a test that ours does not.

A fixer that turned CRLF into LF; a notebook that passed as "no issues in 0 files" with status 0; a
fix that did not parse where a call had no trailing comma; findings with exit status 0; fixes that
were written though they broke the file; rules that know no library versions; folders with a
syntax error that ended the run.
"""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

from memlint.cli.main import run
from tests.memlint.test_notebook import as_bytes, notebook

# Trains without checkpointing, whatever the version.
FAULTY = """\
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")
args = TrainingArguments({arguments})
trainer = Trainer(model=model, args=args, train_dataset=data)
trainer.train()
"""
SELECT = ["--select", "MEM301"]
CHECKPOINTING = ("gradient_checkpointing", "activation_checkpointing")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def faulty(arguments: str = 'output_dir="out"') -> str:
    return FAULTY.format(arguments=arguments)


def fix(path: Path) -> bytes:
    run(["fix", *SELECT, "--unsafe-fixes", str(path)])
    return path.read_bytes()


def test_findings_are_an_exit_status() -> None:
    Path("a.py").write_text(faulty())
    assert run(["check", *SELECT, "a.py"]) == 1


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_newlines_survive_a_fix(newline: str) -> None:
    path = Path("a.py")
    before = faulty().replace("\n", newline).encode()
    path.write_bytes(before)
    after = fix(path)
    assert after != before
    assert after.count(newline.encode()) == before.count(newline.encode())
    assert b"_checkpointing=True" in after
    if newline != "\r\n":
        other = {"\n": b"\r", "\r": b"\n"}[newline]
        assert other not in after
    else:
        assert after.replace(b"\r\n", b"").count(b"\n") == 0


def test_notebooks_are_checked_and_fixed(capsys: pytest.CaptureFixture[str]) -> None:
    data = as_bytes(notebook("!nvidia-smi", faulty()))
    path = Path("n.ipynb")
    path.write_bytes(data)
    assert run(["check", *SELECT, "--output-format", "json", "n.ipynb"]) == 1
    items = json.loads(capsys.readouterr().out)
    assert {item["code"] for item in items} == {"MEM301"}
    assert {item["cell"] for item in items} == {2}
    assert {item["location"]["row"] for item in items} == {4}
    cells = json.loads(fix(path))["cells"]
    assert cells[0]["source"] == "!nvidia-smi"
    assert "_checkpointing=True" in cells[1]["source"]


@pytest.mark.parametrize(
    "arguments",
    [
        "",
        '"out"',
        '"out",',
        'output_dir="out"',
        'output_dir="out",',
        '\n    output_dir="out"\n',
        '\n    output_dir="out",\n',
        '\n    output_dir="out"  # where\n',
        '\n    output_dir="out",  # where\n    # the end\n',
        '\n    output_dir="out",\n    fp16=False\n',
        'output_dir="out",\n                         fp16=False, optim="adamw_torch"',
    ],
)
def test_a_fix_parses_with_and_without_trailing_comma(arguments: str) -> None:
    path = Path("a.py")
    path.write_text(faulty(arguments))
    after = fix(path).decode()
    call = next(
        node
        for node in ast.walk(ast.parse(after))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "TrainingArguments"
    )
    keywords = {keyword.arg: ast.unparse(keyword.value) for keyword in call.keywords}
    assert [keywords[name] for name in CHECKPOINTING if name in keywords] == ["True"]
    assert after.count("#") == arguments.count("#"), "comments stay"
    assert run(["fix", *SELECT, "--unsafe-fixes", "--check", "a.py"]) == 0


def test_a_broken_file_does_not_end_the_run(capsys: pytest.CaptureFixture[str]) -> None:
    Path("a.py").write_text("import transformers\ndef f(:\n")
    Path("b.py").write_text(faulty())
    assert run(["check", *SELECT, "--output-format", "concise", "a.py", "b.py"]) == 1
    out = capsys.readouterr().out
    assert "a.py:2:7: MEM002 does not parse" in out
    assert "b.py:4:8: MEM301" in out


def test_findings_follow_the_versions() -> None:
    """Without a dtype transformers 4 loads float32; 5 loads what the checkpoint has."""
    Path("a.py").write_text(faulty())
    select = ["check", "--select", "MEM402", "a.py"]
    assert run([*select, "--target", "transformers=4.50"]) == 1
    assert run([*select, "--target", "transformers=5.23"]) == 0


def test_defaults_of_todays_versions_are_not_reported() -> None:
    """TRL's configs check-point and use bf16 by default: naive rules call that a fault."""
    Path("a.py").write_text(
        "from trl import SFTConfig, SFTTrainer\n"
        'config = SFTConfig(output_dir="out", packing=True)\n'
        'trainer = SFTTrainer("Qwen/Qwen3-0.6B", args=config, train_dataset=data)\n'
        "trainer.train()\n"
    )
    assert run(["check", "--select", "MEM301,MEM402", "a.py"]) == 0


def test_what_has_nothing_to_do_with_training_is_left_alone(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("a.py").write_text(
        "class Trainer:\n    pass\n\n\ndef TrainingArguments(**options):\n    return options\n\n\n"
        'args = TrainingArguments(output_dir="out")\ntrainer = Trainer()\n'
    )
    assert run(["check", "a.py"]) == 0
    assert capsys.readouterr().out == "Nothing found in 1 file.\n"
