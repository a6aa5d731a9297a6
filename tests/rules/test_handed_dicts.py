"""A dict of options that other code gets too is renamed unsafely, unless that asks for others."""

from __future__ import annotations

from pathlib import Path

import pytest

from memlint.cli.main import run

SCRIPT = """\
import json
import logging
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
import ours

logger = logging.getLogger("x")


def looks(values, depth):
    deeper(values)
    return [values[key] for key in sorted(values)]


def deeper(values):
    return values["output_dir"]


def hands_on(values):
    ours.keep(values)


options = {"output_dir": "out", "evaluation_strategy": "no"}
LINE
net = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-8B", dtype="bfloat16")
Trainer(net, TrainingArguments(**options), train_dataset=rows).train()
"""

# What is done with the dict beside -> whether the rename is safe.
USES = {
    "": True,
    "print(options, len(options))": True,
    "json.dump(options, open('a', 'w'))": True,
    "logger.info('with %s', options)": True,
    "looks(options, depth=1)": True,
    "looks(depth=1, values=options)": True,
    "hands_on(options)": False,
    "ours.keep(options)": False,
    "ours.keep(**options)": True,
    "ours.ignore(options)": True,
    "unknown(options)": False,
    "[each(options) for each in callbacks]": False,
}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text("")
    (tmp_path / "ours.py").write_text(
        "def keep(given):\n    return given['evaluation_strategy']\n"
        "def ignore(given):\n    return given['output_dir']\n"
    )
    return tmp_path


@pytest.mark.parametrize("line", USES)
def test_a_rename_is_safe_where_nobody_else_asks(here: Path, line: str) -> None:
    script = here / "fit.py"
    script.write_text(SCRIPT.replace("LINE", line))
    run(["fix", "--no-cache", "--target", "newest", "--select", "MEM901", "fit.py"])
    assert ("eval_strategy" in script.read_text()) is USES[line]


# What another file holds or makes -> whether the run certainly stops at the option.
ELSEWHERE = {
    "OPTIONS = {'output_dir': 'out', 'evaluation_strategy': 'no'}": True,
    "OPTIONS = dict(output_dir='out', evaluation_strategy='no')": True,
    "OPTIONS = {'output_dir': 'out'}\nOPTIONS['evaluation_strategy'] = 'no'": True,
    "OPTIONS = {'output_dir': 'out'}\nif old():\n    OPTIONS['evaluation_strategy'] = 'no'": False,
    "OPTIONS = {'output_dir': 'out', 'evaluation_strategy': 'no'}\n"
    "if not old():\n    OPTIONS['eval_strategy'] = OPTIONS.pop('evaluation_strategy')": False,
    "OPTIONS = {'output_dir': 'out', 'eval_strategy': 'no'}": False,
}


@pytest.mark.parametrize("text", ELSEWHERE)
def test_an_option_that_another_file_gives_is_told_at_the_call(
    here: Path, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "ours.py").write_text(f"{text}\n")
    fit = "from transformers import TrainingArguments\nimport ours\n\n"
    fit += "args = TrainingArguments(**ours.OPTIONS)\n"
    (here / "fit.py").write_text(fit)
    run(["check", "--no-cache", "--target", "newest", "--select", "MEM901", "-q"])
    assert ("fit.py:4:8: MEM901" in capsys.readouterr().out) is ELSEWHERE[text]
    assert run(["fix", "--no-cache", "--target", "newest", "--select", "MEM901"]) == ELSEWHERE[text]
    assert (here / "fit.py").read_text() == fit, "what another file holds is advice here"
