"""Inputs of a few kilobytes that once took minutes or gigabytes, or were called a defect."""

from __future__ import annotations

import ast
import gc
import json
from collections.abc import Iterable
from pathlib import Path

import pytest

from memlint.api.lookup import newest_tables
from memlint.cli.main import run
from memlint.engine import name_uses
from memlint.engine.nodes import walk
from memlint.engine.values import Invocation
from memlint.memory.oom_log import read_log
from memlint.memory.weights import matches
from memlint.recipes.document import DocumentError, merged, read_document, values
from memlint.rule.findings import Finding
from memlint.run.engine import MOST_FINDINGS, unsuppressed
from memlint.run.jobs import Job
from memlint.run.session import FixWork, Session
from memlint.script import called
from memlint.script.model import build_script
from memlint.script.setups import _MOST
from memlint.source import Source
from memlint.source.diagnostics import ReadError
from memlint.source.parsing import MAX_TOKENS, too_much_code
from memlint.source.reading import read_source

OOM = "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 1 has a total capacity of 8.00 GiB"
TARGET = "trl=1.16,transformers=5.23"


def merging(deep: int, fan: int, own: str = "") -> str:
    lines = ["a0: &a0 {x0: 1}"]
    for number in range(1, deep):
        below = ", ".join([f"*a{number - 1}"] * fan)
        lines.append(f"a{number}: &a{number} {{<<: [{below}]{own.format(number)}}}")
    return "\n".join([*lines, f"<<: *a{deep - 1}"])


@pytest.mark.parametrize("fan", [1, 2, 9])
def test_merge_keys_are_merged_once(fan: int) -> None:
    root = read_document(Source("a.yaml", merging(60, fan, ", y{}: 1"))).root
    names = set(merged(root))
    assert {"x0", "y1", "y59"} <= names
    assert len(names) == 60 + 60  # what is inherited, and the anchors' own keys


def test_merge_keys_of_a_long_chain_are_too_many() -> None:
    with pytest.raises(DocumentError, match="merges more keys"):
        read_document(Source("a.yaml", merging(3_000, 1, ", y{}: 1")))


def test_own_keys_and_earlier_bases_win() -> None:
    text = "a: &a {x: 1, y: 1}\nb: &b {x: 2, z: 2}\nc:\n  <<: [*a, *b]\n  y: 3\n"
    assert values(read_document(Source("a.yaml", text)).root)["c"] == {"x": 1, "y": 3, "z": 2}


def test_a_document_of_many_values_is_no_recipe() -> None:
    with pytest.raises(DocumentError, match="more values"):
        read_document(Source("a.yaml", "".join(f"k{n}: 1\n" for n in range(20_000))))


@pytest.mark.parametrize("number", ["0x" + "f" * 6_000, "1" * 6_000, "1" + ":1" * 5_000])
def test_numbers_of_thousands_of_digits_are_texts(number: str) -> None:
    root = read_document(Source("a.yaml", f"seed: {number}\n")).root
    assert values(root) == {"seed": number}


@pytest.mark.parametrize("codec", ["undefined", "punycode", "idna", "hex", "rot13", "a" * 100_000])
def test_an_encoding_that_no_script_has_is_told_in_a_line(codec: str) -> None:
    with pytest.raises(ReadError, match="encoding that Python does not know") as error:
        read_source("a.py", f"# coding: {codec}\nx = 1\n".encode())
    assert len(str(error.value)) < 150


@pytest.mark.parametrize(
    "text",
    [
        f"max_length{' ' * 60_000}\n{OOM}",
        f"File {'.py' * 30_000}\n{OOM}",
        f"{OOM} {'1' * 60_000}",
        f"{OOM}\n{'1' * 60_000}",
        f"[rank{'9' * 5_000}]: {OOM}",
        f"GPU {'9' * 5_000} {OOM}",
        f"micro_batch_size: {'9' * 5_000}\n{OOM}",
        f"trainable params: {'9' * 5_000}\n{OOM}",
        f"trainable params: ,\n{OOM}",
        f"Tried to allocate {'1' * 5_000} GiB\n{OOM}",
        f"load_in_4bit{' ' * 60_000}\n{OOM}",
        f"{'/a' * 30_000}.py {OOM}",
        f"model: {'x-1' * 30_000}\n{OOM}",
    ],
)
def test_a_log_of_a_few_kilobytes_is_read(text: str, tmp_path: Path) -> None:
    message = read_log(text).messages[-1]
    assert (message.gpu, message.shown, message.total) == (1, 2 << 30, 8 << 30)
    log = tmp_path / "o.log"
    log.write_text(text)
    assert run(["oom", str(log)]) == 0


def test_many_messages_are_read_to_a_limit() -> None:
    assert len(read_log(OOM * 20_000).messages) == 1_000


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|a)*b", ".*.*.*.*.*.*.*b", "(", "a{99999999999}"])
def test_a_pattern_of_the_user_that_may_take_for_ever_matches_nothing(pattern: str) -> None:
    assert not matches("a" * 60, pattern)


def test_a_plain_pattern_of_the_user_matches() -> None:
    assert matches("q_proj", r".*\.(q_proj|v_proj)$")


@pytest.mark.parametrize("unit", ["x = 1\n", "a;", "f(a)\n", "--", "[[", "a:"])
def test_more_code_than_people_write_is_not_parsed(unit: str) -> None:
    assert "words and signs" in too_much_code(unit * (MAX_TOKENS // 2 + 1))
    assert not too_much_code(unit * 20_000)


def test_a_large_literal_is_little_code() -> None:
    assert not too_much_code(f"x = [{'12, ' * 400_000}]")


def test_a_rule_finds_so_much_in_a_file() -> None:
    job = Job("a.py", frozenset({"MEM901"}), TARGET)
    line = "TrainingArguments('o', evaluation_strategy='no')\n"
    text = "from transformers import TrainingArguments\n" + line * (MOST_FINDINGS + 100)
    assert len(Session().check(job, text.encode()).findings) == MOST_FINDINGS


def test_more_trainers_than_people_write_are_not_looked_at(tmp_path: Path) -> None:
    line = "SFTTrainer('gpt2', args=SFTConfig('o', max_seq_length=8), train_dataset=d).train()\n"
    path = tmp_path / "train.py"
    path.write_text("from trl import SFTConfig, SFTTrainer\n" + line * (_MOST + 40))
    output = tmp_path / "out.json"
    options = ["--isolated", "--no-cache", "--no-prices", "--target", TARGET, "--select", "MEM103"]
    written = ["--output-format", "json", "--output-file", str(output)]
    assert run(["check", str(path), *options, *written]) == 1
    assert len(json.loads(output.read_text())) == _MOST


def test_memory_that_is_not_there_is_not_called_nesting(monkeypatch: pytest.MonkeyPatch) -> None:
    def exhausted(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr("memlint.script.model.build_script", exhausted)
    job = Job("a.py", frozenset({"MEM901"}), TARGET)
    text = (
        "from transformers import TrainingArguments\nTrainingArguments(evaluation_strategy='no')\n"
    )
    (told,) = Session().check(job, text.encode()).diagnostics
    assert "more memory than there is" in told.message


@pytest.mark.parametrize("command", ["debug", "estimate"])
def test_deep_scripts_are_read_by_all_commands(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "a.py"
    script.write_text("from trl import SFTConfig\nx = a" + " + b" * 2_000 + "\nSFTConfig('o')\n")
    run([command, "--target", "newest", str(script)])
    assert "defect" not in capsys.readouterr().err


def test_syntax_trees_are_not_searched_for_garbage_while_files_are_fixed() -> None:
    work = ((Job(f"{number}.py", frozenset(), TARGET), b"x = 1\n") for number in range(2))
    assert [gc.isenabled() for _ in FixWork().each(work)] == [False, False]
    assert gc.isenabled()


def test_the_mark_of_a_cell_is_no_comment_that_speaks_to_memlint() -> None:
    cells = [{"cell_type": "code", "source": "x = 1"}] * 3
    data = json.dumps({"cells": cells, "metadata": {}, "nbformat": 4}).encode()
    source = read_source("n.ipynb", data)
    assert "# memlint" in source.text
    # Findings go through as they are: the comments are not looked for.
    findings: list[Finding] = []
    assert unsuppressed(source, findings, (), report_unused=True) is findings


def test_a_loop_of_links_beside_a_script_is_no_file_of_commands(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "Makefile").symlink_to("Makefile")
    (tmp_path / "train.py").write_text(
        "import argparse\n"
        "from trl import SFTConfig, SFTTrainer\n"
        "parser = argparse.ArgumentParser()\n"
        "parser.add_argument('--rows', type=int, default=8)\n"
        "rows = parser.parse_args().rows\n"
        "SFTTrainer('a', SFTConfig(per_device_train_batch_size=rows)).train()\n"
    )
    run(["check", "--no-cache", "--target", "newest", str(tmp_path)])
    printed = capsys.readouterr()
    assert "MEM" in printed.out
    assert "defect" not in printed.out + printed.err


def test_findings_in_a_file_of_one_line_do_not_each_hold_it() -> None:
    repeated = '{"zero_optimization": {' + '"stage": 3, ' * 4000 + '"stage": 2}}'
    statement = "TrainingArguments('o', evaluation_strategy='no'); "
    script = "from transformers import TrainingArguments; " + statement * 400
    for name, text, code in (("ds.json", repeated, "MEM002"), ("a.py", script, "MEM901")):
        job = Job(name, frozenset({code}), TARGET, named=True)
        findings = Session().check(job, text.encode()).findings
        assert len(findings) >= 400
        assert sum(len(finding.line) for finding in findings) < 1000


def test_a_data_set_that_is_mapped_often_looks_at_no_call_each_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks = 0

    def order(invocation: Invocation) -> int:
        nonlocal looks
        looks += 1
        return invocation.order

    monkeypatch.setattr(called, "_order", order)
    maps = "".join(f"rows = rows.map(lambda row: f{n}(row))\n" for n in range(2_000))
    text = f"from trl import SFTTrainer\n{maps}SFTTrainer('gpt2', train_dataset=rows)\n"
    script = build_script(Source("a.py", text), newest_tables())
    (data,) = script.datasets
    assert len(data.rows) == 2_000
    assert data.effects is not None
    assert looks < 50 * 2_000


def test_the_names_of_a_function_are_collected_once(monkeypatch: pytest.MonkeyPatch) -> None:
    walks = 0

    def counted(nodes: Iterable[ast.AST]) -> list[ast.AST]:
        nonlocal walks
        walks += 1
        return walk(nodes)

    monkeypatch.setattr(name_uses, "walk", counted)
    (function,) = ast.parse("def f(a):\n" + "    b += 1\n" * 30).body
    assert [name_uses.is_local(function, name) for name in "abc" * 10] == [True, True, False] * 10
    assert walks == 1
