"""Offloading over a 4-bit base, and 8-bit optimizers inside backward, where bitsandbytes is."""

from __future__ import annotations

import copy

import pytest
import torch
from memlint_runtime.offload import offload_activations
from memlint_runtime.optim import OptimizerInBackward
from torch import Tensor, nn

bnb = pytest.importorskip("bitsandbytes")

pytestmark = pytest.mark.filterwarnings("ignore:Paged optimizers are not supported on CPU")


class Adapted(nn.Module):
    """Two 4-bit linear layers with an adapter beside the first."""

    def __init__(self) -> None:
        super().__init__()
        options = {"bias": False, "compute_dtype": torch.bfloat16, "quant_type": "nf4"}
        self.first = bnb.nn.Linear4bit(256, 512, **options)
        self.second = bnb.nn.Linear4bit(512, 64, **options)
        self.down = nn.Linear(256, 8, bias=False)
        self.up = nn.Linear(8, 512, bias=False)

    def forward(self, hidden: Tensor) -> Tensor:
        adapted = self.first(hidden) + self.up(self.down(hidden))
        result: Tensor = self.second(nn.functional.silu(adapted))
        return result


def test_quantized_base_stays_and_gradients_are_bit_equal() -> None:
    torch.manual_seed(0)
    model = Adapted().to("cpu")  # quantizes
    for layer in (model.first, model.second):
        layer.weight.requires_grad_(False)
    assert model.first.weight.dtype == torch.uint8
    hidden = torch.randn(32, 256, requires_grad=True)

    def gradients(loss: Tensor) -> list[Tensor]:
        trained = [hidden, *model.down.parameters(), *model.up.parameters()]
        return list(torch.autograd.grad(loss, trained))

    expected = gradients(model(hidden).float().square().mean())
    context = offload_activations(model, device="cpu", min_bytes=256)
    for steps in (1, 2, 3):
        with context:
            loss = model(hidden).float().square().mean()
        for one, other in zip(expected, gradients(loss), strict=True):
            assert torch.equal(one, other)
        del loss
        # The input, the adapter's inner and outer activations; no weight, dequantized or not.
        assert context.sent_bytes == steps * 32 * (256 + 8 + 512) * 4
        assert context.pool.used_bytes == 0


@pytest.mark.parametrize("name", ["AdamW8bit", "AdamW", "PagedAdamW8bit", "Lion8bit"])
def test_optimizers_of_bitsandbytes_step_inside_backward(name: str) -> None:
    torch.manual_seed(0)
    plain = nn.Sequential(nn.Linear(64, 128), nn.Linear(128, 64))
    inside = copy.deepcopy(plain)
    make = getattr(bnb.optim, name)
    reference = make(plain.parameters(), lr=1e-2)
    optimizer = OptimizerInBackward(make(inside.parameters(), lr=1e-2))
    for _ in range(5):
        batch = torch.randn(4, 64)
        for model, stepping in ((plain, reference), (inside, optimizer)):
            model(batch).square().mean().backward()
            stepping.step()
            stepping.zero_grad()
    for one, other in zip(plain.parameters(), inside.parameters(), strict=True):
        assert torch.equal(one, other)
