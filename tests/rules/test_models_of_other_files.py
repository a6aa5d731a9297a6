"""Models that one file loads and a class of another trains, by the script of a third."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.rules.test_scripts_above import codes, reported

LOADS = """
    import os
    import torch
    from dataclasses import dataclass
    from transformers import AutoModelForCausalLM, AutoModelForMaskedLM, AutoTokenizer

    @dataclass
    class Plan:
        base: str = "{base}"
        rate: float = 1e-5

    def fetch(plan):
        name = {name}
        net = {kind}.from_pretrained(name, torch_dtype=torch.float32).to("cuda")
        return net, AutoTokenizer.from_pretrained(name)
"""
SCORES = """
    class Cost:
        def __init__(self, plan):
            self.plan = plan
        def sum_of(self, net, rows):
            total = 0.0
            for row in rows:
                total = total + self._of(net, row)
            return total
        def _of(self, net, row):
            words = net(row[None]).logits[0].log_softmax(-1)
            return -words.gather(-1, row[:, None]).squeeze(-1).sum()
"""
COACHES = """
    class Coach:
        def __init__(self, net, cost, optimizer):
            self.net, self.cost, self.optimizer = net, cost, optimizer
        def step(self, rows):
            self.net.train()
            loss = self.cost.sum_of(self.net, rows)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
"""
STARTS = """
    import torch
    from coaches import Coach
    from loads import Plan, fetch
    from scores import Cost

    def short(plan):
        net, tokenizer = fetch(plan)
        coach = Coach(net, Cost(plan), torch.optim.AdamW({given}, lr=plan.rate))
        for rows in batches:
            coach.step(rows)

    def long(plan):
        net, tokenizer = fetch(plan)
        coach = Coach(net, Cost(plan), torch.optim.AdamW({given}, lr=plan.rate))
        for rows in more:
            coach.step(rows)

    plan = Plan(rate=2e-5)
    short(plan) if quick else long(plan)
"""
NAMES = {
    "a field": "plan.base",
    "a field unless a variable is set": (
        'os.environ.get("LOCAL", "there") if os.environ.get("USE_LOCAL") == "1" else plan.base'
    ),
    "a field where a variable is not set": 'plan.base if os.getenv("LOCAL") is None else "there"',
}


def parts(name: str, **changed: str) -> dict[str, str]:
    given = {"base": "Qwen/Qwen2.5-0.5B", "kind": "AutoModelForCausalLM", **changed}
    return {
        "pyproject.toml": "",
        "loads.py": LOADS.format(name=name, base=given["base"], kind=given["kind"]),
        "scores.py": SCORES,
        "coaches.py": COACHES,
        "start.py": STARTS.format(given=given.get("given", "net.parameters()")),
    }


@pytest.mark.parametrize("kind", ["AutoModelForCausalLM", "AutoModelForMaskedLM"])
@pytest.mark.parametrize("name", NAMES)
def test_a_helper_that_returns_a_pair_and_a_loss_that_is_given_the_model(
    name: str, kind: str, tmp_path: Path
) -> None:
    """Two functions train what the same call loads, each with an optimizer of its own."""
    found = reported(tmp_path, parts(NAMES[name], kind=kind, base="dllm/Qwen2.5-0.5B-diffusion"))
    assert {"MEM301", "MEM401", "MEM402"} <= codes(found["loads.py"])
    assert {"MEM501", "MEM507"} <= codes(found["start.py"])


def test_of_two_optimizers_one_that_steps_in_one_kernel_already(tmp_path: Path) -> None:
    files = parts("plan.base")
    files["start.py"] = files["start.py"].replace("rate))", "rate, fused=True))", 1)
    assert {"MEM501", "MEM507"} <= codes(reported(tmp_path, files)["start.py"])
    files["start.py"] = files["start.py"].replace("rate))", "rate, fused=True))")
    assert "MEM507" not in codes(reported(tmp_path, files)["start.py"])


@pytest.mark.parametrize(
    "changed",
    [
        {"kind": "AutoModelForMaskedLM", "base": "bert-base-uncased"},
        {"kind": "AutoModelForMaskedLM", "base": "someone/filler"},
    ],
)
def test_encoders_that_fill_in_words_are_no_decoders(
    changed: dict[str, str], tmp_path: Path
) -> None:
    found = reported(tmp_path, parts("plan.base", **changed))
    told = codes(found["loads.py"])
    assert "MEM301" in told  # they keep activations, as all layers do
    assert "MEM401" not in told
    assert "MEM501" not in codes(found["start.py"])


@pytest.mark.parametrize(
    "name",
    [
        'os.environ.get("LOCAL") or plan.base',
        '"there" if os.environ["USE_LOCAL"] == "1" else plan.base',
        '"there" if os.environ.get("USE_LOCAL") != "1" else plan.base',
    ],
)
def test_a_name_that_the_environment_decides(name: str, tmp_path: Path) -> None:
    found = reported(tmp_path, parts(name))
    assert not any("0.5 billion" in one for one in found["start.py"])


@pytest.mark.parametrize("given", ["judge.parameters()", "net.lm_head.parameters()"])
def test_optimizers_of_which_one_steps_something_else(given: str, tmp_path: Path) -> None:
    files = parts("plan.base")
    start = files["start.py"]
    at = start.rindex("net.parameters()")
    files["start.py"] = start[:at] + given + start[at + len("net.parameters()") :]
    found = reported(tmp_path, files)
    assert not {"MEM501", "MEM507"} & codes(found["start.py"])


WRAPS = """
    from torch import nn
    from making import fetch_writer, fetch_trunk

    class Writer(nn.Module):
        def __init__(self, body):
            super().__init__()
            self.body = body
        def words(self, ids):
            return self.body(input_ids=ids).logits
        @classmethod
        def begun(cls, name):
            return cls(fetch_writer(name))
        @classmethod
        def continued(cls, folder):
            return cls(fetch_writer(folder))

    class Judge(nn.Module):
        def __init__(self, name):
            super().__init__()
            self.trunk, self.mark = fetch_trunk(name), nn.Linear(64, 1)
        def forward(self, ids):
            return self.mark(self.trunk(input_ids=ids).last_hidden_state)
"""
MAKES = """
    from transformers import AutoModel, AutoModelForCausalLM

    def _fetch(cls, name, **options):
        return cls.from_pretrained(name, **options)
    def fetch_writer(name):
        return _fetch(AutoModelForCausalLM, name).cuda()
    def fetch_trunk(name):
        return _fetch(AutoModel, name).cuda()
"""
LEARNS = """
    import torch
    class Learner:
        def __init__(self, writer, judge):
            self.writer, self.judge = writer, judge
            self.optimizer = torch.optim.AdamW(self.writer.parameters(), fused=True)
        def scores(self, ids):
            logits = self.writer.words(ids)[:, :-1]
            return logits.log_softmax(-1).gather(-1, ids[:, 1:, None]).squeeze(-1)
        def train_on(self, rows):
            for ids in rows:
                with torch.no_grad():
                    marks = self.judge(ids)
                (-self.scores(ids) * marks).mean().backward()
                self.optimizer.step()
                self.optimizer.zero_grad()
"""
LEARN = """
    from learning import Learner
    from wraps import Judge, Writer
    writer = Writer.continued("there") if again else Writer.begun("Qwen/Qwen3-0.6B")
    Learner(writer, Judge("Qwen/Qwen3-0.6B")).train_on(rows)
"""
WEIGHS = """
    from wraps import Judge, Writer
    for name in names:
        Judge(name).eval()
        Writer.begun(name)
    a, b, c, d = map(Writer.begun, names)
    e = [Writer.begun("a"), Writer.begun("b"), Writer.begun("c"), Judge("d"), Judge("e")]
    if compare: start_training(Trainer(Writer.continued("f")))
"""


@pytest.mark.parametrize("also", ["", WEIGHS])
def test_a_wrapper_whose_model_a_helper_loads_by_a_class_that_it_is_given(
    also: str, tmp_path: Path
) -> None:
    """The same call loads the trunk of another model; and another script that leads there calls
    the helper as often as it is followed."""
    files = {"pyproject.toml": "", "making.py": MAKES, "wraps.py": WRAPS, "learning.py": LEARNS}
    files |= {"learn.py": LEARN} | ({"a_weighing.py": also} if also else {})
    found = reported(tmp_path, files)
    assert "MEM301" in codes(found["making.py"])
    assert "MEM204" in codes(found["learning.py"])


BASE = """
    from transformers import AutoModelForCausalLM
    from scoring import scores_of

    class Agent:
        def __init__(self, name):
            self.policy = AutoModelForCausalLM.from_pretrained(name).cuda()
        def score(self, ids):
            return scores_of(self.policy, ids)
"""
SCORING = """
    def scores_of(model, ids):
        words = model(input_ids=ids).logits[:, :-1].log_softmax(-1)
        return words.gather(-1, ids[:, 1:, None]).squeeze(-1)
    def draw(model, tokenizer, texts):
        rows = tokenizer(texts, return_tensors="pt", padding=True)
        return model.generate(**rows, do_sample=True)
"""
RESTORING = """
    from transformers import AutoModelForCausalLM
    def restore(agent, folder):
        agent.policy = AutoModelForCausalLM.from_pretrained(folder).cuda()
"""
ROUNDS = """
    import torch
    from agents.heir import Heir
    from restoring import restore
    def main():
        agent = Heir(settings.name)
        optimizer = torch.optim.AdamW(agent.policy.parameters(), fused=True)
        if settings.again:
            restore(agent, settings.again)
        agent.policy.train()
        for question in questions:
            {repeated}
            with torch.no_grad():
                ids = {drawn}
            for one in range(settings.group_size):
                loss = {loss}
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
    main()
"""
HEIR = """
    import torch
    from agents.base import Agent
    from scoring import draw
    class Heir(Agent):
        def draw_from(self, texts):
            return draw(self.policy, tokenizer, texts)
        def show(self, texts):
            print(texts)
"""
REPEATED = "asked = [question] * settings.group_size"
DRAWN = "agent.draw_from(asked)"
LOSS = "-(agent.score(ids[one : one + 1]) * advantages[one]).mean()"
PAIR = "-torch.nn.functional.logsigmoid(agent.score(ids[:1]) - agent.score(ids[1:])).mean()"


def rounds(folder: Path, **changed: str) -> dict[str, set[str]]:
    given = {"repeated": REPEATED, "drawn": DRAWN, "loss": LOSS, **changed}
    return reported(
        folder,
        {
            "pyproject.toml": "",
            "agents/__init__.py": "",
            "agents/base.py": BASE,
            "agents/heir.py": HEIR,
            "scoring.py": SCORING,
            "restoring.py": RESTORING,
            "rounds.py": ROUNDS.format(**given),
        },
    )


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"repeated": "asked = [q for q in questions for _ in range(settings.group_size)]"},
        {"drawn": "agent.draw_from(texts=[question] * settings.group_size)"},
    ],
)
def test_a_group_that_a_method_of_another_file_draws(
    changed: dict[str, str], tmp_path: Path
) -> None:
    """The model is of the base class; a run that goes on replaces it by what a third file loads."""
    found = rounds(tmp_path, **changed)
    assert "MEM301" in codes(found["agents/base.py"])
    assert "MEM301" in codes(found["restoring.py"])
    assert "MEM601" in codes(found["rounds.py"])


@pytest.mark.parametrize(
    "changed",
    [
        {"loss": PAIR},  # a pair is no group
        {"repeated": REPEATED + "; agent.show(asked)", "drawn": "agent.draw_from([question])"},
        {"repeated": "asked = [question]"},
    ],
)
def test_what_is_no_group_though_a_method_of_another_file_draws_it(
    changed: dict[str, str], tmp_path: Path
) -> None:
    assert "MEM601" not in codes(rounds(tmp_path, **changed)["rounds.py"])


DECODER = """
    import torch
    from torch import nn
    from torch.nn import functional

    class Decoder(nn.Module):
        def __init__(self, words, width=768):
            super().__init__()
            self.table = nn.Embedding(words, width)
            self.layers = nn.ModuleList([nn.TransformerEncoderLayer(width, 12) for _ in range(12)])
            self.head = nn.Linear(width, words)
        def forward(self, ids, targets=None):
            hidden = self.table(ids)
            for layer in self.layers:
                hidden = layer(hidden)
            return self.head(hidden), None
        @torch.no_grad()
        def generate(self, ids):
            for _ in range(9):
                ids = torch.cat([ids, torch.multinomial(self(ids)[0][:, -1].softmax(-1), 1)], 1)
            return ids
        @classmethod
        def restored(cls, path):
            made = cls(50257)
            made.load_state_dict(torch.load(path, map_location="cpu"))
            return made
    def build(path):
        return Decoder.restored(path)
"""
PREFERS = """
    import copy
    import random
    import torch
    from torch.nn import functional
    from decoder import Decoder, build

    def scores(model, ids):
        logits = model(ids)[0][:, :-1]
        words = functional.log_softmax(logits, dim=-1)
        return words.gather(-1, ids[:, 1:, None]).squeeze(-1).sum(-1)

    def main():
        policy = {made}.to("cuda")
        reference = {copied}
        for weight in reference.parameters():
            weight.requires_grad = False
        optimizer = torch.optim.AdamW(policy.parameters(), lr=1e-6)
        {before}
        for better, worse in batches:
            {within}
            with torch.no_grad():
                gap = scores(reference, better) - scores(reference, worse)
            loss = -functional.logsigmoid({loss}).mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            {after}
    main()
"""


def prefers(folder: Path, **changed: str) -> dict[str, set[str]]:
    given = {
        "made": 'Decoder.restored("weights.pt")',
        "copied": "copy.deepcopy(policy)",
        "before": "pass",
        "within": "pass",
        "after": "pass",
        "loss": "scores(policy, better) - scores(policy, worse) - gap",
        **changed,
    }
    files = {"pyproject.toml": "", "decoder.py": DECODER, "prefers.py": PREFERS.format(**given)}
    return reported(folder, files)


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"made": 'build("weights.pt")', "copied": "copy.deepcopy(policy).eval()"},
        {"within": "better = random.sample(better, 8)"},
        {"before": "shown = policy.generate(prompts)", "made": "Decoder(50257)"},
    ],
)
def test_a_decoder_of_another_file_that_a_loop_compares_with_its_copy(
    changed: dict[str, str], tmp_path: Path
) -> None:
    """What is drawn at random of fixed rows, or before the loop, is nothing new in it."""
    found = prefers(tmp_path, **changed)
    assert {"MEM204", "MEM402", "MEM405"} <= codes(found["prefers.py"])
    assert "MEM402" not in codes(found["decoder.py"])


@pytest.mark.parametrize(
    "changed",
    [
        {"within": "better = policy.generate(better)"},
        {"within": "better = torch.distributions.Categorical(logits=weights).sample()"},
        {"after": "mix(reference.parameters(), policy.parameters())"},
        {"copied": 'Decoder.restored("another.pt")'},
        {
            "loss": "functional.kl_div(policy(better)[0].log_softmax(-1), "
            "reference(better)[0].softmax(-1))"
        },
    ],
)
def test_a_copy_that_a_loop_needs(changed: dict[str, str], tmp_path: Path) -> None:
    assert "MEM405" not in codes(prefers(tmp_path, **changed)["prefers.py"])


def test_another_precision_of_a_decoder_of_another_file(tmp_path: Path) -> None:
    found = prefers(tmp_path, within="torch.set_autocast_enabled('cuda', True)")
    assert "MEM402" not in codes(found["prefers.py"])
