"""Attention by whole matrices under a given mask: for decoding with a cache, and as a reference.

What: batch-first attention with soft cap and sinks, whatever the mask.
Why: a decoding step has one query per row, where ragged kernels gain nothing; everything else is
proved against it.
Cost: queries times keys times heads, in float32.
"""

from __future__ import annotations

import torch
from torch import Tensor


def attend_dense(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    visible: Tensor,
    *,
    scale: float,
    softcap: float | None = None,
    sinks: Tensor | None = None,
) -> Tensor:
    """Attention where ``visible`` (bool, broadcast to ``[B, Hq, Q, K]``) is True.

    query: ``[B, Hq, Q, D]``; key: ``[B, Hk, K, D]``; value: ``[B, Hk, K, Dv]``; sinks: ``[Hq]``.
    Returns ``[B, Hq, Q, Dv]``. A query that sees nothing gets zeros.
    """
    groups = query.shape[1] // key.shape[1]
    working = torch.promote_types(query.dtype, torch.float32)
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
