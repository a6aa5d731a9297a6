"""Rows that begin alike, laid out once: a packed prefix tree.

Every token of a batch belongs to one node of a tree; rows that share their first tokens share the
nodes that hold them. Nodes stand in depth-first order in one packed row, so a node's descendants
follow it without a gap: a forest, as attention takes it (`memlint_runtime.attention`), with what
leads from the padded batch to it and back. Each token goes through the model once:
P + G(C - 1) tokens for a group of G completions of a prompt, where the repeated batch has
G(P + C). The last token of a row predicts nothing and is left out.

Which rows belong together is read from the tokens: nobody has to say it, groups may differ in size,
and prefixes may nest (a system prompt, a task, a turn). A node that saves fewer than
`min_saved_tokens` is merged into its children, since all tokens below have to look back at it. By
estimate, not measured, that costs each a few hundredths of its forward and backward pass in a small
model and less in a large one: by default a node saves 16 tokens and one for every
LOOKS_BACK_FOR_TOKEN that look back, or is merged.

Rows that share a scored token share its score, too: the output head sees M of the N scored tokens,
each pair of a predicting token and its target once.

Cost: sorting the rows on the CPU, 1 ms for 16 rows of 5,256 tokens and 6 ms for 64 rows of 4,096,
and two transfers from the accelerator, five bytes a token.

B rows, S columns of the padded batch; T packed tokens; N scored tokens, M of them distinct.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from memlint_runtime.attention import Node
from memlint_runtime.fake_numbers import numbers_of

__all__ = ["PrefixTree", "build_tree"]

MIN_SAVED_TOKENS = 16
LOOKS_BACK_FOR_TOKEN = 32

_Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class PrefixTree:
    """A batch of token rows as a packed prefix tree; a `Forest` for attention.

    Of each packed token, `[T]`: row, column: where in the padded batch it comes from. position:
    its place in its row, padding not counted. stop: see `Forest`. rows_through: how many rows of
    the batch pass through it.
    Of each scored token, `[N]`: predictor: the packed token whose hidden state predicts it.
    scored_row, scored_column: where in the padded batch it stands.
    distinct, `[M]`: the first scored token of each score; score_of, `[N]`: which score is a
    token's. Both None where all differ, M being N.
    shape: (B, S) of the padded batch. repeated_tokens: what the repeated batch would forward,
    padding not counted. span: the longest row's tokens. groups: the rows under each root, in
    packed order; rows without tokens are in none.
    """

    row: Tensor
    column: Tensor
    position: Tensor
    stop: Tensor
    rows_through: Tensor
    predictor: Tensor
    scored_row: Tensor
    scored_column: Tensor
    distinct: Tensor | None
    score_of: Tensor | None
    nodes: tuple[Node, ...]
    shape: tuple[int, int]
    repeated_tokens: int
    span: int
    groups: tuple[tuple[int, ...], ...]

    @property
    def num_tokens(self) -> int:
        """T, the tokens that go through the model."""
        return self.row.shape[0]

    @property
    def num_scored(self) -> int:
        """N, the tokens whose log-probability is wanted."""
        return self.predictor.shape[0]

    @property
    def rho(self) -> float:
        """Tokens of the repeated batch for each token that goes through the model."""
        return self.repeated_tokens / max(self.num_tokens, 1)

    @property
    def depth(self) -> int:
        """Levels of the tree: 1 where nothing is shared, 2 for prompts with their completions."""
        return 1 + max((node.level for node in self.nodes), default=0)

    def to(self, device: torch.device | str) -> PrefixTree:
        """The same tree with its tensors on `device`."""
        moved: dict[str, Any] = {
            name: value.to(device, non_blocking=True)
            for name, value in vars(self).items()
            if isinstance(value, Tensor)
        }
        return replace(self, **moved)

    def take(self, padded_BS: Tensor) -> Tensor:
        """The packed row `[1, T]` of a padded `[B, S]` tensor."""
        return padded_BS[self.row, self.column].unsqueeze(0)

    @property
    def predicting(self) -> Tensor:
        """The packed tokens `[M]` whose hidden states the output head has to see."""
        return self.predictor if self.distinct is None else self.predictor[self.distinct]

    def targets(self, padded_BS: Tensor) -> Tensor:
        """What these predict, `[M]`, of a padded `[B, S]` tensor."""
        row_N, column_N = self.scored_row, self.scored_column
        if self.distinct is not None:
            row_N, column_N = row_N[self.distinct], column_N[self.distinct]
        return padded_BS[row_N, column_N]

    def spread(self, score_M: Tensor) -> Tensor:
        """Scores at the places of their tokens in the padded batch, `[B, S]`, else zero."""
        padded_BS = score_M.new_zeros(self.shape)
        score_N = score_M if self.score_of is None else score_M[self.score_of]
        return padded_BS.index_put((self.scored_row, self.scored_column), score_N)


@dataclass(slots=True)
class _Branch:
    """A node under construction: tokens `begin:end` of the rows in `members`."""

    begin: int
    end: int
    members: list[int]
    children: list[_Branch]


def build_tree(
    ids_BS: Tensor,
    mask_BS: Tensor,
    scored_BS: Tensor,
    *,
    keep_every_token: bool = False,
    min_saved_tokens: int | None = None,
) -> PrefixTree:
    """The prefix tree of a padded batch, on the device of `ids_BS`.

    ids_BS: token ids. mask_BS: true at tokens, false at padding, wherever that is: padding does not
    count in positions. scored_BS: true where a log-probability is wanted.
    keep_every_token: also forward tokens that predict nothing (router statistics count them).
    min_saved_tokens: prefixes that save fewer are repeated; None for what pays, see the module.

    Raises ValueError where a scored token is padding or has no token before it in its row.
    """
    if ids_BS.dim() != 2 or ids_BS.shape != mask_BS.shape or ids_BS.shape != scored_BS.shape:
        raise ValueError(
            "token ids, mask and scored mask must be [rows, columns] of one shape, got "
            f"{tuple(ids_BS.shape)}, {tuple(mask_BS.shape)} and {tuple(scored_BS.shape)}"
        )
    ids = numbers_of(ids_BS.to(torch.int32))
    flags = numbers_of(mask_BS.bool() | scored_BS.bool().to(torch.uint8) << 1)
    mask, scored = flags & 1 == 1, flags & 2 == 2
    if (scored & ~mask).any():
        row = int(np.argwhere(scored & ~mask)[0][0])
        raise ValueError(f"row {row} scores a token that its mask calls padding")

    columns = [np.flatnonzero(row) for row in mask]
    scored_at = [np.flatnonzero(scored[r][columns[r]]) for r in range(len(columns))]
    for row, places in enumerate(scored_at):
        if len(places) and places[0] == 0:
            raise ValueError(
                f"row {row} scores its first token, which nothing predicts: give every row a "
                "prompt of at least one token"
            )
    kept = _forwarded(columns, scored_at, keep_every_token=keep_every_token)
    tokens = [ids[r][columns[r][:length]] for r, length in enumerate(kept)]
    roots = _merge_small(_branches(tokens), min_saved_tokens)
    return _pack(roots, tokens, columns, scored_at, ids, mask).to(ids_BS.device)


def _forwarded(
    columns: list[_Ints], scored_at: list[_Ints], *, keep_every_token: bool
) -> list[int]:
    """How many tokens of each row go through the model."""
    if keep_every_token:
        kept = [len(places) for places in columns]
    else:
        kept = [int(places[-1]) if len(places) else 0 for places in scored_at]
    if not any(kept):
        # One token keeps the model in the graph: its gradient is zero then, and not absent.
        first = next((r for r, places in enumerate(columns) if len(places)), -1)
        kept = [int(r == first) for r in range(len(kept))]
    return kept


def _common(left: _Ints, right: _Ints) -> int:
    """Length of the common prefix."""
    length = min(len(left), len(right))
    different = np.flatnonzero(left[:length] != right[:length])
    return int(different[0]) if len(different) else length


def _branches(tokens: list[_Ints]) -> list[_Branch]:
    """The compressed prefix tree of the rows: sorted, neighbours share the longest prefixes."""
    order = [r for r, row in enumerate(tokens) if len(row)]
    # Big-endian bytes compare like the tokens themselves.
    order.sort(key=lambda r: tokens[r].astype(">i4").tobytes())
    shared = [
        _common(tokens[a], tokens[b]) for a, b in pairwise(order)
    ]  # shared[i]: common prefix of order[i] and order[i + 1]

    def grow(low: int, high: int, begin: int) -> list[_Branch]:
        """Rows order[low:high] agree on their first `begin` tokens."""
        if high - low == 1:
            row = order[low]
            end = len(tokens[row])
            return [_Branch(begin, end, [row], [])] if end > begin else []
        end = min(shared[low : high - 1])
        cuts = [i + 1 for i in range(low, high - 1) if shared[i] == end]
        children = [child for a, b in pairwise([low, *cuts, high]) for child in grow(a, b, end)]
        return [_Branch(begin, end, order[low:high], children)] if end > begin else children

    return grow(0, len(order), 0) if order else []


def _merge_small(branches: list[_Branch], min_saved_tokens: int | None) -> list[_Branch]:
    """Nodes that save too little pushed down into each of their children, from the root on."""
    result: list[_Branch] = []
    for branch in branches:
        below = {row for child in branch.children for row in child.members}
        ending = [row for row in branch.members if row not in below]
        copies = len(branch.children) + bool(ending)
        saved = (branch.end - branch.begin) * (copies - 1)
        least = min_saved_tokens
        if least is None:
            least = max(MIN_SAVED_TOKENS, _tokens_below(branch) // LOOKS_BACK_FOR_TOKEN)
        if branch.children and saved < least:
            for child in branch.children:
                child.begin = branch.begin
            leaf = [_Branch(branch.begin, branch.end, ending, [])] if ending else []
            result += leaf + _merge_small(branch.children, min_saved_tokens)
        else:
            branch.children = _merge_small(branch.children, min_saved_tokens)
            result.append(branch)
    return result


def _tokens_below(branch: _Branch) -> int:
    return sum(child.end - child.begin + _tokens_below(child) for child in branch.children)


def _pack(
    roots: list[_Branch],
    tokens: list[_Ints],
    columns: list[_Ints],
    scored_at: list[_Ints],
    ids: npt.NDArray[np.int32],
    mask: npt.NDArray[np.bool_],
) -> PrefixTree:
    """Depth-first order, and the tables that lead from the padded batch to it and back."""
    place = np.full((len(tokens), max((len(row) for row in tokens), default=0)), -1, np.int64)
    row_T: list[_Ints] = []
    column_T: list[_Ints] = []
    position_T: list[_Ints] = []
    through_T: list[_Ints] = []
    nodes: list[Node] = []
    count = 0

    def visit(branch: _Branch, level: int) -> None:
        nonlocal count
        start, length, row = count, branch.end - branch.begin, branch.members[0]
        index = len(nodes)
        nodes.append(
            Node(start, start + length, 0, level)
        )  # in its place; its end is not known yet
        row_T.append(np.full(length, row))
        column_T.append(columns[row][branch.begin : branch.end])
        position_T.append(np.arange(branch.begin, branch.end))
        through_T.append(np.full(length, len(branch.members)))
        place[np.array(branch.members), branch.begin : branch.end] = np.arange(
            start, start + length
        )
        count += length
        for child in branch.children:
            visit(child, level + 1)
        nodes[index] = Node(start, start + length, count, level)

    for root in roots:
        visit(root, 0)

    stop = [np.full(node.end - node.start, node.stop) for node in nodes]
    scored_rows = [np.full(len(at), r) for r, at in enumerate(scored_at)]
    predictor = [place[r, at - 1] for r, at in enumerate(scored_at)]
    targets = [ids[r][columns[r][at]] for r, at in enumerate(scored_at)]
    distinct, score_of = _distinct(predictor, targets)
    return PrefixTree(
        row=_tensor(row_T),
        column=_tensor(column_T),
        position=_tensor(position_T),
        stop=_tensor(stop),
        rows_through=_tensor(through_T),
        predictor=_tensor(predictor),
        scored_row=_tensor(scored_rows),
        scored_column=_tensor([columns[r][at] for r, at in enumerate(scored_at)]),
        distinct=distinct,
        score_of=score_of,
        nodes=tuple(nodes),
        shape=(ids.shape[0], ids.shape[1]),
        repeated_tokens=int(mask.sum()),
        span=max((len(row) for row in tokens), default=0),
        groups=tuple(tuple(sorted(root.members)) for root in roots),
    )


def _distinct(
    predictor: list[_Ints], targets: list[npt.NDArray[np.int32]]
) -> tuple[Tensor | None, Tensor | None]:
    """The scored tokens that stand for all, and which of them stands for each; None, None where
    there is nothing to save."""
    if not predictor:
        return None, None
    pairs = (np.concatenate(predictor) << 32) + np.concatenate(targets)
    _, first, score_of = np.unique(pairs, return_index=True, return_inverse=True)
    if len(first) == len(pairs):
        return None, None
    return _tensor([first]), _tensor([score_of])


def _tensor(parts: list[_Ints]) -> Tensor:
    joined = np.concatenate(parts) if parts else np.empty(0, np.int64)
    # Not `from_numpy`, which no mode of fakes sees.
    return torch.tensor(joined, dtype=torch.long)
