"""Models of a script's own classes: their weights exactly, their layers as the model has them."""

from __future__ import annotations

from typing import Any

import pytest

from memlint.api.lookup import Api
from memlint.api.target_versions import newest
from memlint.memory import estimate
from memlint.runs.run_settings import settings_of
from memlint.script.model import build_script
from memlint.source import Source

ATTENTION = """
import torch
from torch import nn
from torch.nn import functional as F

class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        {maps}
        self.out = nn.Linear(width, width, bias=False)

    def forward(self, x):
        return self.out({scores})
"""
MODEL = """
class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.attention = Attention(width, heads)
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.mlp = nn.Sequential({mlp})

    def forward(self, x):
        x = x + self.attention(self.norms[0](x))
        return x + self.mlp(self.norms[1](x))

class Decoder(nn.Module):
    def __init__(self, words=1000, longest=64, width=32, heads=4, depth=3):
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.places = nn.Embedding(longest, width)
        {blocks}
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, words, bias=False)
        {tied}

    def forward(self, ids, targets):
        x = self.words(ids) + self.places(torch.arange(ids.size(1)))
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1))

model = Decoder().cuda()
optimizer = torch.optim.AdamW(model.parameters())
for ids, targets in loader:
    loss = model(ids, targets)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""
FUSED = "self.qkv = nn.Linear(width, 3 * width, bias=False)"
APART = "\n        ".join(f"self.{one} = nn.Linear(width, width, bias=False)" for one in "qkv")
KERNEL = "F.scaled_dot_product_attention(x, x, x)"
BY_HAND = "F.softmax(x @ x.transpose(-2, -1), dim=-1) @ x"
MLP = "nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)"
LIST = "self.blocks = nn.ModuleList([Block(width, heads) for _ in range(depth)])"
ADDED = """self.blocks = nn.ModuleList()
        for _ in range(depth):
            self.blocks.append(Block(width, heads))"""
TIED = "self.head.weight = self.words.weight"
# Words and positions, three layers, the last norm; the head's matrix where it is one of its own.
LAYER = 4 * 32 * 32 + 2 * 4 * 32 * 32 + 5 * 32 + 4 * 32
WEIGHTS = 1000 * 32 + 64 * 32 + 3 * LAYER + 2 * 32


def settings(**changed: str) -> dict[str, Any]:
    parts = {"maps": FUSED, "scores": KERNEL, "mlp": MLP, "blocks": LIST, "tied": "", **changed}
    text = (ATTENTION + MODEL).format(**parts)
    found = settings_of(build_script(Source("a.py", text), Api(newest())))
    assert found is not None
    return found


@pytest.mark.parametrize("blocks", [LIST, ADDED])
@pytest.mark.parametrize("maps", [FUSED, APART])
def test_the_weights_of_an_own_decoder_are_counted(blocks: str, maps: str) -> None:
    read = estimate(settings(blocks=blocks, maps=maps))
    assert read.parameters == WEIGHTS + 1000 * 32
    ((layer, count),) = read.architecture.layers
    assert (count, layer.mlp.activation, layer.attention.heads) == (3, "gelu", 4)


def test_a_tied_head_has_no_weights_of_its_own() -> None:
    assert estimate(settings(tied=TIED)).parameters == WEIGHTS


def test_what_computes_attention_is_read() -> None:
    assert settings()["attention"] == "sdpa"
    assert settings(scores=BY_HAND)["attention"] == "eager"


def test_that_classes_were_read_is_said() -> None:
    said = [one.reason for one in estimate(settings()).assumptions if one.name == "model"]
    assert said == ["its own classes, read as 3 layers, 32 wide"]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (
            {"mlp": "nn.Linear(width, inner()), nn.GELU(), nn.Linear(inner(), width)"},
            "out_features",
        ),
        ({"mlp": "nn.LSTM(width, width)"}, "nn.LSTM"),
        ({"blocks": LIST.replace("depth", "count()")}, "how many layers"),
        ({"blocks": "self.blocks = [Block(width, heads)] * depth"}, "where its layers repeat"),
        (
            {"maps": f"import other\n        {FUSED}\n        self.more = other.Scales()"},
            "other.Scales",
        ),
    ],
)
def test_what_is_not_understood_is_no_guess(changed: dict[str, str], said: str) -> None:
    read = settings(**changed)
    assert "model" not in read
    assert said in read["notes"]["model"]
