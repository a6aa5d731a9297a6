"""Logits that are few are computed whole: the same values, gradients, refusals and zeros."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from memlint_runtime import cross_entropy, fuse_causal_lm_loss
from memlint_runtime.losses import causal_lm, planning, token_logprobs
from memlint_runtime.losses.planning import whole_fits
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode

from tests.runtime.losses.models import tiny_model
from tests.runtime.losses.test_losses import (
    test_one_token,
    test_scaled_loss,
    test_soft_cap_and_bias,
)
from tests.runtime.losses.test_token_logprobs import (
    test_all_masked_is_zero,
    test_extras_as_metrics_carry_no_gradient,
    test_gradient_only_where_wanted,
    test_says_whether_the_target_is_the_likeliest,
    test_values_and_gradients_are_the_plain_ones,
)

pytestmark = pytest.mark.whole

__all__ = [
    "test_all_masked_is_zero",
    "test_extras_as_metrics_carry_no_gradient",
    "test_gradient_only_where_wanted",
    "test_one_token",
    "test_says_whether_the_target_is_the_likeliest",
    "test_scaled_loss",
    "test_soft_cap_and_bias",
    "test_values_and_gradients_are_the_plain_ones",
]


def test_how_many_are_few() -> None:
    assert whole_fits(4_000_000, None)
    assert not whole_fits(4_200_000, None)
    assert not whole_fits(4_000_000, 40_000_000)
    assert not whole_fits(1_000_000, None, copied_bytes=planning.WHOLE_BYTES)
    assert not whole_fits(1, 10)


@pytest.mark.parametrize("whole", [True, False])
def test_tiles_take_over_where_logits_are_many(
    whole: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    module: Any = sys.modules["memlint_runtime.losses.token_logprobs"]

    def unexpected(*ignored: Any) -> None:
        raise AssertionError("the other way was taken")

    if whole:
        monkeypatch.setattr(module._TokenStatistics, "apply", unexpected)
    monkeypatch.setattr(module, "_whole", module._whole if whole else unexpected)
    vocabulary = 500 if whole else 40_000
    hidden, weight = torch.randn(120, 8), torch.randn(vocabulary, 8)
    target = torch.randint(0, vocabulary, (120,))
    expected = (hidden @ weight.T).log_softmax(-1).gather(-1, target[:, None])[:, 0]
    torch.testing.assert_close(token_logprobs(hidden, weight, target), expected)


def test_targets_out_of_the_vocabulary_are_refused() -> None:
    with pytest.raises(ValueError, match="below the vocabulary of 5, got 7"):
        token_logprobs(torch.randn(2, 3), torch.randn(5, 3), torch.tensor([1, 7]))


@pytest.mark.parametrize("items", [None, 7])
def test_a_fused_model_of_few_logits_calls_its_head_once(items: int | None) -> None:
    torch.manual_seed(0)
    model: Any = tiny_model()
    ids = torch.randint(0, 64, (2, 9))
    labels = ids.clone()
    labels[0, :4] = -100
    options = {} if items is None else {"num_items_in_batch": items}
    expected = model(input_ids=ids, labels=labels, **options).loss
    fuse_causal_lm_loss(model)
    calls: list[Any] = []
    model.lm_head.register_forward_hook(lambda *given: calls.append(given[2].shape) and None)
    found = model.train()(input_ids=ids, labels=labels, **options)
    assert found.logits is None
    assert calls == [(2, 9, model.config.vocab_size)]
    torch.testing.assert_close(found.loss, expected)
    nothing = model(input_ids=ids, labels=torch.full_like(ids, -100)).loss
    nothing.backward()
    assert nothing.isnan()


@pytest.mark.parametrize("options", [{"label_smoothing": 0.1}, {"z_loss": 1e-3}])
def test_what_the_plain_loss_does_not_know_is_made_of_statistics(
    options: dict[str, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    model: Any = tiny_model()
    fuse_causal_lm_loss(model, **options)
    scored: list[Any] = []
    own = causal_lm._score_tokens
    monkeypatch.setattr(causal_lm, "_score_tokens", lambda *given: scored.append(1) or own(*given))
    ids = torch.randint(0, 64, (1, 5))
    model.train()(input_ids=ids, labels=ids).loss.backward()
    assert scored == [1]


def test_halves_multiply_as_the_processor_does(monkeypatch: pytest.MonkeyPatch) -> None:
    from memlint_runtime.losses import tiles
    from memlint_runtime.losses.tile_ops import LogitTransform

    hidden, weight = torch.randn(4, 8).bfloat16(), torch.randn(6, 8).bfloat16()
    head = tiles.Head((hidden,), (weight,), None, LogitTransform(), torch.bfloat16)
    for native, dtype in ((True, torch.bfloat16), (False, torch.float32)):
        monkeypatch.setattr(tiles, "_cpu_multiplies_bfloat16", lambda native=native: native)
        assert head.matmul_dtype == dtype
        raw = tiles.raw_logits(head, head.hidden_tiles(slice(4)), head.weight_tiles(slice(6)))
        assert raw.dtype == torch.float32
        torch.testing.assert_close(raw, (hidden.float() @ weight.float().T), atol=0.05, rtol=0.05)


def test_weights_of_another_kind_go_by_tiles() -> None:
    """A subclass may keep its values elsewhere."""

    class Kept(nn.Parameter):
        pass

    from memlint_runtime.losses.token_logprobs import read_inputs

    def is_whole(weight: torch.Tensor) -> bool:
        target = torch.zeros(4, dtype=torch.long)
        return read_inputs(torch.randn(4, 8), weight, target, workspace_bytes=10**6).is_whole

    assert is_whole(torch.randn(5, 8))
    assert not is_whole(Kept(torch.randn(5, 8)))
    with FakeTensorMode():
        assert not is_whole(torch.randn(5, 8))


@pytest.mark.parametrize("kind", [torch.int64, torch.int32, torch.uint8])
@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_targets_of_any_whole_numbers(kind: torch.dtype, reduction: Any) -> None:
    hidden, weight = torch.randn(6, 5), torch.randn(9, 5)
    target = torch.arange(6)
    expected = nn.functional.cross_entropy(hidden @ weight.T, target, reduction=reduction)
    found = cross_entropy(hidden, weight, target.to(kind), reduction=reduction)
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("ignored", [-100, 2])
@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_a_tiny_loss_is_torchs_bit_for_bit(
    dtype: torch.dtype, ignored: int, reduction: Any
) -> None:
    def outcome(loss: Callable[..., Tensor]) -> list[Tensor]:
        draw = torch.Generator().manual_seed(3)
        leaves = [torch.randn(2, 5, 8, generator=draw), torch.randn(7, 8, generator=draw)]
        leaves = [leaf.to(dtype).requires_grad_() for leaf in leaves]
        target = torch.randint(0, 7, (2, 5), generator=draw).index_fill(1, torch.tensor(1), ignored)
        value = loss(*leaves, target, ignore_index=ignored, reduction=reduction)
        return [value.detach(), *torch.autograd.grad(value * 3, leaves)]

    def plain(hidden: Tensor, weight: Tensor, target: Tensor, **options: Any) -> Tensor:
        logits = nn.functional.linear(hidden, weight).flatten(0, 1)
        logits = logits if dtype == torch.float64 else logits.float()
        return nn.functional.cross_entropy(logits, target.flatten(), **options)

    assert all(map(torch.equal, outcome(cross_entropy), outcome(plain)))


def test_a_tiny_mean_of_no_tokens_is_none_and_has_no_gradient() -> None:
    hidden = torch.randn(3, 4, requires_grad=True)
    nothing = cross_entropy(hidden, torch.randn(5, 4), torch.full((3,), -100))
    nothing.backward()
    assert nothing.isnan()
    assert hidden.grad is not None
    assert not hidden.grad.any()
    assert cross_entropy(hidden * torch.nan, torch.randn(5, 4), torch.zeros(3).long()).isnan()


def test_tiny_targets_that_are_no_classes_are_refused() -> None:
    hidden, weight = torch.randn(2, 3), torch.randn(5, 3)
    with pytest.raises(ValueError, match="below the vocabulary of 5, got 7"):
        cross_entropy(hidden, weight, torch.tensor([9, 7]), ignore_index=9)
    with pytest.raises(ValueError, match="token ids or ignore_index, 9, got -100"):
        cross_entropy(hidden, weight, torch.tensor([9, -100]), ignore_index=9)


@pytest.mark.parametrize("loss", [cross_entropy, lambda *given: token_logprobs(*given).sum()])
def test_what_is_no_plain_input_takes_the_long_way(
    loss: Callable[..., Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Autocast, another type of weight, one more dimension, a bound that moved."""
    module: Any = sys.modules["memlint_runtime.losses.token_logprobs"]
    read: list[Any] = []
    own = module.read_inputs

    def reading(*given: Any, **options: Any) -> Any:
        read.append(given)
        return own(*given, **options)

    for name in ("token_logprobs", "cross_entropy"):
        monkeypatch.setattr(sys.modules[f"memlint_runtime.losses.{name}"], "read_inputs", reading)
    hidden, weight, target = torch.randn(2, 3), torch.randn(5, 3), torch.tensor([1, 4])
    loss(hidden, weight, target)
    assert not read
    loss(hidden, weight.double(), target)
    loss(hidden, type("Kept", (nn.Parameter,), {})(weight), target)
    with torch.autocast("cpu", torch.bfloat16):
        assert loss(hidden.half(), weight.half(), target).dtype == torch.float32
    monkeypatch.setattr(planning, "WHOLE_BYTES", 0)
    loss(hidden, weight, target)
    assert len(read) == 4
    with pytest.raises(ValueError, match="one target per hidden state"):
        loss(hidden, weight, target[:1])
    with pytest.raises(ValueError, match=r"token ids, whole numbers|a tensor of token ids"):
        loss(hidden, weight, target.float())
