"""Attention one document at a time, by the fused kernel of `scaled_dot_product_attention`.

What: a causal call per document; under a window, calls over blocks of queries that see the keys
their window reaches.
Why: on a CPU there is no kernel for ragged batches, and per document no mask is needed.
Cost: one kernel launch per document; under a window a mask of 512 by (W + 511), never T by T.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

# Queries that share one masked call under a window.
_QUERY_BLOCK = 512


def attend_per_document(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    lengths: Sequence[int],
    *,
    scale: float,
    window: int | None = None,
) -> Tensor:
    """Causal attention within consecutive documents of ``lengths`` tokens.

    query: ``[T, Hq, D]``; key, value: ``[T, Hk, D]`` with T = sum(lengths). Returns ``[T, Hq, D]``.
    """
    # split, not slices: the gradient of a slice is a tensor of full length for each document.
    parts = zip(*(torch.split(x, list(lengths)) for x in (query, key, value)), strict=True)
    return torch.cat([_one_document(q, k, v, scale, window) for q, k, v in parts])


def _one_document(q: Tensor, k: Tensor, v: Tensor, scale: float, window: int | None) -> Tensor:
    # [L, H, D] -> [1, H, L, D]: the fused CPU kernel takes four dimensions.
    q, k, v = (x.transpose(0, 1).unsqueeze(0) for x in (q, k, v))
    length = q.shape[2]
    gqa = q.shape[1] != k.shape[1]
    if window is None or window >= length:
        out = scaled_dot_product_attention(q, k, v, is_causal=True, scale=scale, enable_gqa=gqa)
        return out.squeeze(0).transpose(0, 1)
    blocks = []
    for start in range(0, length, _QUERY_BLOCK):
        stop = min(start + _QUERY_BLOCK, length)
        reach = max(0, start - window + 1)
        distance = torch.arange(start, stop, device=q.device)[:, None] - torch.arange(
            reach, stop, device=q.device
        )
        visible = (distance >= 0) & (distance < window)
        keys, values = k[:, :, reach:stop], v[:, :, reach:stop]
        blocks.append(
            scaled_dot_product_attention(
                q[:, :, start:stop], keys, values, visible, scale=scale, enable_gqa=gqa
            )
        )
    return torch.cat(blocks, dim=2).squeeze(0).transpose(0, 1)
