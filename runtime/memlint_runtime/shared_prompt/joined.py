"""Attention over a prefix tree in a few calls, joined by log-sum-exp.

One causal call covers every node's own tokens, as runs. Looks back at what stands above them are
plain calls, by level or by path. A prompt with its completions takes two calls either way, no key
is copied for each branch and no T x T mask exists. Memory: the output, its log-sum-exp, and while
joining one part.

By level: for each level, the descendants of its nodes (contiguous, since nodes stand in depth-first
order) look back at the node. Nothing is copied, but a token at level n is joined n times, over
runs of keys that get short where trees get deep.

By path: the children of a node look back at the whole path down to it at once, so that every token
is joined once however deep it stands. The keys of a path are copied together where they are not
neighbours, at most as many at a time as the tree has tokens.

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

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from memlint_runtime.shared_prompt.kernels import Kernel, Runs
from memlint_runtime.shared_prompt.layout import Node, PrefixTree

__all__ = ["JoinPlan", "joined_attention", "plan_join"]

Where = slice | Tensor
_Range = tuple[int, int]
# Tokens in ranges, and the ranges of what all of them see.
_Glance = tuple[list[_Range], list[_Range]]

_TRITON = find_spec("triton") is not None


@dataclass(frozen=True, eq=False)
class _Look:
    """One look back: the tokens at `queries_at` see those at `keys_at`, run by run.

    Among `queries_at` no token stands twice; among `keys_at` it may, in different runs.
    """

    queries_at: Where
    queries: Runs
    keys_at: Where
    keys: Runs


@dataclass(frozen=True, eq=False)
class JoinPlan:
    """The calls of one tree on one device: causal runs that tile the row, and the looks back."""

    own: Runs
    levels: tuple[_Look, ...]
    outside: tuple[Runs, Runs] | None


def plan_join(
    tree: PrefixTree, device: torch.device, prefix_tokens: int = 0, *, by_path: bool = False
) -> JoinPlan:
    """The calls that attention over `tree` takes, and over an outside prefix where there is one.

    by_path: look back by path, for trees of more than two levels.
    """
    looks = _by_path(tree) if by_path and tree.depth > 2 else _by_level(tree)
    own = Runs.of([node.end - node.start for node in tree.nodes], device)
    outside = None
    if prefix_tokens:
        outside = Runs.of([tree.num_tokens], device), Runs.of([prefix_tokens], device)
    return JoinPlan(own, tuple(_look(each, device) for each in looks), outside)


def _by_level(tree: PrefixTree) -> Iterator[list[_Glance]]:
    for level in range(tree.depth):
        inner = [node for node in tree.nodes if node.level == level and node.stop > node.end]
        if inner:
            yield [([(node.end, node.stop)], [(node.start, node.end)]) for node in inner]


def _by_path(tree: PrefixTree) -> Iterator[list[_Glance]]:
    """The glances of a level together, as far as they hold no more keys than the tree has."""
    levels: list[list[_Glance]] = [[] for _ in range(tree.depth)]
    path: list[Node] = []
    children: dict[int, list[_Range]] = {}  # by the start of the node above them
    for node in tree.nodes:
        del path[node.level :]
        if path:
            above = path[-1]
            if above.start not in children:
                children[above.start] = []
                seen = _touching([(one.start, one.end) for one in path])
                levels[above.level].append((children[above.start], seen))
            children[above.start].append((node.start, node.end))
        path.append(node)
    for glances in levels:
        together: list[_Glance] = []
        keys = 0
        for queries, seen in glances:
            count = sum(b - a for a, b in seen)
            if together and keys + count > tree.num_tokens:
                yield together
                together, keys = [], 0
            together.append((_touching(queries), seen))
            keys += count
        if together:
            yield together


def _look(glances: list[_Glance], device: torch.device) -> _Look:
    """Glances as the runs of one call."""
    queries = [sum(b - a for a, b in ranges) for ranges, _ in glances]
    keys = [sum(b - a for a, b in ranges) for _, ranges in glances]
    return _Look(
        _where([r for ranges, _ in glances for r in ranges], device), Runs.of(queries, device),
        _where([r for _, ranges in glances for r in ranges], device), Runs.of(keys, device),
    )  # fmt: skip


def _touching(ranges: list[_Range]) -> list[_Range]:
    """The same tokens in the same order, in as few ranges as can be."""
    joined: list[_Range] = []
    for a, b in ranges:
        if joined and joined[-1][1] == a:
            joined[-1] = (joined[-1][0], b)
        else:
            joined.append((a, b))
    return joined


def _where(ranges: list[_Range], device: torch.device) -> Where:
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
        for look in plan.levels:
            part, part_lse = kernel.forward(
                query[look.queries_at], key[look.keys_at], value[look.keys_at],
                look.queries, look.keys, False, scale,
            )  # fmt: skip
            _merge_(out, lse, look.queries_at, part, part_lse)
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
        for look in plan.levels:
            q, k = look.queries_at, look.keys_at
            part_query, part_key, part_value = kernel.backward(
                grad_out[q], query[q], key[k], value[k], out[q], lse[:, q],
                look.queries, look.keys, False, scale,
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
