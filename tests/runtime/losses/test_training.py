"""Training with the fused losses goes as it does without, in transformers and in TRL."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from memlint_runtime.fake_memory import track_memory
from memlint_runtime.losses import (
    DeferredLogits,
    defer_logits,
    fuse_trl_losses,
    sequence_logprobs,
)
from torch import Tensor, nn

from tests.runtime.float64 import in_float64, judge
from tests.runtime.losses.models import tiny_batch, tiny_model
from tests.runtime.losses.plain import worst
from tests.runtime.losses.training import deviation, train_trainer, train_trl

pytestmark = [
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]


def test_trainer_learns_the_same(tmp_path: Path) -> None:
    fused, plain = (train_trainer(tmp_path, 20, fused=fused) for fused in (True, False))
    assert len(fused) == 20
    assert deviation(fused, plain) < 1e-4
    assert plain[-1] < plain[0]


@pytest.mark.draws(2)
@pytest.mark.parametrize("kind", ["dpo", "kto", "grpo", "orpo", "cpo"])
def test_trl_learns_the_same(kind: str, tmp_path: Path) -> None:
    fused, plain = (train_trl(kind, tmp_path, 8, fused=fused) for fused in (True, False))
    assert len(fused) == 8
    assert any(plain)
    assert deviation(fused, plain) < 1e-4


def test_deferred_logits_are_computed_for_any_operation() -> None:
    model, batch = tiny_model(), tiny_batch()
    plain = model(**batch).logits
    with defer_logits(model):
        deferred = model(**batch).logits
    for operation in (
        lambda z: z.mean(-1), lambda z: z.mean(dim=(0, 1)), lambda z: z > 0, lambda z: z <= 0.5,
        lambda z: 1 - z, lambda z: z**2, lambda z: 2.0 / (z + 100), lambda z: 1.1**z, abs,
        lambda z: z / torch.tensor(2.0), lambda z: z * torch.ones(97), lambda z: z @ torch.ones(97),
        lambda z: -z, lambda z: z // 0.5, lambda z: z % 0.5, lambda z: 1 // (z + 100),
        lambda z: 7 % (z + 100), lambda z: z.argmax(-1), lambda z: torch.where(plain > 0, z, 0.0),
    ):  # fmt: skip
        assert torch.equal(operation(deferred), operation(deferred.materialize()))
    with pytest.raises(NotImplementedError, match="cannot be assigned to"):
        deferred[0, 0, 0] = 1.0


def test_deferred_logits_are_the_logits() -> None:
    model, batch = tiny_model("gemma2_softcap"), tiny_batch()
    labels, mask = batch.pop("labels"), batch["attention_mask"].bool()
    target = labels.clamp(min=0)[..., None]

    def read(model: Any) -> Any:
        logits = model(**batch).logits
        whole, first = logits, logits[:, :-1, :][0]
        if isinstance(logits, DeferredLogits):
            whole, first = logits.materialize(), first.materialize()
        return whole, first, logits[..., 2:5], logits[mask].mean()

    def learn(model: Any) -> Any:
        logits, leaf = model(**batch).logits, model.get_output_embeddings().weight
        values = (
            logits.log_softmax(-1).gather(-1, target),
            torch.gather(nn.functional.log_softmax(logits / 0.7, dim=-1), 2, target),
            torch.logsumexp(logits, -1),
            nn.CrossEntropyLoss()(logits.float().view(-1, 97), labels.view(-1)),
            logits[:, :-1, :90].log_softmax(-1).gather(-1, target[:, 1:].clamp(max=89)),
            torch.logsumexp(logits[..., :90], -1),
            logits + 1.0,
            torch.softmax(logits, -1),
        )
        return [
            (x * 1.0, torch.autograd.grad(x.square().sum(), leaf, retain_graph=True)[0])
            for x in values
        ]

    plain = model(**batch).logits
    expected = read(model), learn(model)
    truth = in_float64(lambda exact: (read(exact), learn(exact)), model)
    with defer_logits(model):
        deferred = model(**batch).logits
        assert isinstance(deferred, DeferredLogits)
        assert deferred.shape == plain.shape
        assert worst(deferred[..., -1, :].argmax(-1), plain[..., -1, :].argmax(-1)) == 0
        judge((read(model), learn(model)), expected, truth)
        with pytest.raises(AttributeError, match="in place by div_"):
            deferred.div_(2.0)
        assert not hasattr(deferred, "div_")
        generated = model.generate(batch["input_ids"][:1, :4], max_new_tokens=2, do_sample=False)
        assert generated.shape[0] == 1
    assert isinstance(model(**batch).logits, torch.Tensor)


def test_deferred_log_probabilities_build_no_logits() -> None:
    model = tiny_model(vocab_size=20_000)
    ids = torch.randint(3, 19_990, (4, 60))
    with defer_logits(model, workspace_bytes=400_000), track_memory([model]) as tracker:
        # The padding of the vocabulary is cut off, too.
        logits = model(ids).logits[:, :-1, :19_990]
        logits.log_softmax(-1).gather(-1, ids[:, 1:, None]).sum().backward()
    assert tracker.peak.activations + tracker.peak.temporaries < 4 * 60 * 20_000 * 4 / 4


@pytest.mark.parametrize("family", ["llama", "gemma2_softcap", "phi_bias"])
def test_sequence_logprobs(family: str) -> None:
    model, batch = tiny_model(family), tiny_batch()
    labels = batch.pop("labels")
    shifted = nn.functional.pad(labels, (0, 1), value=-100)[:, 1:]

    def plain(model: Any) -> Tensor:
        logits = model(**batch).logits / 0.8
        scores = logits.log_softmax(-1).gather(-1, shifted.clamp(min=0)[..., None])[..., 0]
        return torch.where(shifted >= 0, scores, 0.0)

    def ours(model: Any) -> Tensor:
        return sequence_logprobs(model, labels, temperature=0.8, **batch)

    def trained(score: Callable[[Any], Tensor], model: Any) -> Any:
        scores = score(model)
        leaf = model.get_output_embeddings().weight
        return scores, torch.autograd.grad(scores.sum(), leaf)[0]

    expected, truth = trained(plain, model), in_float64(lambda exact: trained(plain, exact), model)
    judge(trained(ours, model), expected, truth)
    with torch.no_grad():
        reference = sequence_logprobs(model, labels, temperature=0.8, **batch)
    assert not reference.requires_grad
    judge(reference, expected[0], truth[0])


def test_sequence_logprobs_says_what_it_wants() -> None:
    model, batch = tiny_model(), tiny_batch()
    labels = batch.pop("labels")
    with pytest.raises(TypeError, match=r"wants a model \(a torch.nn.Module\), got NoneType"):
        sequence_logprobs(None, labels, **batch)  # type: ignore[arg-type]
    for temperature in (0, -1.0, float("nan")):
        with pytest.raises(ValueError, match="temperature and softcap are positive"):
            sequence_logprobs(model, labels, temperature=temperature, **batch)
    with pytest.raises(ValueError, match=r"labels are token ids, whole numbers: got torch.float32"):
        sequence_logprobs(model, labels.float(), **batch)
    with defer_logits(model):  # as of a tensor
        assert not torch.isfinite(model(**batch).logits / 0).any()


def test_refuses_other_trainers() -> None:
    with pytest.raises(ValueError, match="wants a trainer of trl"):
        fuse_trl_losses(object())


@pytest.mark.draws(1)
@pytest.mark.parametrize("kind", ["dpo", "orpo", "cpo"])
def test_trl_really_runs_the_tiles(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from trl.trainer import utils

    def never(*args: object, **kwargs: object) -> None:
        raise AssertionError("the full logits, or TRL's own chunks, were computed")

    monkeypatch.setattr(DeferredLogits, "materialize", never)
    monkeypatch.setattr(utils._ChunkedLogProbFunction, "apply", never)
    assert len(train_trl(kind, tmp_path, 2, fused=True)) == 2
    if kind == "dpo":
        with pytest.raises(AssertionError):
            train_trl(kind, tmp_path, 1, fused=False)
