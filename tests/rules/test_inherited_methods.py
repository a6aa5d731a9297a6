"""Steps and losses of class hierarchies: ``super()`` is followed, and bases in other files."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from tests.rules.fixing import found
from tests.rules.test_scripts_above import codes, reported

COACH = """
    class Coach:
        def __init__(self, net, rule, batches):
            self.net, self.rule, self.batches = net, rule, batches
        def work(self):
            self.net.train()
            for batch in self.batches:
                loss = self.cost(batch)
                loss.backward()
                self.rule.step()
                self.rule.zero_grad()
        def cost(self, batch):
            raise NotImplementedError
"""
IMITATES = """
    class Imitates(Coach):
        def run(self, batch):
            return self.net(input_ids=batch["ids"], labels=batch["ids"])
        def cost(self, batch):
            return self.run(batch).loss
"""
PREFERS = """
    import torch
    class Prefers(Coach):
        def __init__(self, net, rule, batches, sharpness):
            super().__init__(net, rule, batches)
            self.sharpness = sharpness
        def scores(self, ids):
            words = self.net(ids).logits[:, :-1].log_softmax(-1)
            return words.gather(-1, ids[:, 1:, None]).squeeze(-1).sum(-1)
        def cost(self, batch):
            gap = self.scores(batch["better"]) - self.scores(batch["worse"])
            return -torch.nn.functional.logsigmoid(self.sharpness * gap).mean()
"""
STARTS = """
    import torch
    from transformers import AutoModelForCausalLM
    {imports}
    net = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B").cuda()
    Imitates(net, torch.optim.AdamW(net.parameters()), load("plain")).work()
    Prefers(net, torch.optim.AdamW(net.parameters()), load("pairs"), 0.1).work()
"""
IMPORTS = "from imitates import Imitates; from prefers import Prefers"
LAYOUTS: dict[str, dict[str, str]] = {
    "one file": {
        "start.py": dedent(COACH + IMITATES + PREFERS) + dedent(STARTS.format(imports="")),
    },
    "a file for each": {
        "coach.py": COACH,
        "imitates.py": "from coach import Coach\n" + dedent(IMITATES),
        "prefers.py": "from coach import Coach\n" + dedent(PREFERS),
        "start.py": STARTS.format(imports=IMPORTS),
    },
    "a package with relative imports": {
        "pyproject.toml": "",
        "school/__init__.py": "",
        "school/coach.py": COACH,
        "school/imitates.py": "from .coach import Coach\n" + dedent(IMITATES),
        "school/prefers.py": "from . import coach\nCoach = coach.Coach\n" + dedent(PREFERS),
        "start.py": STARTS.format(
            imports="from school.imitates import Imitates; from school.prefers import Prefers"
        ),
    },
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_step_of_the_base_runs_the_loss_of_each_class(layout: str, tmp_path: Path) -> None:
    found = reported(tmp_path, LAYOUTS[layout])
    both = set().union(*found.values())
    assert {"MEM201", "MEM204", "MEM301"} <= codes(both)
    if layout == "a file for each":
        assert "MEM201" in codes(found["imitates.py"])
        assert "MEM204" in codes(found["prefers.py"])


def test_a_base_that_runs_without_gradients_trains_nothing(tmp_path: Path) -> None:
    files = dict(LAYOUTS["a file for each"])
    files["coach.py"] = """
        import torch
        class Coach:
            def __init__(self, net, rule, batches):
                self.net, self.rule, self.batches = net, rule, batches
            @torch.no_grad()
            def work(self):
                return [self.cost(batch) for batch in self.batches]
    """
    found = reported(tmp_path, files)
    assert not {"MEM201", "MEM204", "MEM301"} & codes(set().union(*found.values()))


STEP = """
    import torch
    from transformers import AutoModelForCausalLM
    class Plain:
        def __init__(self, net):
            self.net = net
        def answer(self, batch):
            return self.net(**batch)
    class Middle(Plain):
        def __init__(self, net, rate):
            {first}
            self.rule = torch.optim.AdamW(self.net.parameters(), lr=rate)
    class Last(Middle):
        def answer(self, batch):
            {answer}
        def go(self, batches):
            self.net.train()
            for batch in batches:
                {step}
                self.rule.step()
                self.rule.zero_grad()
    net = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B").cuda()
    Last(net, 1e-4).go(load())
"""
HELD = "out = self.answer(batch); out.loss.backward()"
SUPERS = {
    "a constructor, and a method of a base of the base": (
        "super().__init__(net)",
        "return super().answer(batch)",
        HELD,
    ),
    "spelled out": (
        "super(Middle, self).__init__(net=net)",
        "return super(Last, self).answer(batch)",
        HELD,
    ),
    "what it returns is read there": (
        "super().__init__(net)",
        "out = super().answer(batch); print(out.loss.item()); return out",
        HELD,
    ),
}


@pytest.mark.parametrize("shape", SUPERS)
def test_what_super_stands_for_is_run(shape: str, tmp_path: Path) -> None:
    first, answer, step = SUPERS[shape]
    script = STEP.format(first=first, answer=answer, step=step)
    assert {"MEM201", "MEM301", "MEM307"} <= codes(reported(tmp_path, {"a.py": script})["a.py"])


def test_what_super_stands_for_frees_its_outputs(tmp_path: Path) -> None:
    """The method of the base hands on the loss alone, and turns checkpointing on before."""
    script = STEP.format(
        first="super().__init__(net); net.gradient_checkpointing_enable()",
        answer="return super().answer(batch).loss",
        step="self.answer(batch).backward()",
    )
    assert not {"MEM301", "MEM307"} & codes(reported(tmp_path, {"a.py": script})["a.py"])


METER = """
    class {name}:
        def __init__(self):
            self.restart()
        def restart(self):
            self.total, self.seen = 0, 0
        def {method}(self, value, times=1):
            {body}
"""
LOOP = """
    import torch
    from transformers import AutoModelForCausalLM
    {imports}
    net = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B").cuda()
    rule = torch.optim.AdamW(net.parameters())
    {kept} = {made}
    for batch in batches:
        loss = net(**batch).loss
        loss.backward()
        rule.step()
        rule.zero_grad()
        {call}
"""
ADDS = "self.total += value * times; self.seen += times"
METERS = {
    "a mean": ("Mean", "update", ADDS, "mean", "mean.update(loss, len(batch))"),
    "written out": ("Sum", "add", "self.total = self.total + value", "sums", "sums.add(loss)"),
    "parts of losses": ("Mean", "update", ADDS, "kept", "kept.update(loss / 4)"),
}


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("shape", METERS)
def test_losses_that_a_meter_adds_up(shape: str, *, apart: bool, tmp_path: Path) -> None:
    name, method, body, kept, call = METERS[shape]
    meter = dedent(METER.format(name=name, method=method, body=body))
    imports = f"from meters import {name}" if apart else ""
    script = dedent(LOOP.format(imports=imports, kept=kept, made=f"{name}()", call=call))
    files = {"meters.py": meter, "go.py": script} if apart else {"go.py": meter + script}
    found = reported(tmp_path, files)["go.py"]
    assert any(one.startswith("MEM701") and f"`{kept}." in one for one in found)


@pytest.mark.parametrize(
    ("body", "call"),
    [
        ("self.total += value.item() * times", "mean.update(loss)"),
        ("value = float(value); self.total += value", "mean.update(loss)"),
        ("self.total = value", "mean.update(loss)"),
        ("self.seen += times", "mean.update(loss)"),
        (ADDS, "mean.update(loss.detach())"),
        (ADDS, "mean.update(len(batch))"),
        (ADDS, "mean.update(loss); mean.restart()"),
        (ADDS, "mean = Mean(); mean.update(loss)"),
    ],
)
def test_meters_that_keep_no_graph(body: str, call: str, tmp_path: Path) -> None:
    meter = dedent(METER.format(name="Mean", method="update", body=body))
    script = dedent(LOOP.format(imports="", kept="mean", made="Mean()", call=call))
    assert "MEM701" not in codes(reported(tmp_path, {"go.py": meter + script})["go.py"])


@pytest.mark.parametrize("above", ["Coach", "Between"])
def test_a_class_that_nobody_makes_has_what_the_constructor_of_its_base_sets(above: str) -> None:
    text = f"""\
import torch
from transformers import AutoModelForCausalLM
class Coach:
    def __init__(self, batches):
        self.net = AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B").cuda()
        self.rule = torch.optim.AdamW(self.net.parameters())
        self.batches = batches
    def work(self):
        self.net.train()
        for batch in self.batches:
            self.net(**batch).loss.backward()
            self.rule.step()
            self.rule.zero_grad()
class Between(Coach):
    pass
class Speaks({above}):
    def work(self):
        super().work()
        print("done")
"""
    assert {"MEM201", "MEM301"} <= {one.code for one in found(text, "MEM201", "MEM301")}
