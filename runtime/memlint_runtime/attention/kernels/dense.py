"""The plain answer that every attention path is held to: a mask, a softmax, no cleverness.

What: batch-first attention with soft cap and sinks, whatever the mask; and the mask of a forest,
found by walking every row and not from the packed order's formula.
Why: a decoding step with a cache has one query per row, where ragged kernels gain nothing;
everything else is proved against it.
Cost: queries times keys times heads, in float32.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from memlint_runtime.attention.forest import Forest

__all__ = ["attend_dense", "attend_dense_packed", "dense_mask"]


def attend_dense(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    visible: Tensor,
    *,
    scale: float,
    softcap: float | None = None,
    sinks: Tensor | None = None,
    precision: torch.dtype | None = None,
) -> Tensor:
    """Attention where ``visible`` (bool, broadcast to ``[B, Hq, Q, K]``) is True.

    query: ``[B, Hq, Q, D]``; key: ``[B, Hk, K, D]``; value: ``[B, Hk, K, Dv]``; sinks: ``[Hq]``, a
    score per head that takes weight and gives no value. precision: of scores and weights, by
    default float32 or the query's own if higher. Returns ``[B, Hq, Q, Dv]``. A query that sees
    nothing gets zeros.
    """
    groups = query.shape[1] // key.shape[1]
    working = precision or torch.promote_types(query.dtype, torch.float32)
    key, value = (x.repeat_interleave(groups, dim=1).to(working) for x in (key, value))
    scores = query.to(working) @ key.mT * scale
    if softcap is not None:
        scores = softcap * torch.tanh(scores / softcap)
    scores = scores.masked_fill(~visible, torch.finfo(working).min)
    if sinks is not None:
        column = sinks.to(working).view(1, -1, 1, 1).expand(*scores.shape[:3], 1)
        scores = torch.cat([scores, column], dim=-1)
    weights = scores.softmax(-1)[..., : key.shape[2]].masked_fill(~visible, 0.0)
    return (weights @ value).to(query.dtype)


def attend_dense_packed(
    query: Tensor, key: Tensor, value: Tensor, visible: Tensor, **options: Any
) -> Tensor:
    """`attend_dense` of packed tokens, `[T, H, D]`, under a mask `[T, T]`; its options."""
    q, k, v = (x.transpose(0, 1).unsqueeze(0) for x in (query, key, value))
    out = attend_dense(q, k, v, visible, **options)
    return out[0].transpose(0, 1)


def dense_mask(forest: Forest, window: int | None = None) -> Tensor:
    """What each token sees, `[T, T]` bool, found by walking every row from the root to its end."""
    sees = torch.zeros(forest.num_tokens, forest.num_tokens, dtype=torch.bool)
    paths: list[tuple[int, list[int]]] = []  # (stop, the tokens from the root down to this node)
    for node in forest.nodes:
        while paths and node.start >= paths[-1][0]:
            paths.pop()
        above = paths[-1][1] if paths else []
        path = [*above, *range(node.start, node.end)]
        paths.append((node.stop, path))
        place = torch.arange(len(path))
        distance = place[len(above) :, None] - place
        near = distance >= 0 if window is None else (distance >= 0) & (distance < window)
        sees[node.start : node.end, torch.tensor(path)] = near
    return sees.to(forest.stop.device)
