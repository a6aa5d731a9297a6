"""Random batches with known shared prefixes, for the tests of this folder."""

from __future__ import annotations

import torch
from memlint_runtime.shared_prompt.layout import PrefixTree, build_tree
from torch import Tensor


def padded(rows: list[list[int]], side: str = "right") -> tuple[Tensor, Tensor]:
    """Token ids and mask `[B, S]`; padding is id 0."""
    width = max((len(row) for row in rows), default=0)
    ids = torch.zeros(len(rows), width, dtype=torch.long)
    mask = torch.zeros(len(rows), width, dtype=torch.bool)
    for r, row in enumerate(rows):
        where = slice(width - len(row), width) if side == "left" else slice(0, len(row))
        ids[r, where] = torch.tensor(row, dtype=torch.long)
        mask[r, where] = True
    return ids, mask


def tree_of(rows: list[list[int]], *, min_saved_tokens: int = 1) -> PrefixTree:
    """The tree of rows in which every token but the first of a row is scored and kept."""
    ids, mask = padded(rows)
    scored = mask.clone()
    scored[:, :1] = False
    return build_tree(ids, mask, scored, keep_every_token=True, min_saved_tokens=min_saved_tokens)


def random_rows(
    seed: int, prompts: int, group: int, prompt: int, completion: int
) -> list[list[int]]:
    """`group` completions of each of `prompts` prompts, lengths drawn up to the given ones."""
    draw = torch.Generator().manual_seed(seed)

    def tokens(most: int) -> list[int]:
        length = int(torch.randint(1, most + 1, (1,), generator=draw))
        return torch.randint(1, 50, (length,), generator=draw).tolist()

    return [
        [*start, *tokens(completion)]
        for start in (tokens(prompt) for _ in range(prompts))
        for _ in range(group)
    ]


# A system prompt, tasks under it, turns under these, completions under those; and a loner.
DEEP_ROWS = [
    [*range(1, 30), *task, *turn, *end]
    for task in ([31, 32, 33, 34], [35, 36])
    for turn in ([41, 42, 43, 44, 45], [46])
    for end in ([1, 2, 3], [4, 5, 6, 7, 8, 9, 10], [11])
] + [[90, 91, 92], [*range(1, 30)], [*range(1, 30), 31, 32]]
