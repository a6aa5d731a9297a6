"""Which kernel serves a call: flash on CUDA in half precision, Flex for the rest of CUDA, and on
other devices one fused call per document, or the blockwise reference for soft caps and sinks.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask

from memlint_runtime.attention.kernels.blockwise import attend_blockwise
from memlint_runtime.attention.kernels.flex import attend_flex, document_block_mask
from memlint_runtime.attention.kernels.per_document import attend_per_document
from memlint_runtime.attention.kernels.varlen import attend_varlen, varlen_serves


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
    block_mask: BlockMask | None = None,
) -> Tensor:
    """Causal attention within documents, never across them, and no T x T mask.

    query: ``[T, Hq, D]``; key, value: ``[T, Hk, D]``; cu_seqlens: ``[N + 1]`` int32; window: tokens
    that a token sees, itself included; sinks: ``[Hq]``. lengths and block_mask (of this window)
    save work where the caller has them. Returns ``[T, Hq, D]``.
    """
    plain = softcap is None and sinks is None
    if plain and varlen_serves(query, value):
        return attend_varlen(query, key, value, cu_seqlens, max_length, scale=scale, window=window)
    if query.is_cuda:
        if block_mask is None:
            block_mask = document_block_mask(cu_seqlens, query.shape[0], window)
        return attend_flex(query, key, value, block_mask, scale=scale, softcap=softcap, sinks=sinks)
    attended: Tensor = _attend_on_host(
        query, key, value, cu_seqlens, scale, window, softcap, sinks, lengths
    )
    return attended


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
