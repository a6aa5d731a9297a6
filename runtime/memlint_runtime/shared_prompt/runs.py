"""What scoring is made of: padded rows, how prompts are shared, the run of a tree, the scores.

What is scored and by which output head is the caller's: a `RunTree` sends one packed row through
the model and returns tensors `[M]`, one value for each distinct scored token.

B rows, S columns of the padded batch; T packed tokens; N scored tokens, M distinct.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from memlint_runtime.attention import AttentionPath, ForestAttention, require_path
from memlint_runtime.quantities import whole_number
from memlint_runtime.shared_prompt.layout import PrefixTree, build_tree
from memlint_runtime.shared_prompt.models import TreePass

__all__ = [
    "PaddedRows", "RunTree", "Scored", "Sharing", "TreeRun", "joined", "require_sharing", "run_of",
]  # fmt: skip


@dataclass(frozen=True)
class Sharing:
    """How prompts are shared.

    token_budget: most packed tokens in one forward pass; None for no bound. A group over it goes
        in two phases, except where parameters are sharded over processes (FSDP2, ZeRO-3),
        DeepSpeed's ZeRO-1 or -2 reduces gradients, or the routers' balancing loss is wanted: there
        it goes whole, which is logged.
    attention: a path to force, see `memlint_runtime.attention.engine`; None to choose.
    min_saved_tokens: prefixes that save fewer tokens are repeated; None for what pays, as `layout`
        has it.
    keep_prompts: where the trainers' micro-batches cut groups, forward a prompt in the first of
        them and send its gradient back in the last, so that micro-batches of one row share too.
        Set it to False where single micro-batches' gradients are used (`torch.autograd.grad`,
        `backward(inputs=...)`, a step after each backward pass): all but the last have no part that
        goes through the prompt.

    Raises ValueError for a path that there is not, for bounds that are no whole numbers, and for
    `keep_prompts` that is neither True nor False.
    """

    token_budget: int | None = None
    attention: AttentionPath | None = None
    min_saved_tokens: int | None = None
    keep_prompts: bool = True

    def __post_init__(self) -> None:
        require_path(self.attention)
        if self.token_budget is not None:
            whole_number("token_budget", self.token_budget, 1, "token")
        if self.min_saved_tokens is not None:
            whole_number("min_saved_tokens", self.min_saved_tokens, 0)
        if not isinstance(self.keep_prompts, bool):
            raise ValueError(f"keep_prompts must be True or False, got {self.keep_prompts!r}.")


def require_sharing(sharing: Any) -> None:
    """Raise TypeError unless this is a `Sharing`, an object of it and not its class."""
    if isinstance(sharing, Sharing):
        return
    got = "the class itself" if sharing is Sharing else repr(sharing)
    raise TypeError(
        f"sharing wants an object of memlint_runtime.shared_prompt.Sharing, got {got}. Write "
        f"sharing=Sharing(), with what is set in the parentheses, such as token_budget=4096, or "
        f"leave it out."
    )


@dataclass(frozen=True, eq=False)
class PaddedRows:
    """Token ids, mask and what to score, `[B, S]` each, the latter two bool."""

    ids: Tensor
    mask: Tensor
    scored: Tensor

    def take(self, rows: Sequence[int]) -> PaddedRows:
        index = torch.tensor(rows, device=self.ids.device)
        return PaddedRows(self.ids[index], self.mask[index], self.scored[index])

    def after(self, prefix_tokens: int) -> PaddedRows:
        """The same rows without their first tokens."""
        return replace(self, mask=self.mask & (self.mask.cumsum(1) > prefix_tokens))

    @property
    def forwarded(self) -> Tensor:
        """How many tokens of each row are forwarded, `[B]`: its last scored token, and what follows
        it, predicts nothing."""
        scored_later = self.scored.flip(1).cumsum(1).flip(1) > self.scored.long()
        return (self.mask & scored_later).sum(1)

    def equals(self, other: PaddedRows) -> bool:
        """True if these are the same rows, padded in the same way."""
        here = self.ids.device
        return (
            torch.equal(self.ids, other.ids.to(here))
            and torch.equal(self.mask, other.mask.to(here))
            and torch.equal(self.scored, other.scored.to(here))
        )

    def tree(self, sharing: Sharing, *, keep_every_token: bool = False) -> PrefixTree:
        return build_tree(
            self.ids,
            self.mask,
            self.scored,
            keep_every_token=keep_every_token,
            min_saved_tokens=sharing.min_saved_tokens,
        )


def joined(parts: Sequence[PaddedRows]) -> PaddedRows:
    """The rows of all parts one after another, padded on the left to the widest."""
    if len(parts) == 1:
        return parts[0]
    width = max(part.ids.shape[1] for part in parts)
    fields = (
        [pad(value, (width - value.shape[1], 0)) for value in values]
        for values in zip(*((one.ids, one.mask, one.scored) for one in parts), strict=True)
    )
    return PaddedRows(*map(torch.cat, fields))


@dataclass(frozen=True, eq=False)
class TreeRun:
    """One packed row to forward: `ids` and `positions` are `[1, T]`, `targets` is `[M]`."""

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
        TreePass(ForestAttention(tree, sharing.attention, prefix_tokens)),
    )
