"""A group over the token budget: its prompt once, its branches in portions, one backward each.

Phase one forwards the prompt and keeps every layer's keys and values, with their graph. Phase two
forwards the branches, a few at a time, against them. Portions keep nothing: in the backward pass
each is forwarded again, its gradients with respect to the prompt's keys and values and to the
parameters are added to sums, and when all are through, autograd sends the sum of the former once
back through the prompt. Exact, whatever the model is wrapped in, since every parameter receives its
gradient once.

The prompt's part ends one token before the first scored one, so that each branch starts with the
token that predicts it. Memory: the prompt's activations (checkpointed and offloaded like any), its
keys and values, one portion, and one sum of gradients for each trained parameter. Cost: a second
forward of the branches, as under checkpointing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from memlint_runtime.shared_prompt.layout import PrefixTree, build_tree
from memlint_runtime.shared_prompt.models import KeysValues
from memlint_runtime.shared_prompt.runs import PaddedRows, RunTree, Scored, Sharing, run_of

__all__ = ["score_in_two_phases"]

RunPortion = Callable[[KeysValues], tuple[Tensor, ...]]


def score_in_two_phases(
    rows: PaddedRows,
    tree: PrefixTree,
    sharing: Sharing,
    run: RunTree,
    trained: Iterable[nn.Parameter],
) -> Scored:
    """Score the rows of one group, `tree` being theirs. Values come in the rows' order."""
    assert sharing.token_budget is not None
    prefix_tokens = _prefix_tokens(rows, tree)
    if prefix_tokens < 1:
        one = run_of(rows, tree, sharing)
        values = tuple(tree.spread(value) for value in run(one))
        return Scored(values, (tree,), frozenset(one.tree_pass.attention.taken))

    counted = rows.mask.cumsum(1)
    head = PaddedRows(
        rows.ids[:1], (rows.mask & (counted <= prefix_tokens))[:1], torch.zeros_like(rows.mask[:1])
    )
    head_tree = build_tree(head.ids, head.mask, head.scored, keep_every_token=True)
    first = run_of(head, head_tree, sharing)
    first.tree_pass.kept = {}
    run(first)
    layers = sorted(first.tree_pass.kept)
    kept = [tensor for layer in layers for tensor in first.tree_pass.kept[layer]]

    tails = replace(rows, mask=rows.mask & (counted > prefix_tokens))
    portions: list[RunPortion] = []
    trees: list[PrefixTree] = []
    for start, end in _portions(tails, sharing.token_budget):
        part = PaddedRows(tails.ids[start:end], tails.mask[start:end], tails.scored[start:end])
        part_tree = part.tree(sharing)
        trees.append(part_tree)
        portions.append(partial(_run_portion, part, part_tree, sharing, run, prefix_tokens))

    parameters = [p for p in trained if p.requires_grad]
    if torch.is_grad_enabled():
        values = _Portions.apply(portions, layers, *kept, *parameters)  # type: ignore[no-untyped-call]
    else:
        outcomes = [portion(_by_layer(layers, kept)) for portion in portions]
        values = tuple(torch.cat(value) for value in zip(*outcomes, strict=True))
    # The prompt's own tree stands for none of the repeated tokens; the whole group's does.
    counted_trees = [replace(head_tree, repeated_tokens=tree.repeated_tokens)]
    counted_trees += [replace(part, repeated_tokens=0) for part in trees]
    return Scored(values, tuple(counted_trees), frozenset(first.tree_pass.attention.taken))


def _prefix_tokens(rows: PaddedRows, tree: PrefixTree) -> int:
    """Tokens that all rows share, less the one that predicts the first scored token."""
    root = tree.nodes[0]
    place = rows.mask.cumsum(1)[rows.scored]
    first_scored = int(place.min()) - 1 if len(place) else 0
    return min(root.end - root.start, first_scored) - 1


def _portions(tails: PaddedRows, budget: int) -> list[tuple[int, int]]:
    """Consecutive rows whose tokens together fit the budget; at least one row in each."""
    portions: list[tuple[int, int]] = []
    tokens = budget
    for row, length in enumerate(tails.mask.sum(1).tolist()):
        if tokens + length > budget and (not portions or portions[-1][1] > portions[-1][0]):
            portions.append((row, row))
            tokens = 0
        portions[-1] = (portions[-1][0], row + 1)
        tokens += length
    return portions


def _run_portion(
    part: PaddedRows,
    tree: PrefixTree,
    sharing: Sharing,
    run: RunTree,
    prefix_tokens: int,
    kept: KeysValues,
) -> tuple[Tensor, ...]:
    one = run_of(part, tree, sharing, prefix_tokens)
    one.tree_pass.outside = kept
    return tuple(tree.spread(value) for value in run(one))


def _by_layer(layers: list[int], kept: Iterable[Tensor]) -> KeysValues:
    tensors = tuple(kept)
    return {layer: (tensors[2 * i], tensors[2 * i + 1]) for i, layer in enumerate(layers)}


class _Portions(torch.autograd.Function):
    """Portions forwarded without a graph, and again with one, portion by portion, in backward."""

    @staticmethod
    def forward(
        ctx: Any, portions: list[RunPortion], layers: list[int], *tensors: Tensor
    ) -> tuple[Tensor, ...]:
        kept = tensors[: 2 * len(layers)]
        outcomes = [portion(_by_layer(layers, kept)) for portion in portions]
        ctx.save_for_backward(*tensors)
        ctx.portions, ctx.layers = portions, layers
        ctx.rows = [len(outcome[0]) for outcome in outcomes]
        ctx.again = _same_autocast(tensors[0].device.type)
        return tuple(torch.cat(value) for value in zip(*outcomes, strict=True))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Any, ...]:
        tensors = ctx.saved_tensors
        split = 2 * len(ctx.layers)
        kept = [tensor.detach().requires_grad_() for tensor in tensors[:split]]
        wanted = [*kept, *tensors[split:]]
        sums: list[Tensor | None] = [None] * len(wanted)
        portions_of_grads = zip(
            *(
                # Of what is no real number, such as a flag, there is no gradient.
                [None] * len(ctx.rows) if grad is None else torch.split(grad, ctx.rows)
                for grad in grads
            ),
            strict=True,
        )
        for portion, portion_grads in zip(ctx.portions, portions_of_grads, strict=True):
            with torch.enable_grad(), ctx.again():
                outcome = portion(_by_layer(ctx.layers, kept))
            used = [
                (value, grad)
                for value, grad in zip(outcome, portion_grads, strict=True)
                if grad is not None and value.requires_grad
            ]
            found = torch.autograd.grad(
                [value for value, _ in used], wanted, [grad for _, grad in used], allow_unused=True
            )
            for i, grad in enumerate(found):
                if grad is not None:
                    total = sums[i]
                    sums[i] = grad if total is None else total.add_(grad)
        return (None, None, *sums)


def _same_autocast(device_type: str) -> Callable[[], AbstractContextManager[Any]]:
    """The present autocast state, to be entered later."""
    return partial(
        torch.autocast,
        device_type,
        dtype=torch.get_autocast_dtype(device_type),
        enabled=torch.is_autocast_enabled(device_type),
    )
