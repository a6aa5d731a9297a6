"""Which kernel serves a call: flash on CUDA in half precision, Flex for the rest of CUDA, and on
other devices one fused call per document, or the blockwise reference for soft caps and sinks.
"""

from __future__ import annotations

from collections.abc import MutableMapping, Sequence
from typing import Literal, NamedTuple

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask

from memlint_runtime.attention.kernels.blockwise import attend_blockwise
from memlint_runtime.attention.kernels.flex import attend_flex, document_block_mask
from memlint_runtime.attention.kernels.per_document import attend_per_document
from memlint_runtime.attention.kernels.varlen import attend_varlen, varlen_serves

Kernel = Literal["varlen", "flex", "host"]

# Block masks of one forward pass by window, so that its layers share them.
BlockMasks = MutableMapping[int | None, BlockMask]


def attend_documents(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    cu_seqlens: Tensor,
    max_length: int,
    *,
    scale: float,
    window: int | None = None,
    softcap: float | None = None,
    sinks: Tensor | None = None,
    lengths: Sequence[int] | None = None,
    block_masks: BlockMasks | None = None,
) -> Tensor:
    """Causal attention within documents, never across them, and no T x T mask.

    query: ``[T, Hq, D]``; key, value: ``[T, Hk, D]``; cu_seqlens: ``[N + 1]`` int32; window: tokens
    that a token sees, itself included; sinks: ``[Hq]``. lengths (on the host) saves work where the
    caller has them; block_masks, a mapping that is filled, where several calls have the same
    documents. Returns ``[T, Hq, D]``.
    """
    device = query.device.type
    if torch.is_autocast_enabled(device):
        # Rotary embeddings leave queries and keys in float32 under autocast, values are in half.
        half = torch.get_autocast_dtype(device)
        query, key, value = (x.to(half) for x in (query, key, value))
    elif query.dtype != value.dtype:
        query, key = query.to(value.dtype), key.to(value.dtype)
    options = _Options(scale, window, softcap, sinks, lengths, block_masks)
    with torch.autocast(device, enabled=False):
        return _attend(query, key, value, cu_seqlens, max_length, options)


class _Options(NamedTuple):
    scale: float
    window: int | None
    softcap: float | None
    sinks: Tensor | None
    lengths: Sequence[int] | None
    block_masks: BlockMasks | None


def _attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    cu_seqlens: Tensor,
    max_length: int,
    options: _Options,
) -> Tensor:
    scale, window, softcap, sinks, lengths, block_masks = options
    if query.shape[0] == 0:
        return query[..., : value.shape[-1]]
    if window is not None and window >= max_length:
        window = None
    kernel = choose_kernel(query, value, plain=softcap is None and sinks is None)
    if kernel == "varlen":
        return attend_varlen(query, key, value, cu_seqlens, max_length, scale=scale, window=window)
    if kernel == "flex":
        block_mask = _block_mask(cu_seqlens, query.shape[0], window, block_masks)
        return attend_flex(query, key, value, block_mask, scale=scale, softcap=softcap, sinks=sinks)
    attended: Tensor = _attend_on_host(
        query, key, value, cu_seqlens, scale, window, softcap, sinks, lengths
    )
    return attended


def choose_kernel(query: Tensor, value: Tensor, *, plain: bool) -> Kernel:
    """Kernel for ``[T, H, D]`` tensors; plain: neither a soft cap nor sinks."""
    if plain and varlen_serves(query, value):
        return "varlen"
    return "flex" if query.is_cuda else "host"


def _block_mask(
    cu_seqlens: Tensor, tokens: int, window: int | None, block_masks: BlockMasks | None
) -> BlockMask:
    # While compiling, the compiler merges what layers compute alike; a mapping would be in its way.
    if block_masks is None or torch.compiler.is_compiling():
        return document_block_mask(cu_seqlens, tokens, window)
    if window not in block_masks:
        block_masks[window] = document_block_mask(cu_seqlens, tokens, window)
    return block_masks[window]


@torch.compiler.disable  # type: ignore[untyped-decorator]
def _attend_on_host(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    cu_seqlens: Tensor,
    scale: float,
    window: int | None,
    softcap: float | None,
    sinks: Tensor | None,
    lengths: Sequence[int] | None,
) -> Tensor:
    if lengths is None:
        lengths = cu_seqlens.diff().tolist()
    # The fused kernel falls back to whole matrices when the sizes of keys and values differ.
    if softcap is None and sinks is None and query.shape[-1] == value.shape[-1]:
        return attend_per_document(query, key, value, lengths, scale=scale, window=window)
    return attend_blockwise(
        query, key, value, lengths, scale=scale, window=window, softcap=softcap, sinks=sinks
    )
