"""Token statistics as operators that torch.compile takes whole.

Why: traced, the loop over tiles would unroll into thousands of nodes. As an operator it is one
node, with shapes known from the inputs; what runs is the same as in eager mode. Shapes may not
depend on which tokens count, so backward finds them again; and it may change no input, so that the
kept gradient is copied.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from memlint_runtime.losses.passes import (
    PassOptions,
    backward_pass,
    counted_rows,
    forward_pass,
    spread_rows,
)
from memlint_runtime.losses.tile_ops import LogitTransform


def compiled_statistics(
    options: PassOptions, target: Tensor, bias: Tensor | None, *tensors: Tensor
) -> tuple[Tensor | None, ...]:
    """logprob, is_top, logsumexp, entropy and mean logit `[T]`, those not asked for None."""
    pairs = len(tensors) // 2
    hiddens, weights = tensors[:pairs], tensors[pairs:]
    transform = options.transform
    held = sum(hidden.nbytes for hidden, keep in zip(hiddens, options.keeps, strict=True) if keep)
    keeps = [keep and held <= options.workspace_bytes for keep in options.keeps]
    logprob, logsumexp, entropy, mean, is_top, *_ = _forward_op(
        target,
        bias,
        list(hiddens),
        list(weights),
        transform.scale,
        transform.softcap,
        transform.temperature,
        options.compute_dtype,
        options.workspace_bytes,
        options.logsumexp,
        options.entropy,
        options.mean_logit,
        keeps,
    )
    extras: tuple[Tensor | None, ...] = (
        logsumexp if options.logsumexp else None,
        entropy if options.entropy else None,
        mean if options.mean_logit else None,
    )
    if not options.extras_differentiable:
        extras = tuple(None if extra is None else extra.detach() for extra in extras)
    return logprob, is_top, *extras


@torch.library.custom_op("memlint::token_statistics", mutates_args=())
def _forward_op(
    target: Tensor,
    bias: Tensor | None,
    hiddens: Sequence[Tensor],
    weights: Sequence[Tensor],
    scale: float,
    softcap: float | None,
    temperature: float,
    compute_dtype: torch.dtype,
    workspace_bytes: int,
    logsumexp: bool,
    entropy: bool,
    mean_logit: bool,
    keeps: Sequence[bool],
) -> list[Tensor]:
    """logprob, logsumexp, entropy, mean logit `[T]`, is_top; then the kept `[T, D]`.

    Those not asked for are empty.
    """
    head = LogitTransform(scale, softcap, temperature), compute_dtype, workspace_bytes
    options = PassOptions(*head, logsumexp, entropy, mean_logit, True, tuple(keeps))
    rows, _, found, kept = forward_pass(options, target, bias, [*hiddens, *weights])
    expected = found.expected_logit
    values = (
        found.logprob,
        found.logsumexp,
        None if expected is None else found.logsumexp - expected,
        found.mean_logit,
        found.is_top,
    )
    count, empty = int(target.shape[0]), found.logprob
    # Outputs of an operator are tensors of their own: none is an input, none is another.
    spread = [None if value is None else spread_rows(value, rows, count) for value in values]
    return [empty.new_empty(0) if value is None else value for value in (*spread, *kept)]


@_forward_op.register_fake
def _(
    target: Tensor, bias: Any, hiddens: Sequence[Tensor], weights: Any, *constants: Any
) -> list[Tensor]:
    compute_dtype, _, _, entropy, mean_logit, keeps = constants[3:]
    dtype = torch.float64 if compute_dtype == torch.float64 else torch.float32
    statistics = [
        hiddens[0].new_empty(target.shape[0] if present else 0, dtype=dtype)
        for present in (True, True, entropy, mean_logit)
    ]
    kept = [
        hidden.new_empty(hidden.shape) if keep else statistics[0].new_empty(0)
        for hidden, keep in zip(hiddens, keeps, strict=True)
    ]
    is_top = hiddens[0].new_empty(target.shape[0], dtype=torch.bool)
    return [*statistics, is_top, *kept]


@torch.library.custom_op("memlint::token_statistics_backward", mutates_args=())
def _backward_op(
    upstream: Sequence[Tensor],
    target: Tensor,
    bias: Tensor | None,
    hiddens: Sequence[Tensor],
    weights: Sequence[Tensor],
    saved: Sequence[Tensor],
    scale: float,
    softcap: float | None,
    temperature: float,
    compute_dtype: torch.dtype,
    workspace_bytes: int,
    wants: Sequence[bool],
) -> list[Tensor]:
    """Gradients by bias, hiddens and weights, empty where not wanted; empty `upstream` is zero."""
    rows = counted_rows(target)
    logprob, logsumexp, entropy = (
        values[rows] if rows is not None and values.numel() else values for values in saved[:3]
    )
    head = LogitTransform(scale, softcap, temperature), compute_dtype, workspace_bytes
    options = PassOptions(*head, False, bool(entropy.numel()), False, True, (False,) * len(hiddens))
    gradients = backward_pass(
        options,
        rows,
        target if rows is None else target[rows],
        bias,
        [*hiddens, *weights],
        logprob,
        logsumexp,
        logsumexp - entropy if entropy.numel() else None,
        [gradient if gradient.numel() else None for gradient in saved[3:]],
        [by if by.numel() else None for by in upstream],
        wants,
        owns_kept=False,
    )
    return [logsumexp.new_empty(0) if one is None else one for one in gradients]


@_backward_op.register_fake
def _(
    upstream: Sequence[Tensor],
    target: Tensor,
    bias: Tensor | None,
    hiddens: Sequence[Tensor],
    weights: Sequence[Tensor],
    saved: Sequence[Tensor],
    *constants: Any,
) -> list[Tensor]:
    wants = constants[-1]
    nothing = any(by.numel() for by in upstream)
    return [
        torch.empty_like(one, memory_format=torch.contiguous_format)
        if one is not None and want and nothing
        else saved[0].new_empty(0)
        for one, want in zip((bias, *hiddens, *weights), wants, strict=True)
    ]


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: list[Tensor]) -> None:
    target, bias, hiddens, weights, *constants = inputs
    ctx.constants, ctx.pairs, ctx.has_bias = constants, len(hiddens), bias is not None
    ctx.wanted = (True, *constants[5:8])
    logprob, logsumexp, entropy, kept = output[0], output[1], output[2], output[5:]
    ctx.wants = [one is not None and one.requires_grad for one in (bias, *hiddens, *weights)]
    ctx.save_for_backward(target, bias, *hiddens, *weights, logprob, logsumexp, entropy, *kept)


def _backward(ctx: Any, upstream: list[Tensor | None]) -> tuple[Any, ...]:
    target, bias, *tensors = ctx.saved_tensors
    pairs = ctx.pairs
    hiddens, weights, saved = tensors[:pairs], tensors[pairs : 2 * pairs], tensors[2 * pairs :]
    gradients = _backward_op(
        [
            saved[0].new_empty(0) if by is None or not wanted else by
            for by, wanted in zip(upstream, ctx.wanted, strict=False)
        ],
        target,
        bias,
        hiddens,
        weights,
        saved,
        *ctx.constants[:5],
        ctx.wants,
    )
    wanted = [one if want else None for one, want in zip(gradients, ctx.wants, strict=True)]
    return (None, wanted[0], wanted[1 : 1 + pairs], wanted[1 + pairs :], *([None] * 9))


_forward_op.register_autograd(_backward, setup_context=_setup_context)
