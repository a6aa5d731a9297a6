"""Two attention outputs over different keys become one, in place, by one Triton kernel.

Why: in PyTorch each step of the merge reads and writes both outputs again, with two of them in
float32: 34 bytes for each entry; here it is 6, those that must move.

n tokens of the part among T tokens, H query heads, D head dimension.
"""

# Triton gives `jit` no types, and its kernels' parameters are pointers and registers.
# mypy: disable-error-code="untyped-decorator,no-untyped-def"

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

TOKENS, WARPS = 16, 4


@triton.jit
def _merge_kernel(
    out_ptr, lse_ptr, part_ptr, part_lse_ptr, index_ptr, merged_lse_ptr,
    n, first, dimension, out_token_stride, out_head_stride, lse_head_stride, part_token_stride,
    part_head_stride, part_lse_head_stride,
    HAS_INDEX: tl.constexpr, TOKENS: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    # Strides fit 32 bits; a head's place in a long batch need not.
    head = tl.program_id(1).to(tl.int64)
    tokens = tl.program_id(0) * TOKENS + tl.arange(0, TOKENS)
    real = tokens < n
    if HAS_INDEX:
        places = tl.load(index_ptr + tokens, mask=real, other=0).to(tl.int64)
    else:
        places = tokens.to(tl.int64) + first
    lse_at = lse_ptr + head * lse_head_stride + places
    before = tl.load(lse_at, mask=real, other=0.0)
    part_lse_at = part_lse_ptr + head * part_lse_head_stride + tokens
    beside = tl.load(part_lse_at, mask=real, other=0.0)
    # A row always sees itself: the larger of the two is finite.
    highest = tl.maximum(before, beside)
    keep = tl.exp(before - highest)
    take = tl.exp(beside - highest)
    total = keep + take
    # Not in place: every warp reads these log-sum-exps, and one writes them, whenever it comes to.
    merged_lse_at = merged_lse_ptr + head * part_lse_head_stride + tokens
    tl.store(merged_lse_at, highest + tl.log(total), mask=real)
    deep = tl.arange(0, BLOCK_D)
    mask = real[:, None] & (deep < dimension)[None, :]
    out_row = places * out_token_stride + head * out_head_stride
    part_row = tokens.to(tl.int64) * part_token_stride + head * part_head_stride
    out_at = out_ptr + out_row[:, None] + deep[None, :]
    out = tl.load(out_at, mask=mask, other=0.0).to(tl.float32)
    part_at = part_ptr + part_row[:, None] + deep[None, :]
    part = tl.load(part_at, mask=mask, other=0.0).to(tl.float32)
    merged = (out * keep[:, None] + part * take[:, None]) / total[:, None]
    tl.store(out_at, merged.to(out_ptr.dtype.element_ty), mask=mask)


def merge_(
    out_THD: Tensor, lse_HT: Tensor, where: slice | Tensor, part_nHD: Tensor, part_lse_Hn: Tensor
) -> None:
    """Fold a part over other keys into output and log-sum-exp, in place; `where` are its tokens."""
    n, heads, dimension = part_nHD.shape
    if not n:
        return
    if out_THD.stride(2) != 1 or lse_HT.stride(1) != 1:
        # Some attention lays its output out otherwise; the kernel reads neighbours.
        out, lse = out_THD.contiguous(), lse_HT.contiguous()
        merge_(out, lse, where, part_nHD, part_lse_Hn)
        out_THD.copy_(out)
        lse_HT.copy_(lse)
        return
    part_nHD, part_lse_Hn = part_nHD.contiguous(), part_lse_Hn.contiguous()
    merged_lse_Hn = torch.empty_like(part_lse_Hn)
    index, first = (None, where.start or 0) if isinstance(where, slice) else (where, 0)
    _merge_kernel[(triton.cdiv(n, TOKENS), heads)](
        out_THD, lse_HT, part_nHD, part_lse_Hn, index, merged_lse_Hn, n, first, dimension,
        out_THD.stride(0), out_THD.stride(1), lse_HT.stride(0),
        part_nHD.stride(0), part_nHD.stride(1), part_lse_Hn.stride(0),
        HAS_INDEX=index is not None, TOKENS=TOKENS, BLOCK_D=triton.next_power_of_2(dimension),
        num_warps=WARPS,
    )  # fmt: skip
    lse_HT[:, where] = merged_lse_Hn
