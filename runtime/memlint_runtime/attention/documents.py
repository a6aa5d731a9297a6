"""Where documents begin in a batch, from whatever the batch says about it.

What: cumulative lengths of documents from position ids, from a padding mask, or from lengths.
Why: every kernel that keeps documents apart wants the same few integers.
Cost: one pass over the batch, and on a GPU one wait for it; batches that carry `cu_seq_lens_q` and
`max_length_q` (as `PaddingFreeCollator` makes them) skip both.

B rows, S slots a row, T tokens that are not padding, N documents.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor


class Documents(NamedTuple):
    """Documents that lie end to end among the T tokens of a batch.

    cu_seqlens: ``[N + 1]`` int32, first token of each document, then T.
    max_length: tokens of the longest document.
    lengths: tokens of each document on the host, or None where nobody had to know.
    token_indices: ``[T]`` slots of the flattened ``[B * S]`` batch that hold the tokens, or None
        when every slot does.
    """

    cu_seqlens: Tensor
    max_length: int
    lengths: tuple[int, ...] | None = None
    token_indices: Tensor | None = None


def documents_of_lengths(
    lengths: Sequence[int], device: torch.device | str | None = None
) -> Documents:
    """Documents of so many tokens each."""
    ends = [0]
    for length in lengths:
        ends.append(ends[-1] + length)
    cu_seqlens = torch.tensor(ends, dtype=torch.int32, device=device)
    return Documents(cu_seqlens, max(lengths, default=0), tuple(lengths))


def documents_of_rows(rows: int, slots: int, device: torch.device | str | None = None) -> Documents:
    """Each of ``rows`` full rows is a document."""
    cu_seqlens = torch.arange(rows + 1, dtype=torch.int32, device=device) * slots
    return Documents(cu_seqlens, slots, (slots,) * rows)


@torch.compiler.disable  # type: ignore[untyped-decorator]
def find_documents(position_ids: Tensor | None, padding_mask: Tensor | None) -> Documents:
    """Documents of a batch ``[B, S]``, at least one of the arguments given.

    A document begins with each row and wherever the position is not one more than before. In rows
    with padding (mask 0) the tokens left are one document, unless their positions go back.
    """
    given = position_ids if position_ids is not None else padding_mask
    assert given is not None
    indices = None
    if padding_mask is not None and not bool(padding_mask.all()):
        indices = padding_mask.flatten().nonzero().squeeze(-1)
        begins = torch.ones_like(indices, dtype=torch.bool)
        begins[1:] = (indices // given.shape[1]).diff() != 0
        if position_ids is not None:
            begins[1:] |= position_ids.flatten()[indices].diff() <= 0
    else:
        begins = torch.zeros(given.shape, dtype=torch.bool, device=given.device)
        begins[:, 0] = True
        if position_ids is not None:
            begins[:, 1:] = position_ids.diff(dim=1) != 1
        begins = begins.flatten()
    bounds = [*begins.nonzero().squeeze(-1).tolist(), begins.numel()]
    lengths = [b - a for a, b in pairwise(bounds)]
    return documents_of_lengths(lengths, given.device)._replace(token_indices=indices)


def positions_of(documents: Documents, tokens: int) -> Tensor:
    """Position of each of the T tokens in its document, ``[T]`` int64."""
    starts = documents.cu_seqlens[:-1].long()
    repeats = documents.cu_seqlens.diff().long()
    first = torch.repeat_interleave(starts, repeats, output_size=tokens)
    return torch.arange(tokens, device=starts.device) - first
