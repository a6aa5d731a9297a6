"""Batches without padding: documents end to end in one row, with the places where they begin.

What: `PaddingFreeCollator` flattens rows for causal language models, packed rows included;
`PreferenceCollator` flattens chosen and rejected sequences for preference losses and rewards.
Why: padding costs memory and time in every layer. A flattened batch has none, but needs attention
that keeps documents apart: `use_variable_length_attention`, or a flash implementation.
Cost: the batch's token count varies from step to step; `pad_to_multiple_of` bounds the variety.

T tokens in the batch, N documents.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

import torch
from torch import Tensor

__all__ = ["IGNORED_LABEL", "PaddingFreeCollator", "PreferenceCollator", "sum_by_document"]

IGNORED_LABEL = -100

Row = Mapping[str, Any]

# Columns that name the tokens to learn from; 0 takes a token's label away.
_LOSS_MASKS = ("completion_mask", "assistant_masks")


@dataclass(frozen=True, slots=True)
class PaddingFreeCollator:
    """Rows with `input_ids` to one row ``[1, T]``.

    Reads `labels` (else the ids; `completion_mask` and `assistant_masks` hide tokens), and
    `seq_lengths` of packed rows, or `position_ids` that restart. An `attention_mask` may name
    padding on the right or left of a row, which is cut off.

    Returns `input_ids`, `labels`, `position_ids` ``[1, T]``, `cu_seq_lens_q` and `cu_seq_lens_k`
    ``[N + 1]`` int32, `max_length_q` and `max_length_k`. Labels are -100 at each document's first
    token, which no token may predict. There is no `attention_mask`: one of ones would make
    documents attend to each other in transformers.

    pad_to_multiple_of: T is filled up to a multiple of this by one more document of
        ``pad_token_id``, whose labels are -100.
    return_seq_idx: also `seq_idx` ``[1, T]`` int32, the document of each token, which short
        convolutions of linear-attention layers ask for.
    unlearned_token_id: what `DataCollatorForLanguageModeling` learns: every token but this one,
        whatever `labels` and masks a row has. Packed rows keep their labels. None reads them all.
    """

    pad_to_multiple_of: int | None = None
    pad_token_id: int = 0
    return_seq_idx: bool = False
    unlearned_token_id: int | None = None

    def __call__(self, rows: Sequence[Row]) -> dict[str, Any]:
        if not rows:
            raise ValueError("a batch needs at least one row, got none.")
        ids: list[Tensor] = []
        labels: list[Tensor] = []
        lengths: list[int] = []
        for row in rows:
            row_ids, row_labels, row_lengths = read_row(row)
            if self.unlearned_token_id is not None:
                kept = row_labels if "seq_lengths" in row else row_ids
                row_labels = kept.masked_fill(row_ids == self.unlearned_token_id, IGNORED_LABEL)
            ids.append(row_ids)
            labels.append(row_labels)
            lengths.extend(row_lengths)
        return flatten(ids, labels, lengths, self)


@dataclass(frozen=True, slots=True)
class PreferenceCollator:
    """Pairs to one row ``[1, T]``: all chosen sequences, then all rejected ones.

    Reads `chosen_ids` and `rejected_ids`, each preceded by `prompt_ids` where a row has them (what
    TRL's DPO and reward trainers tokenize to). With `prompt_ids`, labels name the completions'
    tokens alone.

    Returns what `PaddingFreeCollator` returns, `last_tokens` ``[2 * pairs]``, the place of each
    sequence's last token (where a reward is read), and every other column that holds a number per
    pair (`margin`, `ref_chosen_logps`, ...) as a tensor ``[pairs]``.
    """

    pad_to_multiple_of: int | None = None
    pad_token_id: int = 0
    return_seq_idx: bool = False

    def __call__(self, rows: Sequence[Row]) -> dict[str, Any]:
        if not rows:
            raise ValueError("a batch needs at least one pair, got none.")
        ids: list[Tensor] = []
        labels: list[Tensor] = []
        for side in ("chosen_ids", "rejected_ids"):
            for row in rows:
                if side not in row:
                    raise ValueError(f"a pair has no {side!r} but {_names(row)}. Tokenize first.")
                prompt = _tensor(row.get("prompt_ids", ()))
                answer = _tensor(row[side])
                if not len(answer):
                    raise ValueError(f"a pair has an empty {side!r}; leave such pairs out.")
                ids.append(torch.cat([prompt, answer]))
                hidden = torch.full_like(prompt, IGNORED_LABEL)
                labels.append(torch.cat([hidden, answer]))
        lengths = [len(x) for x in ids]
        batch = flatten(ids, labels, lengths, self)
        batch["last_tokens"] = torch.tensor(list(accumulate(lengths))) - 1
        for name, value in rows[0].items():
            if isinstance(value, int | float) and all(name in row for row in rows):
                batch[name] = torch.tensor([row[name] for row in rows])
        return batch


def sum_by_document(values: Tensor, cu_seqlens: Tensor) -> Tensor:
    """Sum of ``values`` ``[T]`` in each document, ``[N]``, in float32 or better.

    What preference losses need of the log-probabilities of a flattened batch; ``cu_seqlens`` is its
    `cu_seq_lens_q`.
    """
    if values.ndim != 1 or cu_seqlens.ndim != 1:
        raise ValueError(
            f"values and cu_seqlens are flat, got shapes {tuple(values.shape)} and "
            f"{tuple(cu_seqlens.shape)}. Flatten a row of [1, T] with [0]."
        )
    token = torch.arange(len(values), device=values.device)
    document = torch.searchsorted(cu_seqlens.to(values.device), token, right=True) - 1
    sums = torch.zeros(
        len(cu_seqlens) - 1,
        dtype=torch.promote_types(values.dtype, torch.float32),
        device=values.device,
    )
    return sums.index_add(0, document, values.to(sums.dtype))


def read_row(row: Row) -> tuple[Tensor, Tensor, list[int]]:
    """Ids and labels ``[L]`` of a row, and the lengths of the documents in it."""
    if "input_ids" not in row:
        raise ValueError(f"a row has no 'input_ids' but {_names(row)}. Tokenize first.")
    ids = _tensor(row["input_ids"])
    labels = _tensor(row.get("labels", ids)).clone()
    _require_length("labels", labels, ids)
    for name in _LOSS_MASKS:
        if name in row:
            mask = _tensor(row[name])
            _require_length(name, mask, ids)
            labels[mask == 0] = IGNORED_LABEL
    lengths = _document_lengths(row, ids)
    mask = _tensor(row.get("attention_mask", ()))
    if len(mask) and not bool(mask.all()):
        _require_length("attention_mask", mask, ids)
        if len(lengths) > 1:
            raise ValueError(
                "a packed row has padding in its attention_mask; pack without padding."
            )
        ids, labels = ids[mask != 0], labels[mask != 0]
        lengths = [len(ids)]
    return ids, labels, [length for length in lengths if length]


def _document_lengths(row: Row, ids: Tensor) -> list[int]:
    if "seq_lengths" in row:
        lengths = [int(n) for n in row["seq_lengths"]]
        if sum(lengths) != len(ids):
            raise ValueError(
                f"seq_lengths add up to {sum(lengths)} tokens, input_ids has {len(ids)}."
            )
        return lengths
    if "position_ids" in row:
        positions = _tensor(row["position_ids"])
        _require_length("position_ids", positions, ids)
        starts = (positions.diff() != 1).nonzero().flatten() + 1
        bounds = [0, *starts.tolist(), len(ids)]
        return [b - a for a, b in pairwise(bounds)]
    return [len(ids)]


def flatten(
    ids: list[Tensor],
    labels: list[Tensor],
    lengths: list[int],
    options: PaddingFreeCollator | PreferenceCollator,
) -> dict[str, Any]:
    tokens = sum(lengths)
    if not tokens:
        raise ValueError("a batch needs at least one token; leave empty rows out.")
    multiple = options.pad_to_multiple_of or 1
    if filler := -tokens % multiple:
        ids = [*ids, torch.full((filler,), options.pad_token_id)]
        labels = [*labels, torch.full((filler,), IGNORED_LABEL)]
        lengths = [*lengths, filler]
    cu_seqlens = torch.tensor([0, *accumulate(lengths)], dtype=torch.int32)
    counts = torch.tensor(lengths)
    starts = cu_seqlens[:-1].long()
    flat_labels = torch.cat(labels)
    flat_labels[starts] = IGNORED_LABEL
    positions = torch.arange(int(counts.sum())) - starts.repeat_interleave(counts)
    batch: dict[str, Any] = {
        "input_ids": torch.cat(ids)[None],
        "labels": flat_labels[None],
        "position_ids": positions[None],
        "cu_seq_lens_q": cu_seqlens,
        "cu_seq_lens_k": cu_seqlens,
        "max_length_q": max(lengths),
        "max_length_k": max(lengths),
    }
    if options.return_seq_idx:
        index = torch.arange(len(lengths), dtype=torch.int32).repeat_interleave(counts)
        batch["seq_idx"] = index[None]
    return batch


def _tensor(values: Any) -> Tensor:
    tensor = torch.as_tensor(values)
    if tensor.numel() and (tensor.is_floating_point() or tensor.ndim != 1):
        raise ValueError(
            f"rows hold flat lists of integers, got {tensor.dtype} of shape {tuple(tensor.shape)}."
        )
    return tensor.long()


def _require_length(name: str, values: Tensor, ids: Tensor) -> None:
    if len(values) != len(ids):
        raise ValueError(f"{name} has {len(values)} entries, input_ids has {len(ids)}.")


def _names(row: Row) -> str:
    return ", ".join(map(repr, row)) or "nothing"
