"""Attention over all documents in one call of torch's variable-length flash kernel.

What: `torch.nn.attention.varlen.varlen_attn`, causal, with an optional window.
Why: one launch, no mask, no padding, no flash-attn package.
Cost: CUDA from compute capability 8.0, half precision, head sizes up to 256 in steps of 8. It
drops the gradient through its log-sum-exp, so sinks must not be built on it.
"""

from __future__ import annotations

import inspect
from functools import cache
from typing import Any

import torch
from torch import Tensor

_LARGEST_HEAD = 256


def varlen_serves(query: Tensor, value: Tensor) -> bool:
    """Whether the kernel takes these ``[T, H, D]`` tensors; no soft cap, no sinks."""
    size = query.shape[-1]
    return (
        query.is_cuda
        and torch.version.hip is None
        and query.dtype in (torch.float16, torch.bfloat16)
        and value.shape[-1] == size <= _LARGEST_HEAD
        and size % 8 == 0
        and _has_flash_kernel(query.device.index)
    )


@cache
def _has_flash_kernel(device_index: int) -> bool:
    return torch.cuda.get_device_capability(device_index) >= (8, 0)


@cache
def _takes_grouped_heads() -> bool:
    from torch.nn.attention.varlen import varlen_attn

    return "enable_gqa" in inspect.signature(varlen_attn).parameters


def attend_varlen(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    cu_seqlens: Tensor,
    max_length: int,
    *,
    scale: float,
    window: int | None = None,
) -> Tensor:
    """Causal attention within documents that begin at ``cu_seqlens`` ``[N + 1]`` (int32).

    query: ``[T, Hq, D]``; key, value: ``[T, Hk, D]``. Returns ``[T, Hq, D]``.
    """
    from torch.nn.attention.varlen import varlen_attn

    groups = query.shape[1] // key.shape[1]
    gqa: dict[str, Any] = {}
    if groups > 1 and _takes_grouped_heads():
        gqa = {"enable_gqa": True}
    elif groups > 1:
        key, value = (x.repeat_interleave(groups, dim=1) for x in (key, value))
    # The kernel counts the tokens before a query, transformers the query too.
    left = -1 if window is None else window - 1
    out = varlen_attn(
        query,
        key,
        value,
        cu_seqlens,
        cu_seqlens,
        max_length,
        max_length,
        scale=scale,
        window_size=(left, 0),
        **gqa,
    )
    assert isinstance(out, Tensor)
    return out
