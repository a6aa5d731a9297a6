"""The two operations of `tile_ops` as Triton kernels: one pass over a tile each.

Why: in PyTorch each step of a tile's softmax reads and writes the tile again; here a row stays in
registers, and what the next matmul wants is written in its own half precision at once. The matmuls
themselves stay with cuBLAS, which is faster at them than generic kernels.
One program takes one token's row of a tile, in blocks where it is wider than `LARGEST_WIDTH`: a
launch takes the host longer than a GPU needs for a narrow tile.

Shapes: t tokens and v vocabulary entries of a tile.
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

LARGEST_WIDTH = 8192
# Entries at a time of wider tiles.
_WIDE = 4096


@triton.jit
def _transform(raw, scale, softcap, temperature, HAS_CAP: tl.constexpr):
    """Logits, and their derivative by the raw logits."""
    factor = scale / temperature
    if HAS_CAP:
        x = raw * (scale / softcap)
        # tanh from one exponential that cannot overflow
        decay = tl.exp(-2.0 * tl.abs(x))
        size = (1.0 - decay) / (1.0 + decay)
        tanh = tl.where(x < 0.0, -size, size)
        return tanh * (softcap / temperature), (1.0 - tanh * tanh) * factor
    return raw * factor, tl.zeros_like(raw) + factor


@triton.jit
def _absorb_kernel(
    raw_ptr, bias_ptr, column_ptr, maximum_ptr, others_ptr, target_ptr, weighted_ptr,
    logit_sum_ptr, numerator_ptr, rescale_ptr,
    width, raw_stride, numerator_stride, scale, softcap, temperature,
    HAS_BIAS: tl.constexpr, HAS_CAP: tl.constexpr, HAS_WEIGHTED: tl.constexpr,
    HAS_SUM: tl.constexpr, HAS_NUMERATORS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    raw_row_ptr = raw_ptr + row * raw_stride
    column = tl.load(column_ptr + row)
    maximum, others, target = tl.load(maximum_ptr + row), tl.load(others_ptr + row), 0.0
    weighted = tl.load(weighted_ptr + row) if HAS_WEIGHTED else 0.0
    logit_sum = tl.load(logit_sum_ptr + row) if HAS_SUM else 0.0
    # Numerators are of one block: the next would scale them anew.
    for start in range(0, BLOCK if HAS_NUMERATORS else width, BLOCK):
        place = start + tl.arange(0, BLOCK)
        within = place < width
        raw = tl.load(raw_row_ptr + place, mask=within, other=0.0).to(tl.float32)
        if HAS_BIAS:
            raw += tl.load(bias_ptr + place, mask=within, other=0.0).to(tl.float32)
        logits, slope = _transform(raw, scale, softcap, temperature, HAS_CAP)
        is_target = place == column
        if HAS_SUM:
            logit_sum += tl.sum(tl.where(within, logits, 0.0), 0)
        target += tl.sum(tl.where(is_target & within, logits, 0.0), 0)
        competing = tl.where(within & (place != column), logits, float("-inf"))
        former = maximum
        # Finite, so that a tile with nothing but the target subtracts no infinities.
        maximum = tl.maximum(tl.maximum(former, tl.max(competing, 0)), -3.4028234e38)
        kept = tl.exp(former - maximum)
        exponential = tl.exp(competing - maximum)
        others = others * kept + tl.sum(exponential, 0)
        if HAS_WEIGHTED:
            # Minus infinity, where a bias masks an entry, times zero would be NaN.
            product = tl.sum(exponential * tl.where(exponential > 0.0, logits, 0.0), 0)
            weighted = weighted * kept + product
        if HAS_NUMERATORS:
            out = (exponential * slope).to(numerator_ptr.dtype.element_ty)
            tl.store(numerator_ptr + row * numerator_stride + place, out, mask=within)
    if (column >= 0) & (column < width):
        tl.store(target_ptr + row, target)
    tl.store(rescale_ptr + row, tl.exp(tl.load(maximum_ptr + row) - maximum))
    tl.store(maximum_ptr + row, maximum)
    tl.store(others_ptr + row, others)
    if HAS_WEIGHTED:
        tl.store(weighted_ptr + row, weighted)
    if HAS_SUM:
        tl.store(logit_sum_ptr + row, logit_sum)


@triton.jit
def _gradient_kernel(
    raw_ptr, bias_ptr, column_ptr, logsumexp_ptr, target_ptr, share_ptr, slope_ptr, everywhere_ptr,
    out_ptr,
    width, raw_stride, out_stride, scale, softcap, temperature,
    HAS_BIAS: tl.constexpr, HAS_CAP: tl.constexpr, HAS_TARGET: tl.constexpr,
    HAS_SLOPE: tl.constexpr, HAS_EVERYWHERE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    place = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    within = place < width
    raw = tl.load(raw_ptr + row * raw_stride + place, mask=within, other=0.0).to(tl.float32)
    if HAS_BIAS:
        raw += tl.load(bias_ptr + place, mask=within, other=0.0).to(tl.float32)
    logits, derivative = _transform(raw, scale, softcap, temperature, HAS_CAP)
    probability = tl.exp(logits - tl.load(logsumexp_ptr + row))
    share = tl.load(share_ptr + row)
    if HAS_SLOPE:
        # A probability of zero has no logit to speak of: it may be minus infinity.
        share += tl.load(slope_ptr + row) * tl.where(probability > 0.0, logits, 0.0)
    gradient = probability * share
    if HAS_EVERYWHERE:
        gradient += tl.load(everywhere_ptr + row)
    if HAS_TARGET:
        is_target = place == tl.load(column_ptr + row)
        gradient += tl.where(is_target, tl.load(target_ptr + row), 0.0)
    out = (gradient * derivative).to(out_ptr.dtype.element_ty)
    tl.store(out_ptr + row * out_stride + place, out, mask=within)


def absorb_tile(
    raw_tv: Tensor,
    bias_v: Tensor | None,
    transform: LogitTransform,
    column_t: Tensor,
    state: SoftmaxState,
    *,
    numerators: bool,
    dtype: torch.dtype,
) -> tuple[Tensor | None, Tensor]:
    """As `tile_ops.absorb_tile`, the numerators in `dtype`, and `state` changed in place."""
    t, v = raw_tv.shape
    out = None
    if numerators:
        if v > LARGEST_WIDTH:
            raise ValueError(f"a tile with numerators is at most {LARGEST_WIDTH} wide, got {v}")
        out = raw_tv if dtype == raw_tv.dtype else torch.empty_like(raw_tv, dtype=dtype)
    rescale = torch.empty_like(state.maximum)
    if t:
        _absorb_kernel[(t,)](
            raw_tv, bias_v, column_t,
            state.maximum, state.others, state.target, state.weighted, state.logit_sum,
            out, rescale, v, raw_tv.stride(0), 0 if out is None else out.stride(0),
            *constants(transform),
            HAS_BIAS=bias_v is not None, HAS_CAP=transform.softcap is not None,
            HAS_WEIGHTED=state.weighted is not None, HAS_SUM=state.logit_sum is not None,
            HAS_NUMERATORS=numerators, **_launch(v),
        )  # fmt: skip
    return out, rescale


def tile_gradient(
    raw_tv: Tensor,
    bias_v: Tensor | None,
    transform: LogitTransform,
    column_t: Tensor,
    logsumexp_t: Tensor,
    coefficients: GradientCoefficients,
    *,
    dtype: torch.dtype,
) -> Tensor:
    """As `tile_ops.tile_gradient`, the gradient in `dtype`."""
    t, v = raw_tv.shape
    out = raw_tv if dtype == raw_tv.dtype else torch.empty_like(raw_tv, dtype=dtype)
    if t:
        launch = _launch(v)
        _gradient_kernel[(t, triton.cdiv(v, launch["BLOCK"]))](
            raw_tv, bias_v, column_t, logsumexp_t, *coefficients.parts,
            out, v, raw_tv.stride(0), out.stride(0),
            *constants(transform),
            **gradient_flags(bias_v, transform, coefficients), **launch,
        )  # fmt: skip
    return out


def gradient_flags(
    bias_v: Tensor | None, transform: LogitTransform, coefficients: GradientCoefficients
) -> dict[str, bool]:
    """Which of their inputs the kernels of gradients are given."""
    target, _, slope, everywhere = coefficients.parts
    present = (bias_v, transform.softcap, target, slope, everywhere)
    names = ("HAS_BIAS", "HAS_CAP", "HAS_TARGET", "HAS_SLOPE", "HAS_EVERYWHERE")
    return {name: part is not None for name, part in zip(names, present, strict=True)}


def constants(transform: LogitTransform) -> tuple[float, float, float]:
    softcap = 1.0 if transform.softcap is None else transform.softcap
    return float(transform.scale), float(softcap), float(transform.temperature)


def _launch(width: int) -> dict[str, Any]:
    block = triton.next_power_of_2(width)
    if width > LARGEST_WIDTH:
        block = _WIDE
    # Eight entries a thread: with sixteen, registers spill on sm_80 and fewer programs fit.
    return {"BLOCK": block, "num_warps": 4 if block <= 1024 else 8 if block <= 2048 else 16}
