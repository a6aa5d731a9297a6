"""Reward model losses over the scores of two answers (Bradley and Terry 1952).

The centering term is of Eisenstein et al., "Helping or Herding?" (2023).
Shapes: B pairs.
"""

from __future__ import annotations

from torch import Tensor
from torch.nn.functional import logsigmoid


def bradley_terry_loss(
    chosen_B: Tensor,
    rejected_B: Tensor,
    *,
    margin_B: Tensor | None = None,
    center_coefficient: float = 0.0,
) -> Tensor:
    """`-log sigmoid(chosen - rejected - margin)` `[B]`, and a pull of the scores' sum to zero."""
    lead = chosen_B - rejected_B
    loss = -logsigmoid(lead if margin_B is None else lead - margin_B)
    if center_coefficient:
        loss = loss + center_coefficient * (chosen_B + rejected_B).square()
    return loss
