"""Several attention calls over parts of the keys or of the queries, as one attention.

Joining by autograd would need each call's gradient through its log-sum-exp, which flash kernels do
not give. So the joining is one autograd function: the forward merges outputs by their
log-sum-exps, the backward hands the merged output and log-sum-exp to every part's own backward,
which then sees the probabilities of the whole softmax. dQ is the sum over the parts.

An attention sink is a score for each head that takes weight and gives no value. It joins last, once
for the whole softmax: the merged log-sum-exp grows by it, and the output shrinks by as much.

Memory: the output, its log-sum-exp, and while joining one part. What is read and written in the
merge is one Triton kernel on CUDA (`triton_merge`).

T packed tokens, P tokens of an outside prefix, H query heads, K key heads, D head dimension.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack
from torch.utils.checkpoint import _CachingTorchDispatchMode

from memlint_runtime.attention.kernels.flash import Attended, Kernel
from memlint_runtime.single_backward import SingleBackward

__all__ = ["Part", "Where", "joined_attention"]

# Places of tokens; None for all of them.
Where = slice | Tensor | None

_TRITON = find_spec("triton") is not None


@dataclass(frozen=True, eq=False)
class Part:
    """Some tokens' attention over some keys.

    Among `queries_at` no token stands twice; among `keys_at` it may, in different runs. joins:
    whether an earlier part served these queries, over other keys. outside: the keys are those of
    the outside prefix.
    """

    kernel: Kernel
    queries_at: Where = None
    keys_at: Where = None
    joins: bool = False
    outside: bool = False


def joined_attention(
    query_THD: Tensor,
    key_TKD: Tensor,
    value_TKD: Tensor,
    parts: Sequence[Part],
    *,
    scale: float,
    sinks_H: Tensor | None = None,
    prefix_key_PKD: Tensor | None = None,
    prefix_value_PKD: Tensor | None = None,
) -> Tensor:
    """Attention of every token over the keys of all its parts and the sinks, `[T, H, D]`.

    Exact: equal to one softmax over all of them, values and gradients. Parts that do not join come
    first and hold every token once.
    """
    result: Tensor = _JoinedAttention.apply(
        query_THD, key_TKD, value_TKD, prefix_key_PKD, prefix_value_PKD, sinks_H,
        tuple(parts), scale,
    )  # fmt: skip
    return result


class _JoinedAttention(SingleBackward):
    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        prefix_key: Tensor | None,
        prefix_value: Tensor | None,
        sinks: Tensor | None,
        parts: tuple[Part, ...],
        scale: float,
    ) -> Tensor:
        out: Any = None
        lse: Any = None
        for part in parts:
            at_key, at_value = (prefix_key, prefix_value) if part.outside else (key, value)
            assert at_key is not None
            assert at_value is not None
            got, got_lse = part.kernel.forward(
                _at(query, part.queries_at), _at(at_key, part.keys_at),
                _at(at_value, part.keys_at), scale,
            )  # fmt: skip
            if part.joins:
                if _keeps_results():
                    out, lse = out.clone(), lse.clone()
                _merge_(out, lse, part.queries_at, got, got_lse)
            elif part.queries_at is None:
                out, lse = got, got_lse
            else:
                if out is None:
                    out = got.new_empty(*query.shape[:2], got.shape[-1])
                    lse = got_lse.new_empty(len(got_lse), len(query))
                out[part.queries_at] = got
                lse[:, part.queries_at] = got_lse
        if sinks is not None:
            out, lse = _shrink(out, lse, sinks)
        ctx.save_for_backward(query, key, value, prefix_key, prefix_value, sinks, out, lse)
        ctx.parts, ctx.scale = parts, scale
        merged: Tensor = out
        return merged

    @staticmethod
    def backward(ctx: Any, grad_out: Tensor) -> tuple[Tensor | None, ...]:
        # A backward call inside autocast would round plain products to half precision.
        with torch.autocast(grad_out.device.type, enabled=False):
            return _gradients(ctx, grad_out)


def _gradients(ctx: Any, grad_out: Tensor) -> tuple[Tensor | None, ...]:
    query, key, value, prefix_key, prefix_value, sinks, out, lse = ctx.saved_tensors
    grad_query: Any = None
    own: list[Tensor | None] = [None, None]
    outside: list[Tensor | None] = [None, None]
    for part in ctx.parts:
        q, k = part.queries_at, part.keys_at
        sources = (prefix_key, prefix_value) if part.outside else (key, value)
        attended = Attended(
            _at(grad_out, q), _at(query, q), _at(sources[0], k), _at(sources[1], k),
            _at(out, q), lse if q is None else lse[:, q], ctx.scale,
        )  # fmt: skip
        part_query, *by_key = part.kernel.backward(attended)
        if part.joins:
            _add_(grad_query, q, part_query)
        elif q is None:
            grad_query = part_query
        else:
            grad_query = torch.empty_like(query) if grad_query is None else grad_query
            grad_query[q] = part_query.to(query.dtype)
        totals = outside if part.outside else own
        for i in range(2):
            totals[i] = _total(totals[i], sources[i], k, by_key[i])
    grad_sinks = None if sinks is None else _grad_of_sinks(grad_out, out, lse, sinks)
    grads = [total if total is None else total.to(query.dtype) for total in (*own, *outside)]
    return grad_query, *grads, grad_sinks, None, None


def _total(total: Tensor | None, source: Tensor, where: Where, part: Tensor) -> Tensor:
    """The gradient of keys or values with one more part's."""
    if total is None:
        if where is None:
            return part
        # Keys that many parts visit: their gradients add up in full precision.
        total = torch.zeros_like(source, dtype=torch.promote_types(source.dtype, torch.float32))
    _add_(total, where, part)
    return total


def _keeps_results() -> bool:
    """True if selective checkpointing keeps what the kernels return, which is as it was then."""
    modes = _get_current_dispatch_mode_stack()
    return any(isinstance(mode, _CachingTorchDispatchMode) for mode in modes)


def _at(x: Tensor, where: Where) -> Tensor:
    return x if where is None else x[where]


def _merge_(
    out_THD: Tensor, lse_HT: Tensor, where: Where, part_THD: Tensor, part_lse_HT: Tensor
) -> None:
    """Fold a part over other keys into output and log-sum-exp, in place, in the latter's type."""
    where = slice(None) if where is None else where
    if _has_triton(out_THD, lse_HT):
        from memlint_runtime.attention.kernels import triton_merge

        triton_merge.merge_(out_THD, lse_HT, where, part_THD, part_lse_HT)
        return
    before_HT = lse_HT[:, where]
    # The part's share of the whole softmax.
    take_TH1 = torch.sigmoid(part_lse_HT - before_HT).T.unsqueeze(-1)
    lse_HT[:, where] = torch.logaddexp(before_HT, part_lse_HT)
    if isinstance(where, slice) and out_THD.dtype == part_THD.dtype == take_TH1.dtype:
        out_THD[where].lerp_(part_THD, take_TH1)
    else:
        before, part = (x.to(take_TH1.dtype) for x in (out_THD[where], part_THD))
        out_THD[where] = before.lerp(part, take_TH1).to(out_THD.dtype)


def _has_triton(out_THD: Tensor, lse_HT: Tensor) -> bool:
    """True if parts merge in one kernel: it reads neighbours, and sums in float32."""
    if out_THD.device.type != "cuda" or not _TRITON:
        return False
    return lse_HT.dtype == torch.float32 and out_THD.stride(-1) == lse_HT.stride(-1) == 1


def _shrink(out_THD: Tensor, lse_HT: Tensor, sinks_H: Tensor) -> tuple[Tensor, Tensor]:
    """Output and log-sum-exp with each head's sink in the softmax.

    Not in place, for the reason of `_keeps_results`. A compiler fuses the product with its
    rounding; torch 2.11's loses the gradient of an output that two operations return.
    """
    after_HT = torch.logaddexp(lse_HT, sinks_H.to(lse_HT.dtype).unsqueeze(1))
    kept_TH1 = (lse_HT - after_HT).exp_().T.unsqueeze(-1)
    if torch.compiler.is_compiling():
        product = out_THD * kept_TH1
        same = product.dtype == out_THD.dtype
        return product if same else product.to(out_THD.dtype), after_HT
    return torch.mul(out_THD, kept_TH1, out=torch.empty_like(out_THD)), after_HT


def _grad_of_sinks(grad_THD: Tensor, out_THD: Tensor, lse_HT: Tensor, sinks_H: Tensor) -> Tensor:
    """A sink's weight has no value, so that its score's gradient is the softmax's own part."""
    weight_HT = (sinks_H.to(lse_HT.dtype).unsqueeze(1) - lse_HT).exp_()
    delta_TH = (grad_THD.to(lse_HT.dtype) * out_THD).sum(-1)
    return -(weight_HT * delta_TH.T).sum(1).to(sinks_H.dtype)


def _add_(total: Tensor, where: Where, part: Tensor) -> None:
    if isinstance(where, Tensor):
        total.index_add_(0, where, part.to(total.dtype))
    else:
        total[slice(None) if where is None else where] += part
