"""Settings of a class of fields, which a file or the environment fills: defaults decide nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.rules.test_scripts_above import codes, reported

PLAN = """
    {imported}
    {decorated}
    class Tuning{base}:
        name: str = "Qwen/Qwen3-0.6B"
        rate: float = 1e-5
    {decorated}
    class Plan{base}:
        tuning: Tuning | None = None
        rows: int = 8
"""
READS = """
        @classmethod
        def read(cls, place):
            with open(place) as file:
                told = yaml.safe_load(file) or {{}}
            return cls(**told)
"""
COACH = """
    import torch
    class Coach:
        def __init__(self, net, plan, device=None):
            self.net, self.plan = net, plan
            self.net.to(device or torch.device("cuda"))
            self.steps = torch.optim.AdamW(self.net.parameters(), lr=plan.rate)
        def step(self, ids, labels):
            self.net.train()
            told = self.net(input_ids=ids, labels=labels)
            told.loss.backward()
            self.steps.step()
            self.steps.zero_grad()
            return told.loss.item()
        def work(self, batches):
            return [self.step(*batch) for batch in batches]
        def learn(self, batches):
            for ids, labels in batches:
                self.step(ids, labels)
"""
START = """
    import json, sys
    import yaml
    from transformers import AutoModelForCausalLM
    from coach import Coach
    from plan import Plan
    def main(place):
        plan = {made}
        if not plan.tuning:
            raise ValueError("nothing to tune")
        net = AutoModelForCausalLM.from_pretrained(plan.tuning.name)
        coach = Coach(net, plan.tuning)
        coach.learn(batches)
    if __name__ == "__main__":
        main(sys.argv[1])
"""
PYDANTIC = PLAN.format(imported="from pydantic import BaseModel", decorated="", base="(BaseModel)")
PLAIN = PLAN.format(imported="from dataclasses import dataclass", decorated="@dataclass", base="")
SETTINGS = PLAN.format(
    imported="from pydantic_settings import BaseSettings", decorated="", base="(BaseSettings)"
)
BY_METHOD = "    import yaml\n" + PYDANTIC.format() + READS.format()


@pytest.mark.parametrize(
    ("plan", "made", "told"),
    [
        (PYDANTIC, "Plan(**yaml.safe_load(open(place)))", True),
        (PLAIN, "Plan(**json.load(open(place)))", True),
        (BY_METHOD, "Plan.read(place)", True),
        (SETTINGS, "Plan()", True),
        (PYDANTIC, "Plan()", False),
        (PLAIN, "Plan(rows=4)", False),
    ],
)
def test_what_fills_a_class_decides(plan: str, made: str, *, told: bool, tmp_path: Path) -> None:
    files = {"plan.py": plan, "coach.py": COACH, "go.py": START.format(made=made)}
    found = reported(tmp_path, {"pyproject.toml": "", **files})
    assert ("MEM301" in codes(found["go.py"])) is told
    assert ("MEM201" in codes(found["coach.py"])) is told
