"""The load-balancing loss of mixture-of-experts models, as the repeated batch would count it.

The loss compares how often each expert is chosen with how likely it was, over all tokens. A shared
token goes through the router once but stands for as many tokens as rows pass through it. The loss
of transformers takes a mask as weights, so those counts are its mask: the result is the repeated
batch's own, value and gradient.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel
from transformers.models.mixtral.modeling_mixtral import load_balancing_loss_func

__all__ = ["load_balancing_loss"]


def load_balancing_loss(
    model: PreTrainedModel,
    router_logits: Sequence[Sequence[Tensor]],
    rows_through: Sequence[Tensor],
) -> Tensor:
    """The auxiliary loss of one or more packed rows, each token counted once for every row.

    router_logits: of each packed row, `[T, experts]` of each layer. rows_through: of each, `[T]`.
    Raises ValueError for a model without a router.
    """
    config = model.config.get_text_config()
    experts = getattr(config, "num_experts", None) or getattr(config, "num_local_experts", None)
    if experts is None or not router_logits or not router_logits[0]:
        raise ValueError(f"{type(model).__name__} has no router whose load could be balanced")
    layers = tuple(torch.cat(layer) for layer in zip(*router_logits, strict=True))
    counts = torch.cat(list(rows_through)).to(torch.float32).unsqueeze(0)
    balance: Any = load_balancing_loss_func
    loss: Tensor = balance(layers, experts, config.num_experts_per_tok, counts)
    return loss
