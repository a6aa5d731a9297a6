"""Attention in plain tensor operations, a block of queries at a time, recomputed in backward.

What: exact attention with soft cap, attention sinks and window, on any device and in any precision
(float32 arithmetic for half-precision inputs).
Why: `scaled_dot_product_attention` knows neither soft caps nor sinks, and compiled FlexAttention
has no backward on CPU. It also returns what the fused kernels hide, and so serves as a reference.
Cost: scores of 256 queries by the keys they see, for all heads, forward and backward; saved for
backward are the inputs, the output and one number per query and head.
Source: Dao, FlashAttention-2, arXiv:2307.08691, for the backward through the log-sum-exp; soft cap
as in Gemma 2, arXiv:2408.00118; sinks as in gpt-oss, arXiv:2508.10925.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

_QUERY_BLOCK = 256


class _Options(NamedTuple):
    lengths: tuple[int, ...]
    scale: float
    window: int | None
    softcap: float | None


def attend_blockwise(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    lengths: Sequence[int],
    *,
    scale: float,
    window: int | None = None,
    softcap: float | None = None,
    sinks: Tensor | None = None,
) -> Tensor:
    """Causal attention within consecutive documents of ``lengths`` tokens.

    query: ``[T, Hq, D]``; key: ``[T, Hk, D]``; value: ``[T, Hk, Dv]`` with T = sum(lengths);
    sinks: ``[Hq]``, a score per head that takes weight and gives no value. Returns ``[T, Hq, Dv]``.
    """
    options = _Options(tuple(lengths), scale, window, softcap)
    out: Tensor = _Blockwise.apply(query, key, value, sinks, options)  # type: ignore[no-untyped-call]
    return out


class _Blockwise(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        sinks: Tensor | None,
        options: _Options,
    ) -> Tensor:
        out = value.new_empty(*query.shape[:2], value.shape[-1])
        lse = query.new_empty(query.shape[:2], dtype=_working_dtype(query))
        for queries, keys in _blocks(options):
            scores, _ = _scores(query, key, queries, keys, options)
            scores = scores if sinks is None else _with_sinks(scores, sinks)
            block_lse = scores.logsumexp(-1)
            seen = scores[..., : keys.stop - keys.start]
            weights = (seen - block_lse[..., None]).exp()
            out[queries] = _ungrouped(weights @ _heads(value[keys])).to(out.dtype)
            lse[queries] = block_lse.flatten(0, 1).T
        ctx.save_for_backward(query, key, value, sinks, out, lse)
        ctx.options = options
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        # A backward call inside autocast would round the products to half precision.
        with torch.autocast(grads[0].device.type, enabled=False):
            return _Blockwise._gradients(ctx, *grads)

    @staticmethod
    def _gradients(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, sinks, out, lse = ctx.saved_tensors
        grad_out = grads[0]
        working = _working_dtype(query)
        grad_query = torch.empty_like(query)
        # Keys are visited by many blocks of queries: their gradients add up in full precision.
        grad_key = torch.zeros_like(key, dtype=working)
        grad_value = torch.zeros_like(value, dtype=working)
        grad_sinks = None if sinks is None else torch.zeros_like(sinks, dtype=working)
        groups = query.shape[1] // key.shape[1]
        for queries, keys in _blocks(ctx.options):
            scores, slope = _scores(query, key, queries, keys, ctx.options)
            block_lse = lse[queries].T.unflatten(0, (-1, groups))
            weights = (scores - block_lse[..., None]).exp()
            grad = _grouped(grad_out[queries], groups)
            # The weights' gradient projected on the softmax: sum over keys of weight times grad.
            delta = (grad * _grouped(out[queries], groups)).sum(-1)
            grad_value[keys] += (weights.mT @ grad).sum(1).transpose(0, 1)
            grad_scores = weights * (grad @ _heads(value[keys]).mT - delta[..., None]) * slope
            grad_query[queries] = _ungrouped(
                grad_scores @ _heads(key[keys]) * ctx.options.scale
            ).to(query.dtype)
            by_key = grad_scores.mT @ _grouped(query[queries], groups)
            grad_key[keys] += by_key.sum(1).transpose(0, 1) * ctx.options.scale
            if grad_sinks is not None:
                sink_weights = (sinks.to(working).view(-1, groups, 1) - block_lse).exp()
                grad_sinks -= (sink_weights * delta).sum(-1).flatten()
        return (
            grad_query,
            grad_key.to(key.dtype),
            grad_value.to(value.dtype),
            None if grad_sinks is None else grad_sinks.to(sinks.dtype),
            None,
        )


def _blocks(options: _Options) -> Iterator[tuple[slice, slice]]:
    """Blocks of queries and the keys that at least one of them sees."""
    first = 0
    for length in options.lengths:
        for start in range(0, length, _QUERY_BLOCK):
            stop = min(start + _QUERY_BLOCK, length)
            reach = 0 if options.window is None else max(0, start - options.window + 1)
            yield slice(first + start, first + stop), slice(first + reach, first + stop)
        first += length


def _scores(
    query: Tensor, key: Tensor, queries: slice, keys: slice, options: _Options
) -> tuple[Tensor, Tensor | float]:
    """Masked scores ``[Hk, Hq / Hk, queries, keys]`` and their derivative by the uncapped ones."""
    groups = query.shape[1] // key.shape[1]
    scores = _grouped(query[queries], groups) @ _heads(key[keys]).mT * options.scale
    slope: Tensor | float = 1.0
    if options.softcap is not None:
        squashed = torch.tanh(scores / options.softcap)
        scores, slope = squashed * options.softcap, 1 - squashed**2
    distance = torch.arange(queries.start, queries.stop, device=query.device)[
        :, None
    ] - torch.arange(keys.start, keys.stop, device=query.device)
    hidden = distance < 0
    if options.window is not None:
        hidden |= distance >= options.window
    return scores.masked_fill(hidden, -torch.inf), slope


def _with_sinks(scores: Tensor, sinks: Tensor) -> Tensor:
    column = sinks.to(scores.dtype).view(*scores.shape[:2], 1, 1)
    return torch.cat([scores, column.expand(*scores.shape[:3], 1)], dim=-1)


def _working_dtype(x: Tensor) -> torch.dtype:
    return torch.promote_types(x.dtype, torch.float32)


def _grouped(x: Tensor, groups: int) -> Tensor:
    """``[L, Hq, D] -> [Hk, groups, L, D]`` in working precision."""
    return torch.unflatten(x.to(_working_dtype(x)).transpose(0, 1), 0, (-1, groups))


def _heads(x: Tensor) -> Tensor:
    """``[L, Hk, D] -> [Hk, 1, L, D]`` in working precision."""
    return x.to(_working_dtype(x)).transpose(0, 1).unsqueeze(1)


def _ungrouped(x: Tensor) -> Tensor:
    """``[Hk, groups, L, D] -> [L, Hq, D]``."""
    return x.flatten(0, 1).transpose(0, 1)
