"""What Hydra composes of the files that are there, where one of a group is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from memlint.project.config import Settings
from memlint.rule import registry
from memlint.run.jobs import Job
from memlint.run.session import Session

SCRIPT = """
import hydra
import ways
from transformers import AutoModelForCausalLM


@hydra.main(version_base=None, config_path="conf", config_name="run")
def main(settings):
    model = AutoModelForCausalLM.from_pretrained(settings.model.name).to("cuda")
    way = getattr(ways, settings.{key})
    way(model, loader)


main()
"""
WAYS = """
import torch


def one(model, loader):
    optimizer = torch.optim.AdamW(model.parameters())
    for batch in loader:
        model(**batch).loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def other(model, loader):
    for batch in loader:
        model(**batch)
"""
FILE = "way: {way}\ndefaults:\n- _self_\n- model: {model}\n"


@pytest.mark.parametrize(
    ("way", "model", "key", "found"),
    [
        ("one", "missing", "way", ["MEM301"]),
        ("one", "small", "way", ["MEM301"]),
        ("other", "missing", "way", []),
        ("one", "missing", "model.way", []),
    ],
)
def test_a_group_that_is_not_there_hides_itself_alone(
    way: str, model: str, key: str, found: list[str], tmp_path: Path
) -> None:
    files = {
        "pyproject.toml": "",
        "ways.py": WAYS,
        "conf/run.yaml": FILE.format(way=way, model=model),
        "conf/model/small.yaml": "name: my/base\n",
        "run.py": SCRIPT.format(key=key),
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    script = tmp_path / "run.py"
    asked = Job(str(script), registry.selected(["MEM301"]), Settings().target)
    result = Session().check(asked, script.read_bytes())
    assert [each.code for each in result.findings] == found
