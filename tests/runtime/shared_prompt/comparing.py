"""Shared against repeated prompts: values, entropies and every gradient, in float32."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from memlint_runtime import shared_prompt_logprobs
from memlint_runtime.shared_prompt import Sharing
from torch import Tensor, nn

from tests.runtime.float64 import in_float64, judge
from tests.runtime.shared_prompt.models import gradients, repeated

ALL = Sharing(min_saved_tokens=1)


def weights_like(x: Tensor, seed: int = 5) -> Tensor:
    return torch.randn(x.shape, generator=torch.Generator().manual_seed(seed))


def compare(
    model: nn.Module,
    inputs: tuple[Tensor, ...],
    sharing: Sharing = ALL,
    temperature: float = 1.0,
    aux: bool = False,
    unpatched: nn.Module | None = None,
) -> None:
    """Values, and gradients of a loss that weighs every log-probability and entropy differently.

    unpatched: the same model for float64, where copies of `model` would call what it is patched
    with, and so its own float32 weights.
    """
    weigh, weigh_entropy = weights_like(inputs[2]), weights_like(inputs[2], 6)

    def shared(model: nn.Module) -> tuple[Tensor, ...]:
        return shared_prompt_logprobs(
            model, *inputs, temperature=temperature, entropy=True, aux_loss=aux, sharing=sharing
        )

    def plain(model: nn.Module) -> tuple[Tensor, ...]:
        return repeated(model, *inputs, temperature=temperature)[: 3 if aux else 2]  # type: ignore[return-value]

    def trained(score: Callable[[nn.Module], tuple[Tensor, ...]], model: nn.Module) -> Any:
        values = score(model)
        assert values[0].shape == inputs[2].shape
        loss = (values[0] * weigh).sum() + (values[1] * weigh_entropy).sum()
        grown = gradients(loss + 3.0 * values[2] if aux else loss, model)
        return tuple(x.detach() for x in values), grown

    truth = in_float64(lambda exact: trained(plain, exact), unpatched or model)
    wanted = trained(plain, model)
    found = trained(shared, model)
    judge(found, wanted, truth)
    assert bool((found[0][0][inputs[3] == 0] == 0).all())
