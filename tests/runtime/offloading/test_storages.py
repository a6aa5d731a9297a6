"""What is offloaded and what stays: weights, small tensors, outputs, within a budget."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from memlint_runtime.device_copies import SynchronousCopies
from memlint_runtime.fake_memory import track_memory
from memlint_runtime.offload import (
    keep_on_device,
    offload_activations,
)
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode

from tests.runtime.offloading.models import assert_bit_equal, batch, gradients, offload, tiny_llama

# peft asks transformers by the old name of the option, deprecated since 5.23.
pytestmark = pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated")


def test_a_storage_saved_often_moves_once_and_leaves_the_device() -> None:
    """By the tracker: what is alive after forward is what was not offloaded."""
    with FakeTensorMode():
        x = torch.empty(1000, 10, requires_grad=True)
        context = offload(host="meta", copies=SynchronousCopies())
        with track_memory() as tracker, context:
            hidden = x * 2
            loss = (hidden.sin() * hidden.t().cos().t()).sum()
            del hidden
            # `hidden` is saved by sin and, through a view, by cos; both results by the product.
            assert context.sent_bytes == 3 * 40_000
            assert tracker.current.total == 40_000 + 4  # x, which only the test holds, and the loss
        loss.backward()


def test_weights_their_views_and_buffers_stay() -> None:
    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(64, 64))
            self.register_buffer("scale", torch.randn(64, 64))

        def forward(self, x: Tensor) -> Tensor:
            return (x @ self.weight.t()[:, :32]) * self.scale[:, :32] + self.weight.view(-1)[0]

    layer = Layer()
    x = torch.randn(64, 64, requires_grad=True)
    context = offload(layer, min_bytes=0)
    with context:
        layer(x)
    assert context.sent_bytes == 64 * 64 * 4  # x


def test_weights_that_autocast_casts_stay() -> None:
    layer = nn.Linear(64, 64)
    x = torch.randn(32, 64, requires_grad=True)
    context = offload(layer, min_bytes=0)
    with context, torch.autocast("cpu", torch.bfloat16):
        y = layer(x).float()
    assert context.sent_bytes == 32 * 64 * 2  # x in bfloat16
    y.sum().backward()


def test_losses_are_known_by_whole_words_of_their_names() -> None:
    class GlossyGelu(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.save_for_backward(x)
            return x.clone()

        @staticmethod
        def backward(ctx: Any, *grads: Tensor) -> Tensor:
            return grads[0] * ctx.saved_tensors[0]

    def sent(module: str, name: str) -> int:
        function = type(name, (GlossyGelu,), {"__module__": module, "__qualname__": f"f.{name}"})
        context = offload()
        with context:
            function.apply(torch.randn(64, 64, requires_grad=True) * 1)
        return context.sent_bytes

    assert sent("mine.loss", "GlossyGelu")
    assert sent("mine", "LosslessPath")
    assert not sent("mine", "DPOLoss")
    assert not sent("mine", "_ChunkedLogProbFunction")
    assert not sent("mine", "fused_loss")
    assert not sent("liger_kernel.chunked_loss.dpo", "LigerFusedLinearDPOFunction")


def test_views_of_weights_stay_without_the_model() -> None:
    weight, x = nn.Parameter(torch.randn(64, 64)), torch.randn(64, 64, requires_grad=True)
    context = offload()
    with context:
        (x @ weight.t()[:, :32]) * weight[:, :32]
    assert context.sent_bytes == 64 * 64 * 4 + 64 * 32 * 4  # x and the product


def test_a_storage_changed_between_two_saves_moves_again() -> None:
    """As autograd does, the second user gets the second contents; the first was never asked."""
    x = torch.randn(32, 32, requires_grad=True)
    with offload(copies=SynchronousCopies()):
        hidden = x * 1
        unused = hidden.sin()
        hidden.add_(1)
        result = hidden.cos()
    (actual,) = torch.autograd.grad(result.sum(), x)
    assert torch.equal(actual, -(x + 1).sin())
    del unused


def test_small_tensors_and_other_devices_stay() -> None:
    x = torch.randn(10, requires_grad=True)
    below = offload(min_bytes=41)
    with below:
        x.exp().sin()
    elsewhere = offload_activations(min_bytes=0)  # of an accelerator, which is not there
    with elsewhere:
        loss = x.exp().sin().sum()
    loss.backward()
    assert below.sent_bytes == elsewhere.sent_bytes == 0


def test_a_slice_does_not_drag_a_long_lived_buffer_along() -> None:
    data = torch.randn(1000, 64)
    weight = torch.randn(64, 64, requires_grad=True)
    context = offload()
    with context:
        loss = (data[10:20] @ weight).sum()
    assert context.sent_bytes == 0
    loss.backward()
    assert weight.grad is not None


def test_outputs_of_the_model_stay() -> None:
    model, ids = tiny_llama(), batch()
    context = offload(model, copies=SynchronousCopies())
    with context:
        outputs = model(ids, output_hidden_states=True)
        before = context.sent_bytes
        loss = outputs.logits.float().square().mean() + outputs.hidden_states[1].exp().mean()
        assert context.sent_bytes - before <= 2 * 64 * 64 * 4  # exp's own result
    loss.backward()
    expected = gradients(model)
    outputs = model(ids, output_hidden_states=True)
    (outputs.logits.float().square().mean() + outputs.hidden_states[1].exp().mean()).backward()
    assert_bit_equal(expected, gradients(model))


def test_budget_sends_the_largest_first_and_of_equals_the_oldest() -> None:
    x = torch.randn(100, requires_grad=True)
    large = torch.randn(1000, requires_grad=True)
    context = offload(budget_bytes=4400 + 800, copies=SynchronousCopies())
    with context:
        first, second = x * 1, x * 2
        saved = [first.sin(), large.sin(), second.sin()]
        assert (context.sent_bytes, context.resident_bytes) == (0, 4800)
        saved.append((large * 3).sin())
        assert context.sent_bytes == 4000  # `large`, the oldest of the two largest
        known = {s.index: bool(s.blocks) for s in context._known.values()}
        assert known == {0: False, 1: True, 2: False, 3: False}
    torch.stack([part.sum() for part in saved]).sum().backward()


def test_a_part_can_be_kept_on_the_device() -> None:
    x = torch.randn(32, 32, requires_grad=True)
    context = offload()
    with context:
        hidden = x * 2
        with keep_on_device():
            loss = hidden.sin().sum()
    assert context.sent_bytes == 0
    hidden.detach().add_(1)
    with pytest.raises(RuntimeError, match="overwritten in place"):
        loss.backward()


def test_negative_limits_are_refused() -> None:
    with pytest.raises(ValueError, match="prefetch must be 0 or more, got -1"):
        offload_activations(prefetch=-1)


@pytest.mark.parametrize("wrong", [3, nn.Linear])
def test_what_is_no_model_is_named_at_once(wrong: Any) -> None:
    with pytest.raises(TypeError, match=r"wants a model \(a torch\.nn\.Module\), got "):
        offload_activations(wrong)


def test_peak_under_fakes_falls() -> None:
    def peak(budget: int | None, *, offloaded: bool) -> int:
        with FakeTensorMode():
            model, ids = tiny_llama(), torch.zeros(2, 64, dtype=torch.long)
            context = offload(
                model, host="meta", copies=SynchronousCopies(), budget_bytes=budget, min_bytes=0
            )
            with track_memory(model) as tracker:
                if offloaded:
                    with context:
                        loss = model(ids, labels=ids).loss
                else:
                    loss = model(ids, labels=ids).loss
                loss.backward()
        return tracker.peak.activations

    plain = peak(None, offloaded=False)
    assert peak(10**9, offloaded=True) == plain
    assert peak(None, offloaded=True) < 0.4 * plain
    assert peak(1_000_000, offloaded=True) <= plain - 1_000_000
