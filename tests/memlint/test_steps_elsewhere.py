"""Loops whose backward pass runs in another file of the project, as ``memlint check`` sees them."""

from __future__ import annotations

from pathlib import Path

import pytest

from memlint.project.config import Settings
from memlint.rule import registry
from memlint.run.jobs import Job
from memlint.run.session import Session

STEPS = """
def log_probabilities(model, ids, labels):
    logits = model(ids).logits
    return logits.log_softmax(-1).gather(-1, labels.unsqueeze(-1)).squeeze(-1)


def step(log_probs, mask):
    loss = -(log_probs * mask).sum()
    loss.backward()
    return loss
"""
LOOP = """
import torch
from transformers import AutoModelForCausalLM
{imports}

model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-0.5B").to("cuda")
optimizer = torch.optim.AdamW(model.parameters())
for ids, labels, mask in batches:
    log_probs = steps.log_probabilities(model, ids, labels)
    steps.step(log_probs, mask)
    optimizer.step()
    optimizer.zero_grad()
"""
IMPORTS = {
    "a script": ("import steps", {}),
    "a module that trains as it is imported": ("from . import steps", {"__init__.py": ""}),
    "a script that may be a module": (
        "try:\n    import steps\nexcept ImportError:\n    from . import steps",
        {},
    ),
}


@pytest.mark.parametrize("how", IMPORTS)
def test_a_loop_is_one_wherever_its_backward_pass_runs(how: str, tmp_path: Path) -> None:
    imports, files = IMPORTS[how]
    for name, text in {"pyproject.toml": "", "steps.py": STEPS, **files}.items():
        (tmp_path / name).write_text(text)
    script = tmp_path / "train.py"
    script.write_text(LOOP.format(imports=imports))
    codes = registry.selected(["MEM301"])
    result = Session().check(Job(str(script), codes, Settings().target), script.read_bytes())
    assert [(each.code, each.start.row) for each in result.findings] == [
        (
            "MEM301",
            script.read_text()
            .splitlines()
            .index('model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-0.5B").to("cuda")')
            + 1,
        )
    ]
