"""The playground answers what the command line answers, and its page has what its script asks."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tools import playground
from tools.playground.answer import answer, choices, report

SCRIPTS = {path.stem: path for path in playground.examples()}
PAGE = Path(playground.__file__).parent


@pytest.mark.parametrize("name", ["grpo_long_prompts", "hand_written_loop", "sft_2023"])
def test_findings_and_fixes_are_those_of_the_command_line(name: str, tmp_path: Path) -> None:
    text = SCRIPTS[name].read_text(encoding="utf-8")
    found = json.loads(answer(text, "trl=1.16.0,transformers=5.23.0", "rtx4090-24gb"))
    (tmp_path / "script.py").write_text(text, encoding="utf-8")
    options = ["--isolated", "--target", "trl=1.16.0,transformers=5.23.0"]

    def run(*arguments: str) -> str:
        command = [sys.executable, "-m", "memlint", *arguments, *options]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True).stdout

    shown = ("--output-format", "json", "--no-cache", "--gpu", "rtx4090-24gb")
    of_command = json.loads(run("check", "script.py", *shown) or "[]")
    for finding in (*found["findings"], *of_command):
        del finding["filename"]
    assert found["findings"] == of_command
    run("fix", "script.py")
    assert found["safe"] == (tmp_path / "script.py").read_text(encoding="utf-8")


def test_memory_is_told_before_and_after_the_fixes() -> None:
    text = SCRIPTS["sft_2023"].read_text(encoding="utf-8")
    told = json.loads(answer(text, "newest", "rtx4090-24gb"))
    before, after = (told[name]["allocated"]["estimate"] for name in ("memory", "safe_memory"))
    assert after < before / 2
    assert told["memory"]["gpu"]["name"] == "rtx4090-24gb"


def test_a_script_that_does_not_parse_is_a_finding() -> None:
    told = json.loads(answer("import trl\ndef f(:\n", "newest", "rtx4090-24gb"))
    assert [finding["code"] for finding in told["findings"]] == ["MEM002"]
    assert told["memory"] is None
    assert told["safe"] == told["all"] == "import trl\ndef f(:\n"


def test_the_newest_release_is_offered_first() -> None:
    offered = json.loads(choices())
    assert offered["trl"][0] == "1.16.0"
    assert "rtx4090-24gb" in offered["gpus"]
    assert len(offered["gpus"]) == len(set(offered["gpus"]))


def test_the_page_has_every_part_that_its_script_asks_for() -> None:
    html = (PAGE / "index.html").read_text(encoding="utf-8")
    script = (PAGE / "playground.mjs").read_text(encoding="utf-8")
    asked = set(re.findall(r'at\("([\w-]+)"\)', script))
    assert asked
    assert asked <= set(re.findall(r'id="([\w-]+)"', html))
    assert set(re.findall(r'aria-controls="(\w+)"', html)) <= set(re.findall(r'id="(\w+)"', html))


def test_the_script_of_reports_may_run_in_the_page() -> None:
    page = report("import trl\n", "newest", "a100-80gb")
    assert f"script-src {playground.report_script()}" in page


def test_what_is_packed_is_python_and_data_alone(tmp_path: Path) -> None:
    (tmp_path / "click").mkdir()
    (tmp_path / "click" / "core.py").touch()
    (tmp_path / "click" / "fast.so").touch()
    (tmp_path / "click-8.dist-info").mkdir()
    names = {name for _, name in playground.packed_files(tmp_path)}
    assert {"answer.py", "memlint/cli/main.py", "memlint_rules/__init__.py"} <= names
    assert {name for name in names if name.startswith("click")} == {"click/core.py"}
    assert "memlint/api/data/trl.table" in names
