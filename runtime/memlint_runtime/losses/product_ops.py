"""A tile of logits and what becomes of it as one Triton kernel: the logits stay in registers.

What: `absorb_product` multiplies hidden states and weights and folds the logits into the running
softmax statistics; only a maximum and a sum of each block's row are written. `product_gradient`
multiplies and writes the gradient by the raw logits in half precision, ready for the matmuls that
follow. Both take the place of a matmul with float32 results and of a pass over them: of 10 bytes
for each entry of the tile nothing is left in the first, 2 in the second.
Why only where no matmul follows in the forward pass: numerators under a maximum that still grows
would have to be scaled again, block by block.
Cost: Triton's matmul in place of cuBLAS's. On an A100 the former was measured at two thirds of the
peak, the latter at four fifths; see `tests/bench/roofline.py`.
Source of the fused statistics: Wijmans et al., "Cut Your Losses in Large-Vocabulary Language
Models" (2024).

Shapes: t tokens, v vocabulary entries, D hidden size, n blocks of BLOCK_V entries.
"""

# Triton gives `jit` no types, and its kernels' parameters are pointers and registers.
# mypy: disable-error-code="untyped-decorator,no-untyped-def"

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from memlint_runtime.losses.tile_ops import GradientCoefficients, LogitTransform, SoftmaxState
from memlint_runtime.losses.triton_ops import _transform, constants, gradient_flags

# Token blocks that share a pass over the weights, so that the second-level cache serves them.
_GROUP = 8
SMALLEST_BLOCK = 128
_MERGED_ROWS = 32


@triton.jit
def _block(t, v, BLOCK_T: tl.constexpr, BLOCK_V: tl.constexpr, GROUP: tl.constexpr):
    """The tokens of this program and its first entry: groups of token blocks, entry by entry."""
    program = tl.program_id(0)
    token_blocks = tl.cdiv(t, BLOCK_T)
    in_group = GROUP * tl.cdiv(v, BLOCK_V)
    first = program // in_group * GROUP
    size = tl.minimum(token_blocks - first, GROUP)
    token_block = first + program % in_group % size
    entry_block = program % in_group // size
    return token_block * BLOCK_T + tl.arange(0, BLOCK_T), entry_block * BLOCK_V


@triton.jit
def _product(
    hidden_ptr, weight_ptr,
    rows, first, t, v, depth, hidden_stride, weight_stride,
    BLOCK_T: tl.constexpr, BLOCK_V: tl.constexpr, BLOCK_D: tl.constexpr, EVEN: tl.constexpr,
):  # fmt: skip
    """Raw logits in float32. Rows and entries past the end repeat others."""
    deep = tl.arange(0, BLOCK_D)
    places = first + tl.arange(0, BLOCK_V)
    hidden_row = (rows % t).to(tl.int64) * hidden_stride
    weight_row = (places % v).to(tl.int64) * weight_stride
    hidden_at = hidden_ptr + hidden_row[:, None] + deep[None, :]
    weight_at = weight_ptr + weight_row[None, :] + deep[:, None]
    total = tl.zeros((BLOCK_T, BLOCK_V), dtype=tl.float32)
    for start in range(0, depth, BLOCK_D):
        if EVEN:
            hidden = tl.load(hidden_at)
            weight = tl.load(weight_at)
        else:
            within = deep < depth - start
            hidden = tl.load(hidden_at, mask=within[None, :], other=0.0)
            weight = tl.load(weight_at, mask=within[:, None], other=0.0)
        total = tl.dot(hidden, weight, total, input_precision="ieee")
        hidden_at += BLOCK_D
        weight_at += BLOCK_D
    return total


@triton.jit
def _halves(raw, BLOCK_T: tl.constexpr, BLOCK_V: tl.constexpr):
    """The block's first entries and its last, so that what follows needs registers for one half."""
    return tl.split(tl.permute(tl.reshape(raw, (BLOCK_T, 2, BLOCK_V // 2)), (0, 2, 1)))


@triton.jit
def _absorb_half(
    raw, rows, first, t, v, column,
    bias_ptr, target_ptr, highest_ptr, others_ptr, weighted_ptr, logit_sum_ptr,
    scale, softcap, temperature,
    HAS_BIAS: tl.constexpr, HAS_CAP: tl.constexpr, HAS_WEIGHTED: tl.constexpr,
    HAS_SUM: tl.constexpr, HALF: tl.constexpr,
):  # fmt: skip
    places = first + tl.arange(0, HALF)
    real, within = rows < t, places < v
    if HAS_BIAS:
        raw += tl.load(bias_ptr + places, mask=within, other=0.0).to(tl.float32)[None, :]
    logits, _ = _transform(raw, scale, softcap, temperature, HAS_CAP)
    is_target = places[None, :] == column[:, None]
    out = (first // HALF).to(tl.int64) * t + rows
    if HAS_SUM:
        total = tl.sum(tl.where(within[None, :], logits, 0.0), 1)
        tl.store(logit_sum_ptr + out, total, mask=real)
    here = (column >= first) & (column < first + HALF) & (column < v)
    chosen = tl.sum(tl.where(is_target, logits, 0.0), 1)
    tl.store(target_ptr + rows, chosen, mask=real & here)
    competing = tl.where(is_target | (places >= v)[None, :], -float("inf"), logits)
    # Finite, so that entries with nothing but the target subtract no infinities.
    highest = tl.maximum(tl.max(competing, 1), -3.4028234e38)
    exponential = tl.exp(competing - highest[:, None])
    tl.store(highest_ptr + out, highest, mask=real)
    tl.store(others_ptr + out, tl.sum(exponential, 1), mask=real)
    if HAS_WEIGHTED:
        # Minus infinity, where a bias masks an entry, times zero would be NaN.
        product = exponential * tl.where(exponential > 0.0, competing, 0.0)
        tl.store(weighted_ptr + out, tl.sum(product, 1), mask=real)


@triton.jit
def _absorb_product_kernel(
    hidden_ptr, weight_ptr, bias_ptr, column_ptr, target_ptr, highest_ptr, others_ptr,
    weighted_ptr, logit_sum_ptr,
    t, v, depth, hidden_stride, weight_stride, scale, softcap, temperature,
    HAS_BIAS: tl.constexpr, HAS_CAP: tl.constexpr, HAS_WEIGHTED: tl.constexpr,
    HAS_SUM: tl.constexpr, EVEN: tl.constexpr, BLOCK_T: tl.constexpr, BLOCK_V: tl.constexpr,
    BLOCK_D: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    rows, first = _block(t, v, BLOCK_T, BLOCK_V, GROUP)
    raw = _product(
        hidden_ptr, weight_ptr, rows, first, t, v, depth, hidden_stride, weight_stride,
        BLOCK_T, BLOCK_V, BLOCK_D, EVEN,
    )  # fmt: skip
    column = tl.load(column_ptr + rows, mask=rows < t, other=-1)
    left, right = _halves(raw, BLOCK_T, BLOCK_V)
    _absorb_half(
        left, rows, first, t, v, column, bias_ptr, target_ptr, highest_ptr, others_ptr,
        weighted_ptr, logit_sum_ptr, scale, softcap, temperature,
        HAS_BIAS, HAS_CAP, HAS_WEIGHTED, HAS_SUM, BLOCK_V // 2,
    )  # fmt: skip
    _absorb_half(
        right, rows, first + BLOCK_V // 2, t, v, column, bias_ptr, target_ptr, highest_ptr,
        others_ptr, weighted_ptr, logit_sum_ptr, scale, softcap, temperature,
        HAS_BIAS, HAS_CAP, HAS_WEIGHTED, HAS_SUM, BLOCK_V // 2,
    )  # fmt: skip


@triton.jit
def _gradient_half(
    raw, rows, first, t, v,
    bias_ptr, column_ptr, logsumexp_ptr, target_ptr, share_ptr, slope_ptr, everywhere_ptr, out_ptr,
    out_stride, scale, softcap, temperature,
    HAS_BIAS: tl.constexpr, HAS_CAP: tl.constexpr, HAS_TARGET: tl.constexpr,
    HAS_SLOPE: tl.constexpr, HAS_EVERYWHERE: tl.constexpr, HALF: tl.constexpr,
):  # fmt: skip
    places = first + tl.arange(0, HALF)
    real, within = rows < t, places < v
    if HAS_BIAS:
        raw += tl.load(bias_ptr + places, mask=within, other=0.0).to(tl.float32)[None, :]
    logits, derivative = _transform(raw, scale, softcap, temperature, HAS_CAP)
    logsumexp = tl.load(logsumexp_ptr + rows, mask=real, other=0.0)
    gradient = tl.exp(logits - logsumexp[:, None])
    share = tl.load(share_ptr + rows, mask=real, other=0.0)
    if HAS_SLOPE:
        slope = tl.load(slope_ptr + rows, mask=real, other=0.0)
        finite = tl.where(gradient > 0.0, logits, 0.0)
        gradient *= share[:, None] + slope[:, None] * finite
    else:
        gradient *= share[:, None]
    if HAS_EVERYWHERE:
        gradient += tl.load(everywhere_ptr + rows, mask=real, other=0.0)[:, None]
    if HAS_TARGET:
        column = tl.load(column_ptr + rows, mask=real, other=-1)
        target = tl.load(target_ptr + rows, mask=real, other=0.0)
        gradient = tl.where(places[None, :] == column[:, None], target[:, None], gradient)
    out = (gradient * derivative).to(out_ptr.dtype.element_ty)
    at = out_ptr + rows.to(tl.int64)[:, None] * out_stride + places[None, :]
    tl.store(at, out, mask=real[:, None] & within[None, :])


@triton.jit
def _product_gradient_kernel(
    hidden_ptr, weight_ptr, bias_ptr, column_ptr, logsumexp_ptr, target_ptr, share_ptr, slope_ptr,
    everywhere_ptr, out_ptr,
    t, v, depth, hidden_stride, weight_stride, out_stride, scale, softcap, temperature,
    HAS_BIAS: tl.constexpr, HAS_CAP: tl.constexpr, HAS_TARGET: tl.constexpr,
    HAS_SLOPE: tl.constexpr, HAS_EVERYWHERE: tl.constexpr, EVEN: tl.constexpr,
    BLOCK_T: tl.constexpr, BLOCK_V: tl.constexpr, BLOCK_D: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    rows, first = _block(t, v, BLOCK_T, BLOCK_V, GROUP)
    raw = _product(
        hidden_ptr, weight_ptr, rows, first, t, v, depth, hidden_stride, weight_stride,
        BLOCK_T, BLOCK_V, BLOCK_D, EVEN,
    )  # fmt: skip
    left, right = _halves(raw, BLOCK_T, BLOCK_V)
    _gradient_half(
        left, rows, first, t, v, bias_ptr, column_ptr, logsumexp_ptr, target_ptr, share_ptr,
        slope_ptr, everywhere_ptr, out_ptr, out_stride, scale, softcap, temperature,
        HAS_BIAS, HAS_CAP, HAS_TARGET, HAS_SLOPE, HAS_EVERYWHERE, BLOCK_V // 2,
    )  # fmt: skip
    _gradient_half(
        right, rows, first + BLOCK_V // 2, t, v, bias_ptr, column_ptr, logsumexp_ptr, target_ptr,
        share_ptr, slope_ptr, everywhere_ptr, out_ptr, out_stride, scale, softcap, temperature,
        HAS_BIAS, HAS_CAP, HAS_TARGET, HAS_SLOPE, HAS_EVERYWHERE, BLOCK_V // 2,
    )  # fmt: skip


@triton.jit
def _merge_kernel(
    highest_ptr, others_ptr, weighted_ptr, logit_sum_ptr, maximum_ptr, all_others_ptr,
    all_weighted_ptr, all_sum_ptr,
    t, n,
    HAS_WEIGHTED: tl.constexpr, HAS_SUM: tl.constexpr, BLOCK_T: tl.constexpr,
    BLOCK_N: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0) * BLOCK_T + tl.arange(0, BLOCK_T)
    real = rows < t
    before = tl.load(maximum_ptr + rows, mask=real, other=0.0)
    maximum = before
    for start in range(0, n, BLOCK_N):
        blocks = start + tl.arange(0, BLOCK_N)
        at = blocks.to(tl.int64)[:, None] * t + rows[None, :]
        mask = (blocks < n)[:, None] & real[None, :]
        highest = tl.load(highest_ptr + at, mask=mask, other=float("-inf"))
        maximum = tl.maximum(maximum, tl.max(highest, 0))
    rescale = tl.exp(before - maximum)
    others = tl.load(all_others_ptr + rows, mask=real, other=0.0) * rescale
    weighted = tl.zeros_like(others)
    logit_sum = tl.zeros_like(others)
    if HAS_WEIGHTED:
        weighted = tl.load(all_weighted_ptr + rows, mask=real, other=0.0) * rescale
    if HAS_SUM:
        logit_sum = tl.load(all_sum_ptr + rows, mask=real, other=0.0)
    for start in range(0, n, BLOCK_N):
        blocks = start + tl.arange(0, BLOCK_N)
        at = blocks.to(tl.int64)[:, None] * t + rows[None, :]
        mask = (blocks < n)[:, None] & real[None, :]
        highest = tl.load(highest_ptr + at, mask=mask, other=float("-inf"))
        factor = tl.exp(highest - maximum[None, :])
        others += tl.sum(tl.load(others_ptr + at, mask=mask, other=0.0) * factor, 0)
        if HAS_WEIGHTED:
            weighted += tl.sum(tl.load(weighted_ptr + at, mask=mask, other=0.0) * factor, 0)
        if HAS_SUM:
            logit_sum += tl.sum(tl.load(logit_sum_ptr + at, mask=mask, other=0.0), 0)
    tl.store(maximum_ptr + rows, maximum, mask=real)
    tl.store(all_others_ptr + rows, others, mask=real)
    if HAS_WEIGHTED:
        tl.store(all_weighted_ptr + rows, weighted, mask=real)
    if HAS_SUM:
        tl.store(all_sum_ptr + rows, logit_sum, mask=real)


def absorb_product(
    hidden_tD: Tensor,
    weight_vD: Tensor,
    bias_v: Tensor | None,
    transform: LogitTransform,
    column_t: Tensor,
    state: SoftmaxState,
) -> None:
    """Fold the tile `hidden @ weight.T` into `state`; `column_t` as in `tile_ops.absorb_tile`.

    Takes two to four values of each token for every half block beside its arguments.
    """
    t, v = hidden_tD.shape[0], weight_vD.shape[0]
    has_weighted, has_sum = state.weighted is not None, state.logit_sum is not None
    if not t:
        return
    launch = _launch(hidden_tD, absorb_extras(has_weighted, has_sum))
    n = 2 * triton.cdiv(v, launch["BLOCK_V"])
    highest_nt, others_nt, weighted_nt, sum_nt = (
        torch.empty(n, t, dtype=state.maximum.dtype, device=hidden_tD.device) if present else None
        for present in (True, True, has_weighted, has_sum)
    )
    _absorb_product_kernel[_grid(t, v, launch)](
        hidden_tD, weight_vD, bias_v, column_t,
        state.target, highest_nt, others_nt, weighted_nt, sum_nt,
        t, v, hidden_tD.shape[1], hidden_tD.stride(0), weight_vD.stride(0),
        *constants(transform),
        HAS_BIAS=bias_v is not None, HAS_CAP=transform.softcap is not None,
        HAS_WEIGHTED=has_weighted, HAS_SUM=has_sum, **launch,
    )  # fmt: skip
    _merge_kernel[(triton.cdiv(t, _MERGED_ROWS),)](
        highest_nt, others_nt, weighted_nt, sum_nt,
        state.maximum, state.others, state.weighted, state.logit_sum, t, n,
        HAS_WEIGHTED=has_weighted, HAS_SUM=has_sum, BLOCK_T=_MERGED_ROWS, BLOCK_N=32,
    )  # fmt: skip


def product_gradient(
    hidden_tD: Tensor,
    weight_vD: Tensor,
    bias_v: Tensor | None,
    transform: LogitTransform,
    column_t: Tensor,
    logsumexp_t: Tensor,
    coefficients: GradientCoefficients,
    *,
    dtype: torch.dtype,
) -> Tensor:
    """The gradient `[t, v]` in `dtype` by the raw logits `hidden @ weight.T`.

    As `tile_ops.tile_gradient`, but `coefficients.target` is the whole gradient by the target's
    logit, not what is added to the softmax's.
    """
    t, v = hidden_tD.shape[0], weight_vD.shape[0]
    out = torch.empty(t, v, dtype=dtype, device=hidden_tD.device)
    if not t:
        return out
    extras = (transform.softcap, bias_v, coefficients.slope, coefficients.everywhere)
    launch = _launch(hidden_tD, gradient_extras(*(extra is not None for extra in extras)))
    _product_gradient_kernel[_grid(t, v, launch)](
        hidden_tD, weight_vD, bias_v, column_t, logsumexp_t, *coefficients.parts, out,
        t, v, hidden_tD.shape[1], hidden_tD.stride(0), weight_vD.stride(0), out.stride(0),
        *constants(transform), **gradient_flags(bias_v, transform, coefficients), **launch,
    )  # fmt: skip
    return out


def _grid(t: int, v: int, launch: dict[str, Any]) -> tuple[int]:
    return (triton.cdiv(t, launch["BLOCK_T"]) * triton.cdiv(v, launch["BLOCK_V"]),)


def _launch(hidden_tD: Tensor, extras: int) -> dict[str, Any]:
    capability = (8, 0)
    if hidden_tD.device.type == "cuda":
        capability = torch.cuda.get_device_capability(hidden_tD.device)
    return launch_constants(
        10 * capability[0] + capability[1], int(hidden_tD.shape[1]), extras=extras
    )


def absorb_extras(has_weighted: bool, has_sum: bool) -> int:
    """`extras` of `launch_constants` for the kernel that reduces."""
    return 2 if has_weighted or has_sum else 0


def gradient_extras(has_cap: bool, has_bias: bool, has_slope: bool, has_everywhere: bool) -> int:
    """`extras` of `launch_constants` for the kernel that writes gradients."""
    return has_cap + has_bias + has_slope + has_everywhere


def launch_constants(capability: int, depth: int, *, extras: int) -> dict[str, Any]:
    """Blocks, warps and stages for a compute capability such as 90.

    extras: what is held of each entry beside its logit. With more than there are registers for,
    which on sm_80 hold the product too, half as many entries make a block.
    """
    # Data centre GPUs have shared memory for three blocks of 48 KiB, others for three of 16.
    large = capability in (80, 90, 100, 103)
    deep = 64 if large and capability != 80 else 32
    room = 0 if capability == 80 else 1
    return {
        "EVEN": depth % deep == 0,
        "BLOCK_T": 128,
        "BLOCK_V": 256 if large and extras <= room else SMALLEST_BLOCK,
        "BLOCK_D": deep,
        "GROUP": _GROUP,
        "num_warps": 8,
        "num_stages": 4 if capability == 80 else 3,
    }
