"""The plain computation that the tiled losses are proved against: all logits, in one piece."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from tests.runtime.float64 import in_float64


def plain_logits(
    hidden: Tensor,
    weight: Tensor,
    *,
    bias: Tensor | None = None,
    softcap: float | None = None,
    temperature: float = 1.0,
    logit_scale: float = 1.0,
    low_rank: tuple[Tensor, Tensor] | None = None,
) -> Tensor:
    """`[T, V]`: the products in the inputs' type, all that follows in at least fp32."""
    raw = hidden @ weight.T
    if low_rank is not None:
        raw = raw + low_rank[0] @ low_rank[1].T
    if bias is not None:
        raw = raw + bias
    logits = raw * logit_scale
    if softcap is not None:
        logits = softcap * torch.tanh(logits / softcap)
    return logits.to(torch.promote_types(logits.dtype, torch.float32)) / temperature


def plain_statistics(
    hidden: Tensor, weight: Tensor, target: Tensor, **options: object
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Log-probability, log-sum-exp, entropy and mean logit `[T]`; zero where ignored."""
    logits = plain_logits(hidden, weight, **options)  # type: ignore[arg-type]
    counted = target >= 0
    logs = logits.log_softmax(-1)
    chosen = logs.gather(-1, target.clamp(min=0)[..., None])[..., 0]
    found = (
        chosen,
        logits.logsumexp(-1),
        -(logs.exp() * logs).sum(-1),
        logits.mean(-1),
    )
    return tuple(torch.where(counted, values, 0.0) for values in found)  # type: ignore[return-value]


@dataclass
class Problem:
    """Inputs of a loss over a head, and the leaves whose gradients are compared."""

    hidden: Tensor
    weight: Tensor
    target: Tensor

    def to(self, dtype: torch.dtype) -> Problem:
        def convert(leaf: Tensor) -> Tensor:
            return leaf.detach().to(dtype).requires_grad_(leaf.requires_grad)

        return Problem(convert(self.hidden), convert(self.weight), self.target)


def make_problem(
    tokens: int = 37,
    width: int = 16,
    vocabulary: int = 101,
    *,
    dtype: torch.dtype = torch.float32,
    ignored: bool = True,
    seed: int = 0,
) -> Problem:
    random = torch.Generator().manual_seed(seed)
    hidden = torch.randn(tokens, width, generator=random).to(dtype).requires_grad_()
    weight = (torch.randn(vocabulary, width, generator=random) * 0.5).to(dtype).requires_grad_()
    target = torch.randint(0, vocabulary, (tokens,), generator=random)
    if ignored:
        target[torch.rand(tokens, generator=random) < 0.2] = -100
    return Problem(hidden, weight, target)


def step(model: Any, batch: dict[str, Tensor], **options: Any) -> tuple[Tensor, dict[str, Tensor]]:
    """The loss, and the gradients of all weights that are trained."""
    model.zero_grad()
    outputs = model(**batch, **options)
    outputs.loss.backward()
    grown = {
        name: parameter.grad.clone()
        for name, parameter in model.named_parameters()
        if parameter.grad is not None
    }
    return outputs.loss.detach(), grown


def expected_of(model: Any, batch: dict[str, Tensor], **options: Any) -> tuple[Any, Any]:
    """A step of the model's own: in float32, and in float64."""
    truth = in_float64(lambda exact: step(exact, batch, **options), model)
    return step(model, batch, **options), truth


def gradients(loss: Tensor, leaves: list[Tensor]) -> list[Tensor]:
    return list(torch.autograd.grad(loss, leaves, allow_unused=False))


def worst(ours: Tensor, plain: Tensor) -> float:
    """Largest deviation, relative to the largest value, or to 1e-3 where all are smaller."""
    ours, plain = ours.detach().double(), plain.detach().double()
    return float((ours - plain).abs().max()) / max(float(plain.abs().max()), 1e-3)


Loss = Callable[[Tensor, Tensor, Tensor], Tensor]
