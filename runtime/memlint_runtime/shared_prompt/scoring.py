"""From padded rows to per-token scores: which trees there are to run, and in which order.

What is scored and by which output head is the caller's: a `RunTree` sends one packed row through
the model and returns tensors `[N]`, one value for each scored token. Here the padded batch becomes
trees and the results find their places in it again.

A token budget bounds the packed row. Groups go together as far as it allows; a group that exceeds
it alone is scored in two phases (`two_phase`): exact, at the cost of forwarding its branches once
more in the backward pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from memlint_runtime.shared_prompt.attention import AttentionPath, TreeAttention
from memlint_runtime.shared_prompt.layout import DEFAULT_MIN_SAVED_TOKENS, PrefixTree, build_tree
from memlint_runtime.shared_prompt.models import TreePass

__all__ = ["PaddedRows", "RunTree", "Scored", "Sharing", "TreeRun", "run_of", "score_rows"]


@dataclass(frozen=True)
class Sharing:
    """How prompts are shared.

    token_budget: most packed tokens in one forward pass; None for no bound. A group over it goes
        in two phases, except where parameters are sharded over processes (FSDP2, ZeRO-3) or the
        routers' balancing loss is wanted: there it goes whole, which is logged.
    attention: a path to force, see `attention`; None to choose.
    min_saved_tokens: prefixes that save fewer tokens are repeated.
    """

    token_budget: int | None = None
    attention: AttentionPath | None = None
    min_saved_tokens: int = DEFAULT_MIN_SAVED_TOKENS

    def __post_init__(self) -> None:
        if self.token_budget is not None and self.token_budget < 1:
            raise ValueError(f"token_budget must be at least 1 token, got {self.token_budget}")


@dataclass(frozen=True, eq=False)
class PaddedRows:
    """Token ids, mask and what to score, `[B, S]` each, the latter two bool."""

    ids: Tensor
    mask: Tensor
    scored: Tensor

    def take(self, rows: Sequence[int]) -> PaddedRows:
        index = torch.tensor(rows, device=self.ids.device)
        return PaddedRows(self.ids[index], self.mask[index], self.scored[index])

    def tree(self, sharing: Sharing, *, keep_every_token: bool = False) -> PrefixTree:
        return build_tree(
            self.ids,
            self.mask,
            self.scored,
            keep_every_token=keep_every_token,
            min_saved_tokens=sharing.min_saved_tokens,
        )


@dataclass(frozen=True, eq=False)
class TreeRun:
    """One packed row to forward: `ids` and `positions` are `[1, T]`, `targets` is `[N]`."""

    tree: PrefixTree
    ids: Tensor
    positions: Tensor
    targets: Tensor
    tree_pass: TreePass = field(repr=False)


RunTree = Callable[[TreeRun], tuple[Tensor, ...]]


@dataclass(frozen=True, eq=False)
class Scored:
    """Per-token values `[B, S]`, zero where nothing was scored, and the trees that were run."""

    values: tuple[Tensor, ...]
    trees: tuple[PrefixTree, ...]
    paths: frozenset[AttentionPath]

    @property
    def packed_tokens(self) -> int:
        return sum(tree.num_tokens for tree in self.trees)

    @property
    def repeated_tokens(self) -> int:
        return sum(tree.repeated_tokens for tree in self.trees)

    @property
    def rho(self) -> float:
        """Tokens of the repeated batch for each that went through the model."""
        return self.repeated_tokens / max(self.packed_tokens, 1)


def run_of(rows: PaddedRows, tree: PrefixTree, sharing: Sharing, prefix_tokens: int = 0) -> TreeRun:
    """What goes into the model for `tree`, made from `rows`, after an outside prefix."""
    return TreeRun(
        tree,
        tree.take(rows.ids),
        tree.position.unsqueeze(0) + prefix_tokens,
        tree.targets(rows.ids),
        TreePass(TreeAttention(tree, sharing.attention, prefix_tokens)),
    )


def score_rows(
    rows: PaddedRows,
    sharing: Sharing,
    run: RunTree,
    *,
    keep_every_token: bool = False,
    trained: Iterable[nn.Parameter] | None = None,
) -> Scored:
    """Score a padded batch through its prefix tree or trees.

    keep_every_token: forward tokens that predict nothing, too.
    trained: the parameters that `run` depends on, which lets a group over the budget go in two
    phases; None forwards it whole.
    """
    from memlint_runtime.shared_prompt.two_phase import score_in_two_phases

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
        if tree.num_tokens > budget and trained is not None and len(members) > 1:
            parts.append(score_in_two_phases(taken, tree, sharing, run, trained))
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
