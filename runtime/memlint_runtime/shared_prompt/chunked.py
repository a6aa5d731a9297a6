"""Exact attention over a prefix tree with window, soft cap or attention sinks, on any device.

Node by node: the keys of a node are its ancestors' and its own, one contiguous path, so one softmax
is enough and nothing needs joining. Queries go in chunks; a chunk sees only the part of the path
that its window reaches. Windows count positions in a row, not places in the packed order.

Memory: one chunk's mask of at most CHUNK_TOKENS x (path or window), never T x T; with a soft cap
or sinks also one chunk's scores, which are made again in the backward pass. Slower than the kernels
that know windows themselves: the path for CPUs, and the fallback where a GPU lacks those.

T packed tokens, P tokens of an outside prefix, H query heads, K key heads, D head dimension.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from memlint_runtime.shared_prompt.layout import Node, PrefixTree
from memlint_runtime.shared_prompt.oracle import dense_attention

__all__ = ["chunked_attention"]

CHUNK_TOKENS = 512


def chunked_attention(
    query_THD: Tensor,
    key_TKD: Tensor,
    value_TKD: Tensor,
    tree: PrefixTree,
    *,
    scale: float,
    window: int | None = None,
    softcap: float | None = None,
    sinks_H: Tensor | None = None,
    prefix_key_PKD: Tensor | None = None,
    prefix_value_PKD: Tensor | None = None,
    chunk_tokens: int = CHUNK_TOKENS,
) -> Tensor:
    """Attention of every token over its row's earlier tokens within `window`, `[T, H, D]`.

    Token i of the tree stands at its position after the outside prefix, if there is one.
    """
    lengths = [node.end - node.start for node in tree.nodes]
    queries, keys, values = (torch.split(x, lengths) for x in (query_THD, key_TKD, value_TKD))
    path: list[tuple[Node, Tensor, Tensor]] = []
    outputs = []
    for i, node in enumerate(tree.nodes):
        while path and node.start >= path[-1][0].stop:
            path.pop()
        path.append((node, keys[i], values[i]))
        key_SKD = _joined_path([k for _, k, _ in path], prefix_key_PKD)
        value_SKD = _joined_path([v for _, _, v in path], prefix_value_PKD)
        before = key_SKD.shape[0] - lengths[i]  # tokens of the path above this node
        for start in range(0, lengths[i], chunk_tokens):
            chunk = queries[i][start : start + chunk_tokens]
            first, last = before + start, before + start + chunk.shape[0]
            seen = slice(0 if window is None else max(0, first - window + 1), last)
            outputs.append(
                _attend(chunk, key_SKD[seen], value_SKD[seen], scale, window, softcap, sinks_H)
            )
    return torch.cat(outputs)


def _joined_path(parts: list[Tensor], prefix: Tensor | None) -> Tensor:
    every = parts if prefix is None else [prefix, *parts]
    return every[0] if len(every) == 1 else torch.cat(every)


def _attend(
    query_QHD: Tensor,
    key_SKD: Tensor,
    value_SKD: Tensor,
    scale: float,
    window: int | None,
    softcap: float | None,
    sinks_H: Tensor | None,
) -> Tensor:
    """The last Q of S consecutive tokens, each over itself and the S before it in its window."""
    device, Q, S = query_QHD.device, query_QHD.shape[0], key_SKD.shape[0]
    at_Q1 = torch.arange(S - Q, S, device=device).unsqueeze(1)
    at_S = torch.arange(S, device=device)
    sees_QS = at_S <= at_Q1
    if window is not None:
        sees_QS &= at_Q1 - at_S < window
    if softcap is not None or sinks_H is not None:
        plain: Tensor = checkpoint(
            dense_attention, query_QHD, key_SKD, value_SKD, sees_QS,
            scale=scale, softcap=softcap, sinks_H=sinks_H, use_reentrant=False,
        )  # fmt: skip
        return plain
    groups = query_QHD.shape[1] // key_SKD.shape[1]
    return functional.scaled_dot_product_attention(
        query_QHD.transpose(0, 1).unsqueeze(0),
        key_SKD.repeat_interleave(groups, dim=1).transpose(0, 1).unsqueeze(0),
        value_SKD.repeat_interleave(groups, dim=1).transpose(0, 1).unsqueeze(0),
        attn_mask=sees_QS,
        scale=scale,
    )[0].transpose(0, 1)
