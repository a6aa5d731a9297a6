"""A function that is one of several, of this file or of another: each is followed."""

from __future__ import annotations

from pathlib import Path

import pytest

from memlint.project.config import Settings
from memlint.rule import registry
from memlint.run.jobs import Job
from memlint.run.session import Session

LOSSES = """
import torch


def plain(model, batch):
    logits = model(batch["ids"]).logits[:, :-1]
    return -logits.log_softmax(-1).gather(-1, batch["ids"][:, 1:].unsqueeze(-1)).mean()


def weighted(model, batch):
    logits = model(batch["ids"]).logits[:, :-1]
    chosen = logits.log_softmax(-1).gather(-1, batch["ids"][:, 1:].unsqueeze(-1))
    return -(chosen.squeeze(-1) * batch["weights"]).mean()


def small(model, batch):
    return model(batch["ids"]).mean()
"""
LOOP = """
import torch
from transformers import AutoModelForCausalLM
{imports}

model = AutoModelForCausalLM.from_pretrained("my/base").to("cuda")
optimizer = torch.optim.AdamW(model.parameters())
loss_of = {chosen}
for batch in loader:
    loss_of(model, batch).backward()
    optimizer.step()
    optimizer.zero_grad()
"""
CHOICES = {
    "by a condition": "weighted if settings.weights else plain",
    "from a dict": '{"plain": plain, "weighted": weighted}[settings.loss]',
}


def codes(script: str, folder: Path) -> list[str]:
    """Return what is found in a script of a project that has a module of losses."""
    (folder / "pyproject.toml").write_text("")
    (folder / "losses.py").write_text(LOSSES)
    path = folder / "learn.py"
    path.write_text(script)
    asked = Job(str(path), registry.selected(["MEM301"]), Settings().target)
    return [each.code for each in Session().check(asked, path.read_bytes()).findings]


@pytest.mark.parametrize("how", CHOICES)
@pytest.mark.parametrize("elsewhere", [True, False])
def test_each_of_several_functions_is_followed(how: str, elsewhere: bool, tmp_path: Path) -> None:
    imports = "from losses import plain, weighted" if elsewhere else LOSSES
    assert codes(LOOP.format(imports=imports, chosen=CHOICES[how]), tmp_path) == ["MEM301"]


def test_one_of_a_dict_that_may_hold_others_is_not_known(tmp_path: Path) -> None:
    chosen = '{"plain": plain, **more}[settings.loss]'
    script = LOOP.format(imports="from losses import plain", chosen=chosen)
    assert codes(script, tmp_path) == []
