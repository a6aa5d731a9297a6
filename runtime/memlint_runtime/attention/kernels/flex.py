"""Attention over a forest in one FlexAttention call, with a block mask made analytically.

What: soft caps, attention sinks, windows, deep trees, float32 and any head size on CUDA.
Why: `create_block_mask` evaluates every pair of tokens; which 128 x 128 blocks a forest's mask
touches follows from two numbers a token, `stop` and `position`, in (T / 128)^2 booleans. Nothing
waits for the device, and lengths are padded to whole blocks by the mask, not the tensors.
Cost: compiled once with dynamic shapes; below about a thousand tokens slower than dense attention.
Without compilation (CPU) it materializes all scores: for tests only.
Source: Dong et al., Flex Attention, arXiv:2412.05496.

T packed tokens, P tokens of an outside prefix, which simply stands before the forest as a run that
every token sees; L = P + T keys.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import AuxRequest, BlockMask, flex_attention

from memlint_runtime.attention.forest import Forest
from memlint_runtime.attention.kernels.flex_compiled import compiled_flex, soft_cap

__all__ = ["BLOCK_TOKENS", "attend_flex", "forest_block_mask"]

BLOCK_TOKENS = 128


def forest_block_mask(
    forest: Forest,
    device: torch.device,
    *,
    window: int | None = None,
    prefix_tokens: int = 0,
    block_tokens: int = BLOCK_TOKENS,
) -> BlockMask:
    """Which blocks of keys each block of queries sees: wholly, in part, or not at all."""
    T, P = forest.num_tokens, prefix_tokens
    ahead = torch.arange(P, device=device)
    stop_L = torch.cat([torch.full_like(ahead, P + T), forest.stop.to(device) + P])
    position_L = torch.cat([ahead, forest.position.to(device) + P])
    if window is not None and forest.depth == 1 and not P:
        # Where nothing branches, a window is a nearer stop: the blocks are the very ones.
        stop_L = torch.minimum(stop_L, torch.arange(T, device=device) + window)
        window = None

    def sees(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        at = q + P
        seen = (k <= at) & (at < stop_L[k])
        return seen if window is None else seen & (position_L[at] - position_L[k] < window)

    # Of each block: first and last index among the keys, least and greatest stop and position.
    q_first, q_last = _bounds(P, P + T, block_tokens, device)
    k_first, k_last = _bounds(0, P + T, block_tokens, device)
    stop_least, stop_most = _extremes(stop_L, k_first, block_tokens)
    touched = (k_first <= q_last[:, None]) & (q_first[:, None] < stop_most)
    whole = (k_last <= q_first[:, None]) & (q_last[:, None] < stop_least)
    if window is not None:
        q_nearest, q_farthest = _extremes(position_L, q_first, block_tokens)
        k_nearest, k_farthest = _extremes(position_L, k_first, block_tokens)
        touched &= q_nearest[:, None] - k_farthest < window
        whole &= q_farthest[:, None] - k_nearest < window
    # A last block that the sequence does not fill must be masked token by token.
    whole &= (q_first + block_tokens <= P + T)[:, None] & (k_first + block_tokens <= P + T)
    return BlockMask.from_kv_blocks(
        *_listed(touched & ~whole),
        *_listed(whole),
        BLOCK_SIZE=(block_tokens, block_tokens),
        mask_mod=sees,
        seq_lengths=(T, P + T),
    )


def _bounds(
    start: int, stop: int, block_tokens: int, device: torch.device
) -> tuple[Tensor, Tensor]:
    """First and last index of each block of `start:stop`, the last as far as it is filled."""
    blocks = -(-(stop - start) // block_tokens)
    first = torch.arange(blocks, device=device) * block_tokens + start
    return first, (first + block_tokens - 1).clamp(max=stop - 1)


def _extremes(values: Tensor, first: Tensor, block_tokens: int) -> tuple[Tensor, Tensor]:
    """Least and greatest value in each block from `first` on."""
    place = first[:, None] + torch.arange(block_tokens, device=first.device)
    inside = values[place.clamp(max=values.shape[0] - 1)]
    return inside.amin(1), inside.amax(1)


def _listed(chosen: Tensor) -> tuple[Tensor, Tensor]:
    """Number of chosen key blocks of each query block, and their indices, chosen ones first."""
    count = chosen.sum(1, dtype=torch.int32)
    order = torch.argsort(chosen.to(torch.int8), dim=1, descending=True, stable=True)
    return count[None, None], order.to(torch.int32)[None, None].contiguous()


def attend_flex(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    block_mask: BlockMask,
    *,
    scale: float,
    softcap: float | None = None,
    sinks: Tensor | None = None,
) -> Tensor:
    """Attention under a block mask of `[T, L]`, such as `forest_block_mask` makes.

    query: `[T, H, D]`; key: `[L, K, D]`; value: `[L, K, D']`; sinks: `[H]`, a score for each head
    that takes weight and gives no value. Returns `[T, H, D']`.
    """
    groups = query.shape[1] // key.shape[1]
    if groups & (groups - 1):
        # The grouped kernel takes powers of two only.
        key, value = (x.repeat_interleave(groups, dim=1) for x in (key, value))
        groups = 1
    q, k, v = (x.transpose(0, 1).unsqueeze(0) for x in (query, key, value))
    out, aux = _flex(q.is_cuda)(
        q,
        k,
        v,
        score_mod=None if softcap is None else soft_cap(softcap, query.device),
        block_mask=block_mask,
        scale=scale,
        enable_gqa=groups > 1,
        return_aux=AuxRequest(lse=True),
    )
    if sinks is not None:
        # The sink joins the softmax's denominator: exp(lse) / (exp(lse) + exp(sink)).
        kept = torch.sigmoid(aux.lse - sinks.to(aux.lse.dtype)[None, :, None])
        out = (out * kept[..., None]).to(value.dtype)
    attended: Tensor = out.squeeze(0).transpose(0, 1)
    return attended


def _flex(on_gpu: bool) -> Callable[..., Any]:
    if torch.compiler.is_compiling() or not on_gpu:
        return flex_attention
    return compiled_flex()
