"""A fix that needs a line of its own is advice in every format where there is none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from memlint.cli.main import run

SCRIPT = """\
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-4B", use_cache=False)
args = TrainingArguments("out", per_device_train_batch_size=8)
{}
"""
MADE = "trainer = Trainer(model, args=args, train_dataset=data)"


@pytest.mark.parametrize(
    ("lines", "safe"),
    [
        (f"{MADE}\ntrainer.train()", True),
        (f"{MADE};  # made\ntrainer.train()", True),
        (f"if True:\n    {MADE}\ntrainer.train()", True),
        (f"{MADE}; trainer.train()", False),
        (f"x = 1; {MADE}\ntrainer.train()", False),
        (f"if True: {MADE}\ntrainer.train()", False),
    ],
)
def test_every_format_says_whether_a_fix_applies(
    lines: str,
    safe: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    text = SCRIPT.format(lines)
    Path("a.py").write_text(text)
    options = ["a.py", "--no-cache", "--select", "MEM201", "--target", "newest"]
    shown = {}
    for name in ("concise", "full", "json"):
        run(["check", "--exit-zero", "--output-format", name, *options])
        shown[name] = capsys.readouterr().out
    assert ("MEM201 [*]" in shown["concise"]) is safe
    assert ("1 fixable" in shown["concise"]) is safe
    assert ("MEM201 [*]" in shown["full"]) is safe
    assert (json.loads(shown["json"])[0]["fix"]["applicability"] == "safe") is safe
    run(["fix", *options])
    assert (Path("a.py").read_text() != text) is safe
