"""Attention in plain tensor operations, a block of queries at a time, recomputed in backward.

What: exact attention with soft cap and window, on any device and in any precision (float32
arithmetic for half-precision inputs). `joined` puts the blocks, and attention sinks, together.
Why: `scaled_dot_product_attention` knows no soft caps, compiled FlexAttention has no backward on
CPU, and other devices have neither.
Cost: scores of one block of queries by the keys they see, for all heads, forward and backward;
saved for backward are the inputs, the output and one number per query and head.
Source: Dao, FlashAttention-2, arXiv:2307.08691, for the backward through the log-sum-exp; soft cap
as in Gemma 2, arXiv:2408.00118.

T queries, the last of S consecutive tokens; H query heads, K key heads, D head dimension.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from memlint_runtime.attention.kernels.flash import Attended

__all__ = ["PlainBlocks"]


@dataclass(frozen=True)
class PlainBlocks:
    """A `Kernel` for the last T of S consecutive tokens; its gradients are in working precision.

    window: tokens that a token sees, itself included.
    """

    window: int | None = None
    softcap: float | None = None

    def forward(
        self, query_THD: Tensor, key_SKD: Tensor, value_SKD: Tensor, scale: float
    ) -> tuple[Tensor, Tensor]:
        query = _rows(query_THD, key_SKD.shape[1]).mul(scale)
        scores = self._cap_(query @ _heads(key_SKD).mT)
        self._hide_(scores, len(query_THD))
        highest = scores.amax(-1, keepdim=True)
        weights = scores.sub_(highest).exp_()
        total = weights.sum(-1, keepdim=True)
        out = (weights @ _heads(value_SKD)).div_(total)
        lse_HT = highest.add_(total.log_()).view(query_THD.shape[1], -1)
        return _tokens(out, len(query_THD)).to(value_SKD.dtype), lse_HT

    def backward(self, of: Attended) -> tuple[Tensor, Tensor, Tensor]:
        grad_THD, query_THD, key_SKD, value_SKD, out_THD, lse_HT, scale = of
        T, K = len(query_THD), key_SKD.shape[1]
        query, key = _rows(query_THD, K).mul(scale), _heads(key_SKD)
        scores = self._cap_(query @ key.mT)
        slope = None
        if self.softcap is not None:
            slope = scores.div(self.softcap).square_().neg_().add_(1.0)
        self._hide_(scores, T)
        weights = scores.sub_(lse_HT.reshape(K, -1, 1)).exp_()
        grad = _rows(grad_THD, K)
        # The weights' gradient projected on the softmax: sum over keys of weight times grad.
        delta = (grad * _rows(out_THD, K)).sum(-1, keepdim=True)
        grad_value = weights.mT @ grad
        grad_scores = (grad @ _heads(value_SKD).mT).sub_(delta).mul_(weights)
        if slope is not None:
            grad_scores.mul_(slope)
        grad_query = (grad_scores @ key).mul_(scale)
        grad_key = grad_scores.mT @ query
        return _tokens(grad_query, T), grad_key.transpose(0, 1), grad_value.transpose(0, 1)

    def _cap_(self, scores: Tensor) -> Tensor:
        if self.softcap is not None:
            scores.div_(self.softcap).tanh_().mul_(self.softcap)
        return scores

    def _hide_(self, scores: Tensor, queries: int) -> None:
        """Keys after a query, and those that its window does not reach."""
        keys = scores.shape[-1]
        place = torch.arange(keys, device=scores.device)
        distance = place[keys - queries :, None] - place
        hidden = distance < 0
        if self.window is not None:
            hidden |= distance >= self.window
        torch.unflatten(scores, 1, (-1, queries)).masked_fill_(hidden, -torch.inf)


def _working(x: Tensor) -> Tensor:
    return x.to(torch.promote_types(x.dtype, torch.float32))


def _rows(x_THD: Tensor, key_heads: int) -> Tensor:
    """`[K, H / K x T, D]` in working precision: the queries of one key head are one matrix."""
    return _working(x_THD).transpose(0, 1).reshape(key_heads, -1, x_THD.shape[-1])


def _heads(x_SKD: Tensor) -> Tensor:
    """`[K, S, D]` in working precision."""
    return _working(x_SKD).transpose(0, 1)


def _tokens(x: Tensor, tokens: int) -> Tensor:
    """`_rows` undone: `[T, H, D]`."""
    return torch.unflatten(x, 1, (-1, tokens)).flatten(0, 1).transpose(0, 1)
