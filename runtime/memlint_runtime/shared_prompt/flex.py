"""FlexAttention over a prefix tree: deep trees, windows, soft caps and sinks in one kernel.

The block mask is worked out from the tree's two numbers a token, `stop` and `position`, block by
block: T / 128 squared booleans instead of the T x T evaluation that `create_block_mask` makes.
Compiled once with dynamic shapes; lengths are padded to whole blocks by the mask, not the tensors.

Cost: a Triton compilation on first use. Below about 1,000 tokens plain attention is faster.
An outside prefix simply stands before the tree as a run that every token sees.

T packed tokens, P tokens of the prefix, L = P + T keys, H query and K key heads, D head dimension.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask

from memlint_runtime.attention.kernels.flex import attend_flex
from memlint_runtime.shared_prompt.layout import PrefixTree

__all__ = ["BLOCK_TOKENS", "flex_over_tree", "tree_block_mask"]

BLOCK_TOKENS = 128


def flex_over_tree(
    query_THD: Tensor,
    key_TKD: Tensor,
    value_TKD: Tensor,
    block_mask: BlockMask,
    *,
    scale: float,
    softcap: float | None = None,
    sinks_H: Tensor | None = None,
    prefix_key_PKD: Tensor | None = None,
    prefix_value_PKD: Tensor | None = None,
) -> Tensor:
    """Attention of every token under `tree_block_mask`, `[T, H, D]`."""
    if prefix_key_PKD is not None and prefix_value_PKD is not None:
        key_TKD = torch.cat([prefix_key_PKD, key_TKD])
        value_TKD = torch.cat([prefix_value_PKD, value_TKD])
    return attend_flex(
        query_THD, key_TKD, value_TKD, block_mask, scale=scale, softcap=softcap, sinks=sinks_H
    )


def tree_block_mask(
    tree: PrefixTree,
    device: torch.device,
    *,
    window: int | None = None,
    prefix_tokens: int = 0,
    block_tokens: int = BLOCK_TOKENS,
) -> BlockMask:
    """Which blocks of keys each block of queries sees: wholly, in part, or not at all.

    `tree.position` counts from the prefix's end where there is a prefix.
    """
    T, P = tree.num_tokens, prefix_tokens
    stop_T = tree.stop.to(device) + P
    position_T = tree.position.to(device) + P
    ahead = torch.arange(P, device=device)
    stop_L = torch.cat([torch.full_like(ahead, P + T), stop_T])
    position_L = torch.cat([ahead, position_T])

    def sees(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        at = q + P
        seen = (k <= at) & (at < stop_L[k])
        return seen if window is None else seen & (position_T[q] - position_L[k] < window)

    # Extremes of each block. Queries: first and last key index they stand at, positions.
    q_first = torch.arange(0, T, block_tokens, device=device) + P
    q_last = (q_first + block_tokens - 1).clamp(max=P + T - 1)
    q_nearest, q_farthest = _extremes(position_T, block_tokens)
    k_first = torch.arange(0, P + T, block_tokens, device=device)
    k_last = (k_first + block_tokens - 1).clamp(max=P + T - 1)
    stop_least, stop_most = _extremes(stop_L, block_tokens)
    k_nearest, k_farthest = _extremes(position_L, block_tokens)

    touched = (k_first <= q_last[:, None]) & (q_first[:, None] < stop_most)
    whole = (k_last <= q_first[:, None]) & (q_last[:, None] < stop_least)
    if window is not None:
        touched &= q_nearest[:, None] - k_farthest < window
        whole &= q_farthest[:, None] - k_nearest < window
    # A last block that the sequence does not fill must be masked token by token.
    whole &= (q_first + block_tokens <= P + T)[:, None] & (k_first + block_tokens <= P + T)
    partial = touched & ~whole
    return BlockMask.from_kv_blocks(
        *_listed(partial),
        *_listed(whole),
        BLOCK_SIZE=(block_tokens, block_tokens),
        mask_mod=sees,
        seq_lengths=(T, P + T),
    )


def _extremes(values: Tensor, block_tokens: int) -> tuple[Tensor, Tensor]:
    """Least and greatest value in each block, the last block as far as it is filled."""
    missing = -len(values) % block_tokens
    padded = torch.cat([values, values[-1:].expand(missing)]).view(-1, block_tokens)
    return padded.amin(1), padded.amax(1)


def _listed(chosen: Tensor) -> tuple[Tensor, Tensor]:
    """Number of chosen key blocks of each query block, and their indices, chosen ones first."""
    count = chosen.sum(1, dtype=torch.int32)
    order = torch.argsort(chosen.to(torch.int8), dim=1, descending=True, stable=True)
    return count[None, None], order.to(torch.int32)[None, None].contiguous()
