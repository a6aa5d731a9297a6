"""Shared against repeated prompts: values, entropies and every gradient, in float32."""

from __future__ import annotations

import torch
from memlint_runtime import shared_prompt_logprobs
from memlint_runtime.shared_prompt import Sharing
from torch import Tensor, nn

from tests.runtime.shared_prompt.models import gradients, relative_error, repeated

ALL = Sharing(min_saved_tokens=1)
RELATIVE = 1e-5
# Gradients may be further apart where the plain pass is that far from itself, row by row.
TIMES_ROUNDING = 5


def weights_like(x: Tensor, seed: int = 5) -> Tensor:
    return torch.randn(x.shape, generator=torch.Generator().manual_seed(seed))


def compare(
    model: nn.Module,
    inputs: tuple[Tensor, ...],
    sharing: Sharing = ALL,
    temperature: float = 1.0,
    aux: bool = False,
) -> None:
    """Values, and gradients of a loss that weighs every log-probability and entropy differently."""
    wanted, wanted_entropy, wanted_aux = repeated(model, *inputs, temperature=temperature)
    scores = shared_prompt_logprobs(
        model, *inputs, temperature=temperature, entropy=True, aux_loss=aux, sharing=sharing
    )
    found, entropy = scores[0], scores[1]
    assert found.shape == inputs[2].shape
    weigh, weigh_entropy = weights_like(wanted), weights_like(wanted, 6)

    def loss(logprobs: Tensor, entropies: Tensor, balance: Tensor | None = None) -> Tensor:
        total = (logprobs * weigh).sum() + (entropies * weigh_entropy).sum()
        return total + 3.0 * balance if aux and balance is not None else total

    torch.testing.assert_close(found, wanted, rtol=RELATIVE, atol=RELATIVE)
    torch.testing.assert_close(entropy, wanted_entropy, rtol=RELATIVE, atol=RELATIVE)
    assert bool((found[inputs[3] == 0] == 0).all())
    if aux:
        torch.testing.assert_close(scores[2], wanted_aux, rtol=RELATIVE, atol=RELATIVE)
    ours = gradients(loss(found, entropy, scores[2] if aux else None), model)
    theirs = gradients(loss(wanted, wanted_entropy, wanted_aux), model)
    apart = relative_error(ours, theirs)
    if apart >= RELATIVE and not aux:
        single = [
            repeated(model, *(x[row : row + 1] for x in inputs), temperature=temperature)
            for row in range(len(found))
        ]
        logprobs, entropies = (torch.cat([one[index] for one in single]) for index in (0, 1))
        rounding = relative_error(gradients(loss(logprobs, entropies), model), theirs)
        assert apart < TIMES_ROUNDING * rounding
    else:
        assert apart < RELATIVE
