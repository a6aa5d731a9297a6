"""From padded rows to per-token scores: which trees there are to run, and in which order.

The padded batch becomes trees, each goes through the model by a `RunTree`, and the results find
their places in the batch again.

A token budget bounds the packed row. Groups go together as far as it allows; a group that exceeds
it alone is scored in two phases (`two_phase`), the same up to rounding. Prompts that come in
several calls of a step are forwarded by the first of them (`kept`).
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import nn

from memlint_runtime.shared_prompt.kept import (
    KeptPrompt,
    KeptPrompts,
    prompts_of,
    tokens_of,
    version_of,
)
from memlint_runtime.shared_prompt.layout import PrefixTree
from memlint_runtime.shared_prompt.runs import PaddedRows, RunTree, Scored, Sharing, joined, run_of
from memlint_runtime.shared_prompt.two_phase import (
    forward_prompt,
    score_branches,
    score_in_two_phases,
)

__all__ = ["score_rows"]


def score_rows(
    rows: PaddedRows,
    sharing: Sharing,
    run: RunTree,
    *,
    keep_every_token: bool = False,
    model: nn.Module | None = None,
    prompts: KeptPrompts | None = None,
    whole: PrefixTree | None = None,
) -> Scored:
    """Score a padded batch through its prefix tree or trees.

    keep_every_token: forward tokens that predict nothing, too.
    model: what `run` goes through, which lets a group over the budget go in two phases; None
    forwards it whole.
    prompts: those whose rows come in several calls. Given only where `model` is.
    whole: the tree of all rows, where it is built already.
    """
    if prompts is None or model is None:
        return _score_together(rows, sharing, run, keep_every_token, model, whole)
    parts: list[Scored] = []
    passes: list[list[int]] = []
    for prompt, (members, taken) in _by_kept_prompt(rows, prompts).items():
        if prompt is None:
            parts.append(_score_together(taken, sharing, run, keep_every_token, model))
        else:
            parts.append(_score_after_prompt(taken, prompt, prompts, sharing, run, model))
        passes.append(members)
    return parts[0] if len(parts) == 1 else _rejoin(parts, passes, len(rows.ids))


def _by_kept_prompt(
    rows: PaddedRows, prompts: KeptPrompts
) -> dict[bytes | None, tuple[list[int], PaddedRows]]:
    """The rows of each prompt that comes in several calls, and their places; those of all others
    under None."""
    every = list(range(len(rows.ids)))
    if not prompts.expected:
        return {None: (every, rows)}
    members: dict[bytes, list[int]] = {}
    for row, prompt in enumerate(prompts_of(rows)):
        members.setdefault(prompt, []).append(row)
    found: dict[bytes | None, tuple[list[int], PaddedRows]] = {}
    for prompt, places in members.items():
        taken = rows.take(places)
        if prompts.expects(prompt, taken):
            found[prompt] = places, taken
    kept = {row for places, _ in found.values() for row in places}
    others = [row for row in every if row not in kept]
    if others:
        found[None] = others, rows.take(others)
    return found


def _score_after_prompt(
    rows: PaddedRows,
    prompt: bytes,
    prompts: KeptPrompts,
    sharing: Sharing,
    run: RunTree,
    model: nn.Module,
) -> Scored:
    """Score rows of one prompt, which is forwarded unless an earlier call has done so, and rows of
    further calls with them where they are short."""
    weights = version_of(model)
    values = prompts.ready(prompt, weights)
    if values is not None:
        return Scored(values, (), frozenset())
    kept = prompts.find(prompt, weights)
    trees: tuple[PrefixTree, ...] = ()
    if kept is None:
        # The prompt's last token predicts the first of the completion, and goes with it.
        tokens = tokens_of(prompt) - 1
        found, tree = forward_prompt(rows, tokens, sharing, run)
        kept = KeptPrompt.of(tokens, found, weights)
        prompts.keep(prompt, kept)
        trees = (replace(tree, repeated_tokens=0),)
    calls = prompts.calls_together(prompt, rows, sharing.token_budget)
    together = joined(calls)
    scored = score_branches(
        together, kept.tokens, kept.layers, prompts.take(prompt, len(calls)), sharing, run, model
    )
    counted = [
        replace(tree, repeated_tokens=0 if i else int(together.mask.sum()))
        for i, tree in enumerate(scored.trees)
    ]
    values = prompts.hand_out(prompt, calls, scored.values)
    return Scored(values, (*trees, *counted), scored.paths)


def _score_together(
    rows: PaddedRows,
    sharing: Sharing,
    run: RunTree,
    keep_every_token: bool,
    model: nn.Module | None,
    whole: PrefixTree | None = None,
) -> Scored:
    if whole is None:
        whole = rows.tree(sharing, keep_every_token=keep_every_token)
    budget = sharing.token_budget
    if budget is None or whole.num_tokens <= budget:
        one = run_of(rows, whole, sharing)
        values = tuple(whole.spread(value) for value in run(one))
        return Scored(values, (whole,), frozenset(one.tree_pass.attention.taken))

    parts: list[Scored] = []
    passes = _passes(whole, budget)
    for members in passes:
        taken = rows.take(members)
        tree = taken.tree(sharing, keep_every_token=keep_every_token)
        if tree.num_tokens > budget and model is not None and len(members) > 1:
            last = members is passes[-1]
            parts.append(score_in_two_phases(taken, tree, sharing, run, model, last=last))
        else:
            one = run_of(taken, tree, sharing)
            values = tuple(tree.spread(value) for value in run(one))
            parts.append(Scored(values, (tree,), frozenset(one.tree_pass.attention.taken)))
    return _rejoin(parts, passes, len(rows.ids))


def _passes(tree: PrefixTree, budget: int) -> list[list[int]]:
    """The rows of each forward pass: whole groups in order, as many as the budget holds."""
    roots = [node for node in tree.nodes if node.level == 0]
    passes: list[list[int]] = []
    tokens = budget
    for root, members in zip(roots, tree.groups, strict=True):
        if tokens + root.stop - root.start > budget:
            passes.append([])
            tokens = 0
        passes[-1] += members
        tokens += root.stop - root.start
    return passes


def _rejoin(parts: list[Scored], passes: list[list[int]], num_rows: int) -> Scored:
    """The parts' rows in the batch's order; rows of no part are zero."""
    order = [row for members in passes for row in members]
    absent = [row for row in range(num_rows) if row not in set(order)]
    place = torch.empty(num_rows, dtype=torch.long)
    place[torch.tensor(order + absent)] = torch.arange(num_rows)
    values = []
    for fields in zip(*(part.values for part in parts), strict=True):
        zeros = fields[0].new_zeros(len(absent), fields[0].shape[1])
        values.append(torch.cat([*fields, zeros])[place.to(zeros.device)])
    return Scored(
        tuple(values),
        tuple(tree for part in parts for tree in part.trees),
        frozenset().union(*(part.paths for part in parts)),
    )
