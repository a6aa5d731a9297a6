"""Notebooks that were exported as scripts: their magics are masked, and stay as they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from memlint.cli.main import run
from memlint.project.own_pins import own_pins
from memlint.source.reading import encode, read_source

EXPORT = """\
# -*- coding: utf-8 -*-
!pip install -q trl==0.20.0 \\
   transformers==4.53.0
%cd /content
from trl import SFTConfig, SFTTrainer
if True:
    !nvidia-smi
args = SFTConfig("out", evaluation_strategy="steps")
files = !ls
print("memlint-magic", %LINE
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_an_export_is_read_and_written_as_it_was(newline: str) -> None:
    text = EXPORT.replace("%LINE", "1)").replace("\n", newline)
    data = text.encode()
    source = read_source("n.py", data)
    compile(source.text, "n.py", "exec")
    assert encode(source, source.text) == data
    assert encode(source, source.text + "x = 1\n") == data + b"x = 1\n"
    assert dict(own_pins(source)) == {"trl": "==0.20.0", "transformers": "==4.53.0"}


@pytest.mark.parametrize("text", [EXPORT, "!pip install trl\nx = (\n", "x = '''\n!ls\n'''\n"])
def test_what_is_no_export_is_left(text: str) -> None:
    source = read_source("n.py", text.encode())
    assert (source.text, source.masked) == (text, "")


def test_an_export_is_checked_and_fixed_in_its_own_lines(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = EXPORT.replace("%LINE", "1)")
    (here / "n.py").write_text(text)
    run(["check", "--no-cache", "--output-format", "concise", "--select", "MEM901", "n.py"])
    assert "n.py:8:25: MEM901" in capsys.readouterr().out
    run(["fix", "--no-cache", "--select", "MEM901", "--diff", "n.py"])
    shown = capsys.readouterr().out
    assert '+args = SFTConfig("out", eval_strategy="steps")' in shown
    assert " files = !ls" in shown
    assert "memlint-magic-" not in shown
    run(["fix", "--no-cache", "--select", "MEM901", "n.py"])
    assert (here / "n.py").read_text() == text.replace("evaluation_strategy", "eval_strategy")
