"""Losses inside `torch.func` and `torch.compile`, against float64 runs of the plain loss."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from memlint_runtime import (
    LinearCrossEntropyLoss,
    bradley_terry_loss,
    cpo_loss,
    cross_entropy,
    distillation_loss,
    dpo_loss,
    kto_loss,
    orpo_loss,
    policy_loss,
    simpo_loss,
    tile_mlp,
    token_logprobs,
)
from torch import Tensor, func, nn
from torch.nn import functional

from tests.runtime.float64 import in_float64, judge

# torch's own, of its forward mode and of autograd functions that it traces.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.* should not be instantiated:DeprecationWarning"),
]

ROWS, VOCABULARY, WIDTH = 24, 700, 12
WORKSPACE = 40_000  # bytes: tiles, not all logits at once

Loss = Callable[[Tensor, Tensor, Tensor], Tensor]


def inputs() -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(11)
    hidden = torch.randn(ROWS, WIDTH, generator=generator)
    weight = torch.randn(VOCABULARY, WIDTH, generator=generator)
    target = torch.randint(0, VOCABULARY, (ROWS,), generator=generator)
    target[:3] = -100
    return hidden, weight, target


def ours(hidden: Tensor, weight: Tensor, target: Tensor) -> Tensor:
    return cross_entropy(hidden, weight, target, workspace_bytes=WORKSPACE)


def plain(hidden: Tensor, weight: Tensor, target: Tensor) -> Tensor:
    return functional.cross_entropy(hidden @ weight.T, target)


def scored(hidden: Tensor, weight: Tensor, target: Tensor) -> Tensor:
    return token_logprobs(hidden, weight, target, workspace_bytes=WORKSPACE).sum()


def plainly_scored(hidden: Tensor, weight: Tensor, target: Tensor) -> Tensor:
    return -functional.cross_entropy(hidden @ weight.T, target, reduction="sum")


def gradients(loss: Loss, *given: Tensor) -> Any:
    return func.grad(loss, argnums=(0, 1))(*given)


def second(loss: Loss, hidden: Tensor, weight: Tensor, target: Tensor) -> Any:
    return func.hessian(lambda row: loss(row[None], weight, target[5:6]))(hidden[5])


def forward_mode(loss: Loss, hidden: Tensor, weight: Tensor, target: Tensor) -> Any:
    one = torch.ones_like(hidden)
    return func.jvp(lambda states: loss(states, weight, target), (hidden,), (one,))


def of_each_sample(loss: Loss, hidden: Tensor, weight: Tensor, target: Tensor) -> Any:
    samples = hidden.view(4, -1, WIDTH), target.view(4, -1)
    one = func.grad(lambda states, head, ids: loss(states, head, ids), argnums=(0, 1))
    return torch.vmap(one, in_dims=(0, None, 0))(samples[0], weight, samples[1])


def compiled_gradients(loss: Loss, *given: Tensor) -> Any:
    return torch.compile(func.grad(loss, argnums=(0, 1)), backend="aot_eager")(*given)


@pytest.mark.parametrize(
    "transformed", [gradients, second, forward_mode, of_each_sample, compiled_gradients]
)
@pytest.mark.parametrize(("own", "other"), [(ours, plain), (scored, plainly_scored)])
def test_transforms_reach_the_losses(transformed: Any, own: Loss, other: Loss) -> None:
    expected = in_float64(lambda *given: transformed(other, *given), *inputs())
    judge(transformed(own, *inputs()), transformed(other, *inputs()), expected)


def test_functional_call_reaches_the_loss_module() -> None:
    class Head(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.head = nn.Linear(WIDTH, VOCABULARY)
            self.loss = LinearCrossEntropyLoss(workspace_bytes=WORKSPACE)

        def forward(self, hidden: Tensor, target: Tensor) -> Tensor:
            weight, bias = self.head.weight, self.head.bias
            loss: Tensor = self.loss(hidden, weight, target, linear_bias=bias)
            return loss

    model = Head()
    hidden, _, target = inputs()
    parameters = {name: value.detach() for name, value in model.named_parameters()}
    found = func.grad(lambda values: func.functional_call(model, values, (hidden, target)))(
        parameters
    )
    model(hidden, target).backward()
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(found[name], parameter.grad)


def test_a_tiled_mlp_is_whole_in_transforms() -> None:
    model = nn.Sequential()
    model.mlp = nn.Sequential(nn.Linear(WIDTH, 30), nn.Tanh(), nn.Linear(30, WIDTH))
    hidden, _, _ = inputs()
    expected = func.grad(lambda states: model.mlp(states).square().sum())(hidden)
    with tile_mlp(model, tile_tokens=5):
        found = func.grad(lambda states: model.mlp(states).square().sum())(hidden)
    torch.testing.assert_close(found, expected)


def test_what_tiles_alone_serve_is_refused_by_name() -> None:
    hidden, weight, _ = inputs()

    def loss(states: Tensor) -> Tensor:
        return distillation_loss(states, weight, hidden, weight).sum()

    with pytest.raises(RuntimeError, match=r"Distillation does not run within torch.func's grad"):
        func.grad(loss)(hidden)


def _by_rows(hidden: Tensor, weight: Tensor, target: Tensor) -> Tensor:
    logprobs = token_logprobs(hidden, weight, target, workspace_bytes=WORKSPACE)
    return logprobs.view(4, -1).mean(1)


LOSSES: dict[str, Loss] = {
    "cross entropy": ours,
    "cross entropy, smoothed": lambda h, w, t: cross_entropy(
        h, w, t, label_smoothing=0.1, z_loss=1e-3, workspace_bytes=WORKSPACE
    ),
    "module": lambda h, w, t: LinearCrossEntropyLoss(workspace_bytes=WORKSPACE)(h, w, t),
    "dpo": lambda h, w, t: (lambda s: dpo_loss(s[:2], s[2:], s[2:], s[:2]))(
        _by_rows(h, w, t)
    ).mean(),
    "kto": lambda h, w, t: (lambda s: kto_loss(s, s.detach(), torch.arange(4) < 2, 0.1))(
        _by_rows(h, w, t)
    ).mean(),
    "orpo": lambda h, w, t: (lambda s: orpo_loss(s[:2], s[2:], -s.mean()))(
        _by_rows(h, w, t)
    ).mean(),
    "cpo": lambda h, w, t: (lambda s: cpo_loss(s[:2], s[2:]))(_by_rows(h, w, t)).mean(),
    "simpo": lambda h, w, t: (lambda s: simpo_loss(s[:2], s[2:]))(_by_rows(h, w, t)).mean(),
    "reward": lambda h, w, t: (lambda s: bradley_terry_loss(s[:2], s[2:]))(
        _by_rows(h, w, t)
    ).mean(),
    "policy": lambda h, w, t: policy_loss(
        token_logprobs(h, w, t, workspace_bytes=WORKSPACE).view(4, -1),
        torch.arange(4.0),
        torch.ones(4, ROWS // 4),
    ),
    "distillation": lambda h, w, t: distillation_loss(
        h, w, h.detach().flip(0), w.detach(), workspace_bytes=WORKSPACE
    ).mean(),
}


@pytest.mark.draws(3)
@pytest.mark.parametrize("name", LOSSES)
def test_losses_compile_whole(name: str) -> None:
    def step(loss: Loss) -> list[Tensor]:
        hidden, weight, target = inputs()
        leaves = [hidden.requires_grad_(), weight.requires_grad_()]
        value = loss(*leaves, target)
        return [value.detach(), *torch.autograd.grad(value, leaves)]

    torch._dynamo.reset()
    compiled = torch.compile(LOSSES[name], backend="aot_eager", fullgraph=True)
    for found, expected in zip(step(compiled), step(LOSSES[name]), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)
