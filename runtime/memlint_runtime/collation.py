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

import numpy as np
import torch
from torch import Tensor

from memlint_runtime.quantities import holds_rows, whole_number

__all__ = ["IGNORED_LABEL", "PaddingFreeCollator", "PreferenceCollator", "sum_by_document"]

IGNORED_LABEL = -100

Row = Mapping[str, Any]

# Columns that name the tokens to learn from; 0 takes a token's label away.
_LOSS_MASKS = ("completion_mask", "assistant_masks")

# What a model reads beside the ids, or in their place: a batch without it trains on other things.
_OTHER_INPUTS = (
    "pixel_values", "pixel_values_videos", "input_features", "input_values", "inputs_embeds",
)  # fmt: skip

# Numbers of a pair whose absence changes a loss.
_PAIR_NUMBERS = ("margin", "ref_chosen_logps", "ref_rejected_logps")


@dataclass(frozen=True, slots=True)
class PaddingFreeCollator:
    """Rows with `input_ids` to one row ``[1, T]``.

    Reads `labels` (else the ids; `completion_mask` and `assistant_masks` hide tokens), and
    `seq_lengths` of packed rows, or `position_ids` that restart. An `attention_mask` may name
    padding on the right or left of a row, which is cut off. Other columns are left out. ValueError
    where that would change what is learned: images, sounds and embeddings, `token_type_ids` other
    than 0; and for zeros of a mask between tokens.

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

    def __post_init__(self) -> None:
        _require_padding(self)

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
    pair (`margin`, `ref_chosen_logps`, ...) as a tensor ``[pairs]``. ValueError where such a number
    is missing in a row. Text and lists are left out.
    """

    pad_to_multiple_of: int | None = None
    pad_token_id: int = 0
    return_seq_idx: bool = False

    def __post_init__(self) -> None:
        _require_padding(self)

    def __call__(self, rows: Sequence[Row]) -> dict[str, Any]:
        if not rows:
            raise ValueError("a batch needs at least one pair, got none.")
        ids: list[Tensor] = []
        labels: list[Tensor] = []
        for side in ("chosen_ids", "rejected_ids"):
            for row in rows:
                _require_column(row, side, "pair")
                _require_text(row)
                prompt = _tensor("prompt_ids", row.get("prompt_ids", ()))
                answer = _tensor(side, row[side])
                if not len(answer):
                    raise ValueError(f"a pair has an empty {side!r}; leave such pairs out.")
                ids.append(torch.cat([prompt, answer]))
                hidden = torch.full_like(prompt, IGNORED_LABEL)
                labels.append(torch.cat([hidden, answer]))
        lengths = [len(x) for x in ids]
        batch = flatten(ids, labels, lengths, self)
        batch["last_tokens"] = torch.tensor(list(accumulate(lengths))) - 1
        for name in dict.fromkeys(name for row in rows for name in row):
            if (numbers := _numbers_of_pairs(name, rows)) is not None:
                batch[name] = numbers
        return batch


def sum_by_document(values: Tensor, cu_seqlens: Tensor) -> Tensor:
    """Sum of ``values`` ``[T]`` in each document, ``[N]``, in float32 or better.

    What preference losses need of the log-probabilities of a flattened batch; ``cu_seqlens`` is its
    `cu_seq_lens_q`: offsets that rise from 0 to T, or to T + 1 where the last token has no value.
    ValueError for others, whose sums would be wrong (to see that, a GPU is waited for once).
    """
    cu_seqlens = torch.as_tensor(cu_seqlens)
    if values.ndim != 1 or cu_seqlens.ndim != 1:
        raise ValueError(
            f"values and cu_seqlens are flat, got shapes {tuple(values.shape)} and "
            f"{tuple(cu_seqlens.shape)}. Flatten a row of [1, T] with [0]."
        )
    # Compiled, or as fakes, offsets have no values to look at.
    if not torch.compiler.is_compiling() and type(cu_seqlens) is Tensor and not cu_seqlens.is_meta:
        _require_offsets(cu_seqlens, len(values))
    token = torch.arange(len(values), device=values.device)
    document = torch.searchsorted(cu_seqlens.to(values.device), token, right=True) - 1
    sums = torch.zeros(
        len(cu_seqlens) - 1,
        dtype=torch.promote_types(values.dtype, torch.float32),
        device=values.device,
    )
    return sums.index_add(0, document, values.to(sums.dtype))


def _require_offsets(cu_seqlens: Tensor, tokens: int) -> None:
    sound = bool(len(cu_seqlens)) and bool(
        (cu_seqlens.diff() >= 0).all()
        & (cu_seqlens[0] == 0)
        & (cu_seqlens[-1] >= tokens)
        & (cu_seqlens[-1] <= tokens + 1)
    )
    if not sound:
        raise ValueError(
            f"cu_seqlens must rise from 0 to {tokens}, the number of values, got "
            f"{cu_seqlens.tolist()}. Use the batch's cu_seq_lens_q."
        )


def _numbers_of_pairs(name: str, rows: Sequence[Row]) -> Tensor | None:
    """The column as a tensor ``[pairs]`` where it holds numbers; None where it does not."""
    numbers = [_number(row.get(name)) for row in rows]
    gaps = [place for place, number in enumerate(numbers) if number is None]
    if not gaps:
        return torch.tensor(numbers)
    known = name in _PAIR_NUMBERS and any(row.get(name) is None for row in rows)
    if len(gaps) == len(rows) and not known:
        return None
    got = repr(rows[gaps[0]][name]) if name in rows[gaps[0]] else "no such column"
    raise ValueError(
        f"column {name!r} must hold a number in every pair, row {gaps[0]} of the batch has {got}. "
        f"Fill it, or leave the column out."
    )


def _number(value: Any) -> int | float | None:
    if isinstance(value, Tensor | np.ndarray | np.number | np.bool_) and value.ndim == 0:
        value = value.item()
    return value if isinstance(value, int | float) else None


def read_row(row: Row) -> tuple[Tensor, Tensor, list[int]]:
    """Ids and labels ``[L]`` of a row, and the lengths of the documents in it."""
    _require_column(row, "input_ids", "row")
    _require_text(row)
    ids = _tensor("input_ids", row["input_ids"])
    labels = _tensor("labels", row.get("labels", ids)).clone()
    _require_length("labels", labels, ids)
    for name in _LOSS_MASKS:
        if name in row:
            mask = _tensor(name, row[name])
            _require_length(name, mask, ids)
            labels[mask == 0] = IGNORED_LABEL
    lengths = _document_lengths(row, ids)
    mask = _tensor("attention_mask", row.get("attention_mask", ()))
    if len(mask) and not bool(mask.all()):
        _require_length("attention_mask", mask, ids)
        if len(lengths) > 1:
            raise ValueError(
                "a packed row has padding in its attention_mask; pack without padding."
            )
        _require_padding_at_an_end(mask)
        ids, labels = ids[mask != 0], labels[mask != 0]
        lengths = [len(ids)]
    return ids, labels, [length for length in lengths if length]


def _require_padding_at_an_end(mask: Tensor) -> None:
    places = mask.nonzero().flatten().tolist()
    if places and places[-1] - places[0] + 1 != len(places):
        hole = next(i for i in range(places[0], places[-1]) if not mask[i])
        raise ValueError(
            f"attention_mask is 0 between tokens, at {hole}: padding lies on the right or left of "
            f"a row, and a token that is only hidden cannot be kept in a batch without a mask. "
            f"Take such tokens out, or collate with padding."
        )


def _document_lengths(row: Row, ids: Tensor) -> list[int]:
    positions = row.get("position_ids")
    if "seq_lengths" in row:
        lengths = _tensor("seq_lengths", row["seq_lengths"]).tolist()
        if lengths and min(lengths) < 0:
            raise ValueError(f"seq_lengths must not be negative, got {lengths}.")
        if sum(lengths) != len(ids):
            raise ValueError(
                f"seq_lengths add up to {sum(lengths)} tokens, input_ids has {len(ids)}."
            )
        # Positions in several dimensions say nothing of documents.
        if positions is not None and not holds_rows(positions):
            named, found = [n for n in lengths if n], _lengths_by_position(positions, ids)
            if named != found:
                raise ValueError(
                    f"seq_lengths name documents of {named} tokens, position_ids of {found}: they "
                    f"contradict each other. Leave the wrong one out."
                )
        return lengths
    return _lengths_by_position(positions, ids) if "position_ids" in row else [len(ids)]


def _lengths_by_position(position_ids: Any, ids: Tensor) -> list[int]:
    """Lengths of the documents of a row; one begins where positions do not go on by 1."""
    positions = _tensor("position_ids", position_ids)
    _require_length("position_ids", positions, ids)
    starts = (positions.diff() != 1).nonzero().flatten() + 1
    bounds = [0, *starts.tolist(), len(ids)]
    return [b - a for a, b in pairwise(bounds) if b > a]


def flatten(
    ids: list[Tensor],
    labels: list[Tensor],
    lengths: list[int],
    options: PaddingFreeCollator | PreferenceCollator,
) -> dict[str, Any]:
    tokens = sum(lengths)
    if not tokens:
        raise ValueError("a batch needs at least one token; leave empty rows out.")
    multiple = int(options.pad_to_multiple_of or 1)
    if filler := -tokens % multiple:
        ids = [*ids, torch.full((filler,), int(options.pad_token_id))]
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


def _tensor(name: str, values: Any) -> Tensor:
    """A row's column ``[L]``."""
    if values is None:
        raise ValueError(f"column {name!r} of a row is None. Fill it, or leave the column out.")
    try:
        tensor = torch.as_tensor(values)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(
            f"rows hold flat lists of integers, got {name!r} of which no tensor can be made: "
            f"{error}."
        ) from None
    if tensor.numel() and (tensor.is_floating_point() or tensor.ndim != 1):
        raise ValueError(
            f"rows hold flat lists of integers, got {name!r} of {tensor.dtype} and shape "
            f"{tuple(tensor.shape)}."
        )
    return tensor.long()


def _require_column(row: Row, name: str, what: str) -> None:
    if not hasattr(row, "items"):
        raise ValueError(f"a {what} is a mapping with {name!r}, got {type(row).__name__}.")
    if name not in row:
        raise ValueError(f"a {what} has no {name!r} but {_names(row)}. Tokenize first.")


def _require_text(row: Row) -> None:
    """Raise where a row has inputs of a model that a batch of ids would be without."""
    found = [name for name in _OTHER_INPUTS if _has_values(row.get(name))]
    # Many tokenizers give zeros, which say nothing.
    types = row.get("token_type_ids")
    if types is not None and bool(_tensor("token_type_ids", types).any()):
        found.append("token_type_ids")
    if found:
        raise ValueError(
            f"a row has {', '.join(map(repr, found))}, which this collator would leave out: it "
            f"makes batches of text alone. Take the column away where the model does not need it, "
            f"else collate with padding."
        )


def _has_values(value: Any) -> bool:
    return value is not None and (not hasattr(value, "__len__") or len(value) > 0)


def _require_padding(options: PaddingFreeCollator | PreferenceCollator) -> None:
    if options.pad_to_multiple_of is None:
        return
    if whole_number("pad_to_multiple_of", options.pad_to_multiple_of, 0):
        if options.pad_token_id is None:
            raise ValueError(
                "pad_to_multiple_of needs a pad_token_id, got None: pass the tokenizer's, or the "
                "id of another token."
            )
        whole_number("pad_token_id", options.pad_token_id, -(2**63))


def _require_length(name: str, values: Tensor, ids: Tensor) -> None:
    if len(values) != len(ids):
        raise ValueError(f"{name} has {len(values)} entries, input_ids has {len(ids)}.")


def _names(row: Row) -> str:
    return ", ".join(map(repr, row)) or "nothing"
