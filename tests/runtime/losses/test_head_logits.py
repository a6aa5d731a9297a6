"""A model of one's own whose head gives logits as far as they are read."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from memlint_runtime.fake_memory import track_memory
from memlint_runtime.losses import DeferredLogits, head_logits
from torch import Tensor, nn
from torch.nn import functional

from tests.runtime.float64 import in_float64, judge

WORDS = 97


class Writer(nn.Module):
    """Writes a number for each word from one hidden state a token."""

    def __init__(self, words: int = WORDS, *, plain: bool = False, cap: float = 0.0) -> None:
        super().__init__()
        self.table = nn.Embedding(words, 32)
        self.layer = nn.Linear(32, 32)
        self.lm_head = nn.Linear(32, words, bias=False)
        self.plain, self.cap = plain, cap
        self.workspace: int | None = None

    def deferred(self, hidden: Tensor) -> DeferredLogits | Tensor:
        return head_logits(self.lm_head, hidden, workspace_bytes=self.workspace)

    def forward(self, ids: Tensor, targets: Tensor | None = None) -> tuple[Any, Any]:
        hidden = torch.tanh(self.layer(self.table(ids)))
        logits = self.lm_head(hidden) if self.plain else self.deferred(hidden)
        if self.cap:
            logits = self.cap * torch.tanh(logits / self.cap)
        if targets is None:
            return logits, None
        loss = functional.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1))
        return logits, loss


def trained(model: Writer, ids: Tensor) -> Any:
    _, loss = model(ids[:, :-1].contiguous(), ids[:, 1:].contiguous())
    return loss, torch.autograd.grad(loss, list(model.parameters()))


@pytest.mark.parametrize("cap", [0.0, 15.0])
def test_learns_as_by_whole_logits(cap: float) -> None:
    model = Writer(cap=cap)
    whole = copy.deepcopy(model)
    whole.plain = True
    ids = torch.randint(0, WORDS, (3, 20))
    truth = in_float64(lambda exact: trained(exact, ids), whole)
    judge(trained(model, ids), trained(whole, ids), truth)


def test_makes_no_logits_in_training() -> None:
    model = Writer(20_000)
    model.workspace = 400_000
    ids = torch.randint(0, 20_000, (4, 61))
    with track_memory([model]) as tracker:
        _, loss = model(ids[:, :-1].contiguous(), ids[:, 1:].contiguous())
        loss.backward()
    grown = tracker.peak.activations + tracker.peak.temporaries
    assert grown < 4 * 60 * 20_000 * 4 / 4


def test_samples_change_logits_in_place() -> None:
    model, ids = Writer(), torch.randint(0, WORDS, (2, 8))
    with torch.no_grad():
        logits, _ = model(ids)
        assert isinstance(logits, Tensor)
        logits[logits < 0] = -torch.inf
    recorded, _ = model(ids)
    assert isinstance(recorded, DeferredLogits)


def test_compiled_code_computes_them_whole() -> None:
    model, ids = Writer(), torch.randint(0, WORDS, (2, 8))
    expected = model(ids, ids)[1]
    found = torch.compile(model, backend="eager", fullgraph=True)(ids, ids)[1]
    assert torch.allclose(found, expected)


def test_a_head_that_does_more_says_so_and_works() -> None:
    model, ids = Writer(), torch.randint(0, WORDS, (2, 8))
    model.lm_head.register_forward_hook(lambda *_: None)
    with pytest.warns(UserWarning, match="computed whole: the output head has a hook"):
        logits, _ = model(ids)
    assert isinstance(logits, Tensor)


def test_precision_is_that_of_autocast() -> None:
    model, ids = Writer(), torch.randint(0, WORDS, (2, 8))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits, _ = model(ids)
        model.plain = True
        assert logits.dtype == model(ids)[0].dtype == torch.bfloat16
