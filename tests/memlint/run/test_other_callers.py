"""Safe fixes of what several scripts run."""

from __future__ import annotations

from pathlib import Path

import pytest
from memlint_rules.logits import mem208_unread_loss

from memlint.project.config import Settings
from memlint.rule import facts, registry
from memlint.run.jobs import Job
from memlint.run.session import Session

STEPS = """
import torch


@torch.no_grad()
def predict(model, batch):
    outputs = model(batch["input_ids"], labels=batch["labels"])
    return outputs.logits.argmax(-1)


def show(rows):
    print(len(rows))
"""
SCRIPT = """
from transformers import {kind}
from steps import predict, show

if __name__ == "__main__":
    model = {kind}.from_pretrained("{name}").cuda()
    for batch in loader:
        show(predict(model, batch))
"""
GPT = {"kind": "AutoModelForCausalLM", "name": "gpt2"}
T5 = {"kind": "AutoModelForSeq2SeqLM", "name": "google/flan-t5-base"}
ALONE = SCRIPT.replace("predict, show", "show").partition("    model")[0] + "    show(loader)\n"
# A script that others import, too.
BOTH = STEPS + SCRIPT.replace("from steps import predict, show\n", "")


def _found(folder: Path, files: dict[str, str], name: str = "steps.py") -> tuple[str, str]:
    for each, text in {"pyproject.toml": "", **files}.items():
        (folder / each).write_text(text)
    script = folder / name
    job = Job(str(script), registry.selected(["MEM208"]), Settings().target)
    result = Session().check(job, script.read_bytes())
    assert result.diagnostics == ()
    [found] = result.findings
    assert found.fix is not None
    return found.fix.applicability, found.fix.message


@pytest.mark.parametrize(
    ("others", "wanted"),
    [
        ({}, ("safe", "Remove `labels`")),
        ({"b.py": SCRIPT.format(**GPT)}, ("safe", "Remove `labels`")),
        ({"b.py": ALONE.format(**T5)}, ("safe", "Remove `labels`")),
        (
            {"b.py": SCRIPT.format(**T5)},
            ("unsafe", "Remove `labels`, if that is right for `b.py`, too"),
        ),
        (
            {f"{name}.py": SCRIPT.format(**GPT) for name in "bcdefghijklmnopq"},
            ("unsafe", "Remove `labels`, if that is right for `q.py`, too"),
        ),
    ],
)
def test_each_caller_is_asked(
    others: dict[str, str], wanted: tuple[str, str], tmp_path: Path
) -> None:
    files = {"steps.py": STEPS, "a.py": SCRIPT.format(**GPT), **others}
    assert _found(tmp_path, files) == wanted


def test_callers_of_a_script_are_asked(tmp_path: Path) -> None:
    other = SCRIPT.format(**T5).replace("steps", "a")
    files = {"a.py": BOTH.format(**GPT), "b.py": other}
    assert _found(tmp_path, files, "a.py")[0] == "unsafe"
    files["b.py"] = other.replace("predict, ", "").replace("predict(model, batch)", "batch")
    assert _found(tmp_path, files, "a.py")[0] == "safe"


def test_a_rule_that_fails_for_another_caller_costs_no_more_than_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was found of the first caller is said, and its fix is none that is called safe."""
    asked: list[facts.Forward] = []
    computes = mem208_unread_loss._computes_loss

    def failing(forward: facts.Forward) -> bool:
        asked.append(forward)
        return computes(forward) if len(asked) == 1 else bool(1 / 0)

    monkeypatch.setattr(mem208_unread_loss, "_computes_loss", failing)
    for name in ("a", "b"):
        (tmp_path / f"{name}.py").write_text(SCRIPT.format(**GPT))
    (tmp_path / "steps.py").write_text(STEPS)
    (tmp_path / "pyproject.toml").write_text("")
    script = tmp_path / "steps.py"
    job = Job(str(script), registry.selected(["MEM208"]), Settings().target)
    result = Session().check(job, script.read_bytes())
    assert len(asked) == 2
    assert [each.fix and each.fix.applicability for each in result.findings] == ["unsafe"]
    assert "ZeroDivisionError" in result.diagnostics[0].message
