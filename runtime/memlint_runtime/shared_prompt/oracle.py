"""The plain answer that every attention path is held to: a dense mask, a softmax, no cleverness.

The mask comes from the rows themselves and not from the packed order's formula: a token sees those
of its own rows' tokens that are not later than itself. Cost: T x T, for tests and the self-test.

T packed tokens, H query heads, K key heads, D head dimension.
"""

from __future__ import annotations

import torch
from torch import Tensor

from memlint_runtime.shared_prompt.layout import PrefixTree

__all__ = ["dense_attention", "dense_mask"]


def dense_mask(tree: PrefixTree, window: int | None = None) -> Tensor:
    """What each token sees, `[T, T]` bool, found by walking every row from the root to its end."""
    sees = torch.zeros(tree.num_tokens, tree.num_tokens, dtype=torch.bool)
    paths: list[tuple[int, list[int]]] = []  # (stop, the tokens from the root down to this node)
    position = tree.position.cpu()
    for node in tree.nodes:
        while paths and node.start >= paths[-1][0]:
            paths.pop()
        own = list(range(node.start, node.end))
        path = (paths[-1][1] if paths else []) + own
        paths.append((node.stop, path))
        distance = position[own].unsqueeze(1) - position[path]
        near = distance >= 0 if window is None else (distance >= 0) & (distance < window)
        sees[torch.tensor(own).unsqueeze(1), torch.tensor(path)] = near
    return sees.to(tree.position.device)


def dense_attention(
    query_THD: Tensor,
    key_TKD: Tensor,
    value_TKD: Tensor,
    sees_TT: Tensor,
    *,
    scale: float,
    softcap: float | None = None,
    sinks_H: Tensor | None = None,
) -> Tensor:
    """Softmax attention under a mask, `[T, H, D]`, every score held at once.

    sinks_H: a score for each head that takes weight and gives no value.
    """
    groups = query_THD.shape[1] // key_TKD.shape[1]
    key_HTD = key_TKD.repeat_interleave(groups, dim=1).transpose(0, 1)
    value_HTD = value_TKD.repeat_interleave(groups, dim=1).transpose(0, 1)
    scores_HTT = query_THD.transpose(0, 1) @ key_HTD.mT * scale
    if softcap is not None:
        scores_HTT = softcap * torch.tanh(scores_HTT / softcap)
    scores_HTT = scores_HTT.masked_fill(~sees_TT, float("-inf"))
    if sinks_H is None:
        weights_HTT = torch.softmax(scores_HTT, dim=-1)
    else:
        sinks_HT1 = sinks_H[:, None, None].expand(-1, scores_HTT.shape[1], 1)
        joined = torch.cat([scores_HTT, sinks_HT1.to(scores_HTT.dtype)], dim=-1)
        weights_HTT = torch.softmax(joined, dim=-1)[..., :-1]
    return (weights_HTT @ value_HTD).transpose(0, 1)
