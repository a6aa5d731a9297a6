"""Language models of a script's own whose sizes stand in settings that nobody can follow."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from tests.rules.test_scripts_above import codes, reported

NET = """
    import torch
    from torch import nn
    class Layer(nn.Module):
        def __init__(self, plan):
            super().__init__()
            self.mix = nn.Linear(plan.width, plan.width)
        def forward(self, x):
            return x + self.mix(x)
    class Writer(nn.Module):
        def __init__(self, plan):
            super().__init__()
            self.table = nn.Embedding(plan.vocab_size, plan.width)
            self.layers = nn.ModuleList([Layer(plan) for _ in range(plan.depth)])
            self.head = nn.Linear(plan.width, {size}, bias=False)
        def forward(self, ids):
            x = self.table(ids)
            for layer in self.layers:
                x = layer(x)
            return self.head(x)
"""
WORK = """
    import json, sys
    from types import SimpleNamespace
    import torch
    from writer import Writer
    writer = Writer(SimpleNamespace(**json.load(open(sys.argv[1])))).cuda()
    rule = torch.optim.AdamW(writer.parameters())
    for ids, wanted in batches:
        scores = writer(ids)
        cost = torch.nn.functional.cross_entropy(scores.flatten(0, 1), wanted.flatten())
        cost.backward()
        rule.step()
        rule.zero_grad()
"""
SIZES = {
    "json": {"sizes/small.json": '{"vocab_size": 50304, "width": 768, "depth": 12}'},
    "yaml": {"sizes/small.yaml": "model:\n  vocab_size: 32000\n  width: 768\n"},
    "python": {"sizes.py": "class Plan:\n    vocab_size: int = 151_936\n    width: int = 512\n"},
}
TOLD = {"MEM201", "MEM301", "MEM307"}


def found(folder: Path, files: dict[str, str], size: str = "plan.vocab_size") -> set[str]:
    written = {"pyproject.toml": "", "writer.py": NET.format(size=size), "go.py": WORK, **files}
    return codes(set().union(*reported(folder, written).values()))


@pytest.mark.parametrize("where", SIZES)
def test_settings_of_the_project_have_numbers_of_words(where: str, tmp_path: Path) -> None:
    assert found(tmp_path, SIZES[where]) >= TOLD


def test_other_things_than_characters_are_sorted(tmp_path: Path) -> None:
    cuts = {"cuts.py": "def cuts(ends):\n    return sorted(set(ends))\n"}
    assert found(tmp_path, SIZES["json"] | cuts) >= TOLD


LAYERS = """
    import torch
    from torch import nn
    class Table(nn.Module):
        def __init__(self, num_embeddings, embedding_dim, device=None):
            super().__init__()
            self.rows = num_embeddings
            self.weight = nn.Parameter(torch.empty(num_embeddings, embedding_dim, device=device))
        def forward(self, ids):
            picked = torch.nn.functional.one_hot(ids.long(), num_classes=self.rows).float()
            return torch.einsum("bsv,vd->bsd", picked, self.weight)
    class Product(nn.Module):
        def __init__(self, in_features, out_features, device=None):
            super().__init__()
            self.weight = nn.Parameter(torch.empty(out_features, in_features, device=device))
        def forward(self, x):
            return torch.einsum("...i,oi->...o", x, self.weight)
"""


NAMED_OTHERWISE = """
    import torch
    from torch import Tensor, nn
    class Rows(nn.Module):
        def __init__(self, count, width):
            super().__init__()
            self.weight: Tensor = nn.Parameter(torch.empty(count, width), requires_grad=True)
        def forward(self, ids):
            return self.weight[ids, :]
    class Turn(nn.Module):
        def __init__(self, d_in, d_out):
            super().__init__()
            self.weight: Tensor = nn.Parameter(torch.empty(d_out, d_in))
        def forward(self, x):
            return {product}
"""


@pytest.mark.parametrize(
    ("product", "told"),
    [
        ("torch.einsum('...i,oi->...o', x, self.weight)", True),
        ("x @ self.weight.T", True),
        ("nn.functional.linear(x, self.weight)", True),
        ("x + self.weight.sum()", False),
    ],
)
def test_layers_whose_weights_have_annotations(product: str, told: bool, tmp_path: Path) -> None:
    net = "    from layers import Rows, Turn\n" + NET.format(size="plan.vocab_size")
    net = net.replace("nn.Embedding(", "Rows(").replace(
        "nn.Linear(plan.width, plan.v", "Turn(plan.width, plan.v"
    )
    files = {"layers.py": NAMED_OTHERWISE.format(product=product), **SIZES["yaml"]}
    assert (
        found(tmp_path, {"writer.py": net.replace(", bias=False", ""), **files}) >= TOLD
    ) is told


@pytest.mark.parametrize(("table", "told"), [("Table", True), ("Product", False)])
def test_a_table_of_the_scripts_own_that_multiplies(table: str, told: bool, tmp_path: Path) -> None:
    net = "    from layers import Table, Product\n" + NET.format(size="plan.vocab_size")
    net = net.replace("nn.Embedding(", f"{table}(").replace(
        "nn.Linear(plan.width, plan.v", "Product(plan.width, plan.v"
    )
    net = net.replace(", bias=False", "")
    files = {"writer.py": net, "layers.py": LAYERS, **SIZES["yaml"]}
    assert (found(tmp_path, files) >= TOLD) is told


PROBE = """
    import torch
    def probe_{number}(writer):
        with torch.no_grad():
            writer(torch.zeros(1, 1)).mean().item()
"""


def test_evaluation_does_not_use_up_the_passes_that_train(tmp_path: Path) -> None:
    numbers = range(8)
    probes = dedent("".join(PROBE.format(number=one) for one in numbers))
    runs = "".join(f"    probe_{one}(writer)\n" for one in numbers)
    work = WORK.replace("    rule =", f"{runs}    rule =").replace(
        "    import json", "    from probes import *\n    import json"
    )
    assert found(tmp_path, {"go.py": work, "probes.py": probes, **SIZES["json"]}) >= TOLD


@pytest.mark.parametrize(
    ("files", "size"),
    [
        ({}, "plan.vocab_size"),
        ({"sizes/small.json": '{"vocab_size": 65, "width": 384}'}, "plan.vocab_size"),
        (SIZES["json"], "plan.classes"),
        (SIZES["json"], "plan.tag_vocab_size"),
        (
            {**SIZES["json"], "letters.py": dedent("vocab = sorted(list(set(text)))")},
            "plan.vocab_size",
        ),
        ({**SIZES["json"], "letters.py": "all = sorted(set(book.read()))"}, "plan.vocab_size"),
    ],
)
def test_models_of_which_nobody_knows_that_they_have_words(
    files: dict[str, str], size: str, tmp_path: Path
) -> None:
    assert not found(tmp_path, files, size) & TOLD
