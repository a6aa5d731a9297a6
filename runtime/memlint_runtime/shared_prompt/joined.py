"""Attention over a prefix tree in as many calls as the tree has levels, joined by log-sum-exp.

One causal call covers every node's own tokens, as runs. Then, for each level, one plain call lets
the descendants of that level's nodes (contiguous, since nodes stand in depth-first order) look back
at the node: no key is copied for each branch, no T x T mask exists. A prompt with its completions
takes two calls. Memory: the output, its log-sum-exp, and while joining one part.

Joining by autograd would need each call's gradient through its log-sum-exp, which flash kernels do
not give. So the joining is one autograd function: the forward merges outputs by their
log-sum-exps, the backward hands the merged output and log-sum-exp to every part's own backward,
which then sees the probabilities of the whole softmax. dQ is the sum over the parts.

An outside prefix (`prefix_key`, `prefix_value`) is one more such call, seen by every token: that
is how completions run in a second phase against a prompt's kept keys and values.

An attention sink is a score for each head that takes weight and gives no value. It joins last, once
for the whole softmax: the merged log-sum-exp grows by it, and the output shrinks by as much.

T packed tokens, P tokens of the outside prefix, H query heads, K key heads, D head dimension.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from memlint_runtime.shared_prompt.kernels import Kernel, Runs
from memlint_runtime.shared_prompt.layout import PrefixTree

__all__ = ["JoinPlan", "joined_attention", "plan_join"]

Where = slice | Tensor

_TRITON = find_spec("triton") is not None


@dataclass(frozen=True, eq=False)
class _Level:
    """One look back: the tokens at `queries_at` see those at `keys_at`, run by run."""

    queries_at: Where
    queries: Runs
    keys_at: Where
    keys: Runs


@dataclass(frozen=True, eq=False)
class JoinPlan:
    """The calls of one tree on one device: causal runs that tile the row, and the looks back."""

    own: Runs
    levels: tuple[_Level, ...]
    outside: tuple[Runs, Runs] | None


def plan_join(tree: PrefixTree, device: torch.device, prefix_tokens: int = 0) -> JoinPlan:
    """The calls that attention over `tree` takes, and over an outside prefix where there is one."""
    levels = []
    for level in range(tree.depth):
        inner = [node for node in tree.nodes if node.level == level and node.stop > node.end]
        if inner:
            below = [(node.end, node.stop) for node in inner]
            here = [(node.start, node.end) for node in inner]
            levels.append(
                _Level(
                    _where(below, device), Runs.of([b - a for a, b in below], device),
                    _where(here, device), Runs.of([b - a for a, b in here], device),
                )
            )  # fmt: skip
    own = Runs.of([node.end - node.start for node in tree.nodes], device)
    outside = None
    if prefix_tokens:
        outside = Runs.of([tree.num_tokens], device), Runs.of([prefix_tokens], device)
    return JoinPlan(own, tuple(levels), outside)


def _where(ranges: list[tuple[int, int]], device: torch.device) -> Where:
    """A view where the ranges touch, else an index."""
    if all(a[1] == b[0] for a, b in pairwise(ranges)):
        return slice(ranges[0][0], ranges[-1][1])
    return torch.cat([torch.arange(a, b, device=device) for a, b in ranges])


def joined_attention(
    query_THD: Tensor,
    key_TKD: Tensor,
    value_TKD: Tensor,
    plan: JoinPlan,
    kernel: Kernel,
    *,
    scale: float,
    prefix_key_PKD: Tensor | None = None,
    prefix_value_PKD: Tensor | None = None,
    sinks_H: Tensor | None = None,
) -> Tensor:
    """Attention of every token over its ancestors' and its own node's earlier tokens, `[T, H, D]`.

    Exact: equal to one softmax over all of them and the sinks, values and gradients.
    """
    result: Tensor = _Joined.apply(  # type: ignore[no-untyped-call]
        query_THD, key_TKD, value_TKD, prefix_key_PKD, prefix_value_PKD, sinks_H,
        plan, kernel, scale,
    )  # fmt: skip
    return result


class _Joined(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        prefix_key: Tensor | None,
        prefix_value: Tensor | None,
        sinks: Tensor | None,
        plan: JoinPlan,
        kernel: Kernel,
        scale: float,
    ) -> Tensor:
        assert (prefix_key is None) == (plan.outside is None)
        out, lse = kernel.forward(query, key, value, plan.own, plan.own, True, scale)
        for level in plan.levels:
            part, part_lse = kernel.forward(
                query[level.queries_at], key[level.keys_at], value[level.keys_at],
                level.queries, level.keys, False, scale,
            )  # fmt: skip
            _merge_(out, lse, level.queries_at, part, part_lse)
        if prefix_key is not None and prefix_value is not None and plan.outside:
            part, part_lse = kernel.forward(
                query, prefix_key, prefix_value, *plan.outside, False, scale
            )
            _merge_(out, lse, slice(None), part, part_lse)
        if sinks is not None:
            _shrink_(out, lse, sinks)
        ctx.save_for_backward(query, key, value, prefix_key, prefix_value, sinks, out, lse)
        ctx.plan, ctx.kernel, ctx.scale = plan, kernel, scale
        return out

    @staticmethod
    def backward(ctx: Any, grad_out: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, prefix_key, prefix_value, sinks, out, lse = ctx.saved_tensors
        plan, kernel, scale = ctx.plan, ctx.kernel, ctx.scale
        grad_query, grad_key, grad_value = kernel.backward(
            grad_out, query, key, value, out, lse, plan.own, plan.own, True, scale
        )
        for level in plan.levels:
            q, k = level.queries_at, level.keys_at
            part_query, part_key, part_value = kernel.backward(
                grad_out[q], query[q], key[k], value[k], out[q], lse[:, q],
                level.queries, level.keys, False, scale,
            )  # fmt: skip
            _add_(grad_query, q, part_query)
            _add_(grad_key, k, part_key)
            _add_(grad_value, k, part_value)
        grad_prefix_key = grad_prefix_value = None
        if prefix_key is not None:
            part_query, grad_prefix_key, grad_prefix_value = kernel.backward(
                grad_out, query, prefix_key, prefix_value, out, lse, *plan.outside, False, scale
            )
            grad_query += part_query
        grad_sinks = None if sinks is None else _grad_of_sinks(grad_out, out, lse, sinks)
        return (
            grad_query, grad_key, grad_value, grad_prefix_key, grad_prefix_value, grad_sinks,
            None, None, None,
        )  # fmt: skip


def _merge_(
    out_THD: Tensor, lse_HT: Tensor, where: Where, part_THD: Tensor, part_lse_HT: Tensor
) -> None:
    """Fold a part over other keys into output and log-sum-exp, in place, in the latter's type."""
    if _has_triton(out_THD, lse_HT):
        from memlint_runtime.shared_prompt import triton_merge

        triton_merge.merge_(out_THD, lse_HT, where, part_THD, part_lse_HT)
        return
    before_HT = lse_HT[:, where]
    after_HT = torch.logaddexp(before_HT, part_lse_HT)
    keep = (before_HT - after_HT).exp_().T.unsqueeze(-1)
    take = (part_lse_HT - after_HT).exp_().T.unsqueeze(-1)
    out_THD[where] = (
        (out_THD[where] * keep).addcmul_(part_THD.to(take.dtype), take).to(out_THD.dtype)
    )
    lse_HT[:, where] = after_HT


def _has_triton(out_THD: Tensor, lse_HT: Tensor) -> bool:
    """Whether parts merge in one kernel: it reads neighbours, and sums in float32."""
    if out_THD.device.type != "cuda" or not _TRITON:
        return False
    return lse_HT.dtype == torch.float32 and out_THD.stride(-1) == lse_HT.stride(-1) == 1


def _shrink_(out_THD: Tensor, lse_HT: Tensor, sinks_H: Tensor) -> None:
    """Let each head's sink into the softmax of output and log-sum-exp, in place."""
    after_HT = torch.logaddexp(lse_HT, sinks_H.to(lse_HT.dtype).unsqueeze(1))
    out_THD *= (lse_HT - after_HT).exp_().T.unsqueeze(-1)
    lse_HT.copy_(after_HT)


def _grad_of_sinks(grad_THD: Tensor, out_THD: Tensor, lse_HT: Tensor, sinks_H: Tensor) -> Tensor:
    """A sink's weight has no value, so that its score's gradient is the softmax's own part."""
    weight_HT = (sinks_H.to(lse_HT.dtype).unsqueeze(1) - lse_HT).exp_()
    delta_TH = (grad_THD.to(lse_HT.dtype) * out_THD).sum(-1)
    return -(weight_HT * delta_TH.T).sum(1).to(sinks_H.dtype)


def _add_(total: Tensor, where: Where, part: Tensor) -> None:
    if isinstance(where, slice):
        total[where] += part
    else:
        total.index_add_(0, where, part)
