"""Attention over all documents in one FlexAttention call, with a block mask made analytically.

What: soft caps, attention sinks, windows, float32 and any head size on CUDA.
Why: `create_block_mask` evaluates every pair of tokens; which 128 x 128 blocks a document mask
touches follows from where documents begin, in (T / 128)^2 numbers.
Cost: compiled once with dynamic shapes; below about a thousand tokens slower than dense attention.
Without compilation (CPU) it materializes all scores: for tests only.
Source: Dong et al., Flex Attention, arXiv:2412.05496.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import AuxRequest, BlockMask, flex_attention

from memlint_runtime.attention.kernels.flex_compiled import compiled_flex, soft_cap

BLOCK = 128


def document_block_mask(cu_seqlens: Tensor, tokens: int, window: int | None = None) -> BlockMask:
    """Block mask of causal attention within documents that begin at ``cu_seqlens`` ``[N + 1]``.

    tokens: T, the last entry of ``cu_seqlens``, given so that nothing waits for the device.
    """
    device = cu_seqlens.device
    token = torch.arange(tokens, device=device)
    document = torch.searchsorted(cu_seqlens, token, right=True) - 1
    # The first token that each token sees: never decreases along the row, which is what makes
    # the visible blocks of a row of blocks a range.
    first_seen = cu_seqlens[document].to(token.dtype)
    if window is not None:
        first_seen = torch.maximum(first_seen, token - (window - 1))

    def visible(b: Tensor, h: Tensor, q: Tensor, kv: Tensor) -> Tensor:
        return (kv <= q) & (kv >= first_seen[q])

    num_blocks = -(-tokens // BLOCK)
    block = torch.arange(num_blocks, device=device)
    starts = block * BLOCK
    ends = torch.clamp(starts + BLOCK, max=tokens)
    touched_from = first_seen[starts] // BLOCK
    touched = (block >= touched_from[:, None]) & (block <= block[:, None])
    # Full: the block's last query sees back to the keys' first, and all keys precede all queries.
    # A last block that the row does not fill is partial, as its missing queries see nothing.
    full = (starts >= first_seen[ends - 1][:, None]) & (block < block[:, None])
    full &= ((ends - starts) == BLOCK)[:, None]
    partial_blocks = _ordered(touched & ~full)
    full_blocks = _ordered(full)
    return BlockMask.from_kv_blocks(
        *partial_blocks,
        *full_blocks,
        BLOCK_SIZE=BLOCK,
        mask_mod=visible,
        seq_lengths=(tokens, tokens),
    )


def _ordered(blocks: Tensor) -> tuple[Tensor, Tensor]:
    """``[rows, columns]`` flags as the count per row and the columns, flagged ones first."""
    counts = blocks.sum(-1, dtype=torch.int32)
    columns = torch.argsort(blocks.to(torch.int8), dim=-1, descending=True, stable=True)
    return counts[None, None], columns.to(torch.int32)[None, None]


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
    """Attention under a block mask of ``[T, T]``, such as `document_block_mask` makes.

    query: ``[T, Hq, D]``; key: ``[T, Hk, D]``; value: ``[T, Hk, Dv]``; sinks: ``[Hq]``, a score per
    head that takes weight and gives no value. Returns ``[T, Hq, Dv]``.
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
