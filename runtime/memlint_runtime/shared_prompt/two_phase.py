"""A prompt and its branches in forward passes of their own: two phases.

Phase one (`forward_prompt`) forwards the prompt and keeps every layer's keys and values, with their
graph. Phase two (`score_branches`) forwards the branches against them, all in one pass or, over a
token budget, in portions.

Where all layers are checkpointed, portions keep their graphs, and what these hold, the layers'
inputs, waits in host memory (`memlint_runtime.offload`): checkpointing computes each layer again
anyway, and nothing else is computed twice.

Elsewhere portions are checkpointed whole, but for the last: in the backward pass each is forwarded
again, and when all are through, autograd sends the sum of their gradients once back through the
prompt. The last portion is the first that the backward pass meets, so that its graph is kept and it
is not forwarded again. Exact either way, whatever the model is wrapped in, since every parameter
receives its gradient once.

The prompt's part ends one token before the first scored one, so that each branch starts with the
token that predicts it. Memory: the prompt's activations (checkpointed and offloaded like any), its
keys and values, one portion, and one sum of gradients for each trained parameter; where portions
wait, a hidden state for each scored token, which the head keeps, and on the host the layers' inputs
of all portions. Cost: the copies to the host and back; without checkpointing a
second forward of all portions but one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from transformers.modeling_layers import GradientCheckpointingLayer

from memlint_runtime.attention import AttentionPath
from memlint_runtime.checkpoint import ActivationCheckpointing
from memlint_runtime.offload import ActivationOffload, offload_activations
from memlint_runtime.shared_prompt.layout import PrefixTree, build_tree
from memlint_runtime.shared_prompt.models import KeysValues, Layers, layers_of
from memlint_runtime.shared_prompt.runs import PaddedRows, RunTree, Scored, Sharing, run_of

__all__ = ["forward_prompt", "score_branches", "score_in_two_phases"]

RunPortion = Callable[[KeysValues], tuple[Tensor, ...]]

# Where portions of each model wait: host memory is pinned once, not once a step.
_HOSTS: WeakKeyDictionary[nn.Module, ActivationOffload] = WeakKeyDictionary()


def score_in_two_phases(
    rows: PaddedRows,
    tree: PrefixTree,
    sharing: Sharing,
    run: RunTree,
    model: nn.Module,
    *,
    last: bool = True,
) -> Scored:
    """Score the rows of one group, `tree` being theirs. Values come in the rows' order.

    model: what `run` goes through. last: whether nothing is forwarded after this group, so that its
    last portion may stay.
    """
    assert sharing.token_budget is not None
    prefix_tokens = _prefix_tokens(rows, tree)
    if prefix_tokens < 1:
        one = run_of(rows, tree, sharing)
        values = tuple(tree.spread(value) for value in run(one))
        return Scored(values, (tree,), frozenset(one.tree_pass.attention.taken))

    kept, head_tree = forward_prompt(rows, prefix_tokens, sharing, run)
    tensors = [tensor for own in kept.values() for tensor in own]
    scored = score_branches(
        rows, prefix_tokens, layers_of(kept), tensors, sharing, run, model, last=last
    )
    # The prompt's own tree stands for none of the repeated tokens; the whole group's does.
    counted_trees = [replace(head_tree, repeated_tokens=tree.repeated_tokens)]
    counted_trees += [replace(part, repeated_tokens=0) for part in scored.trees]
    return replace(scored, trees=tuple(counted_trees))


def forward_prompt(
    rows: PaddedRows, prefix_tokens: int, sharing: Sharing, run: RunTree
) -> tuple[KeysValues, PrefixTree]:
    """Keys and values of the first tokens of the rows, which all share them; and their tree."""
    counted = rows.mask[:1].cumsum(1)
    head = PaddedRows(
        rows.ids[:1], rows.mask[:1] & (counted <= prefix_tokens), torch.zeros_like(rows.mask[:1])
    )
    tree = build_tree(head.ids, head.mask, head.scored, keep_every_token=True)
    one = run_of(head, tree, sharing)
    one.tree_pass.kept = {}
    run(one)
    return one.tree_pass.kept, tree


def score_branches(
    rows: PaddedRows,
    prefix_tokens: int,
    layers: Layers,
    kept: Sequence[Tensor],
    sharing: Sharing,
    run: RunTree,
    model: nn.Module,
    *,
    last: bool = True,
) -> Scored:
    """Score what follows the rows' first `prefix_tokens` tokens, given those tokens' keys and
    values `kept` of `layers`. The trees are those of the rests of the rows."""
    rests = rows.after(prefix_tokens)
    taken: set[AttentionPath] = set()
    portions: list[RunPortion] = []
    trees: list[PrefixTree] = []
    for start, end in _portions(rests, sharing.token_budget):
        part = PaddedRows(rests.ids[start:end], rests.mask[start:end], rests.scored[start:end])
        part_tree = part.tree(sharing)
        trees.append(part_tree)
        portions.append(partial(_run_portion, part, part_tree, sharing, run, prefix_tokens, taken))

    parted = torch.is_grad_enabled() and len(portions) > 1
    if parted and not _is_checkpointed(model):
        again = len(portions) - last
        # Without what its graph holds; forwarded once more in backward.
        once_more = partial(checkpoint, use_reentrant=False, preserve_rng_state=False)
        portions[:again] = [partial(once_more, portion) for portion in portions[:again]]
        parted = False
    with _waiting_on_host(model, kept[0].device.type) if parted else nullcontext():
        outcomes = [portion(_by_layer(layers, kept)) for portion in portions]
    values = tuple(torch.cat(value) for value in zip(*outcomes, strict=True))
    return Scored(values, tuple(trees), frozenset(taken))


def _prefix_tokens(rows: PaddedRows, tree: PrefixTree) -> int:
    """Tokens that all rows share, less the one that predicts the first scored token."""
    root = tree.nodes[0]
    place = rows.mask.cumsum(1)[rows.scored]
    first_scored = int(place.min()) - 1 if len(place) else 0
    return min(root.end - root.start, first_scored) - 1


def _portions(rests: PaddedRows, budget: int | None) -> list[tuple[int, int]]:
    """Consecutive rows whose tokens together fit the budget; at least one row in each. Filled from
    the end, since the last portion is the one that is forwarded once."""
    lengths = rests.forwarded.tolist()
    if budget is None:
        return [(0, len(lengths))]
    portions: list[tuple[int, int]] = []
    tokens = budget + 1
    for row, length in reversed(list(enumerate(lengths))):
        if tokens + length > budget:
            portions.append((row, row + 1))
            tokens = length
        else:
            portions[-1] = (row, portions[-1][1])
            tokens += length
    return portions[::-1]


def _is_checkpointed(model: nn.Module) -> bool:
    """True if every layer keeps nothing but its input. What a selective policy keeps would stay on
    the device: it is out of reach of the hooks that move the rest."""
    layers = [m for m in model.modules() if isinstance(m, GradientCheckpointingLayer)]
    return bool(layers) and all(
        layer.training
        and layer.gradient_checkpointing
        and _keeps_inputs_only(layer._gradient_checkpointing_func)
        for layer in layers
    )


def _keeps_inputs_only(run_layer: Any) -> bool:
    if isinstance(run_layer, partial):
        return run_layer.func is checkpoint and "context_fn" not in run_layer.keywords
    setting = getattr(run_layer, "__self__", None)
    return isinstance(setting, ActivationCheckpointing) and not setting.keep_attention


def _waiting_on_host(model: nn.Module, device_type: str) -> AbstractContextManager[Any]:
    """Within, what autograd saves leaves the device, if that is not the host itself."""
    if device_type == "cpu":
        return nullcontext()
    if model not in _HOSTS:
        _HOSTS[model] = offload_activations(device=device_type)
    return _HOSTS[model]


def _run_portion(
    part: PaddedRows,
    tree: PrefixTree,
    sharing: Sharing,
    run: RunTree,
    prefix_tokens: int,
    taken: set[AttentionPath],
    kept: KeysValues,
) -> tuple[Tensor, ...]:
    one = run_of(part, tree, sharing, prefix_tokens)
    one.tree_pass.outside = kept
    values = tuple(tree.spread(value) for value in run(one))
    taken |= one.tree_pass.attention.taken
    return values


def _by_layer(layers: Layers, kept: Iterable[Tensor]) -> KeysValues:
    tensors = iter(kept)
    return {layer: tuple(islice(tensors, count)) for layer, count in layers}
