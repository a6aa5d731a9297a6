"""Packed rows of one length for torchtune's recipes, in the place of its `PackedDataset`.

    from memlint_runtime.packing import PackedDataset  # instead of: from torchtune.datasets import

What: the same arguments, and rows with the same keys. By default bins are planned over the whole
data set (best-fit decreasing), which fills them better and so makes fewer; `strategy="next_fit"`
makes torchtune's own rows, one by one.
Why: torchtune's keeps four padded lists of 64-bit integers a row; here 12 bytes a token are kept,
and a row is made when it is asked for.
Cost: one pass over the data when it is made, as torchtune's.

Labels are those of the samples, as in torchtune: the recipe shifts them, so that a sample whose
first token has a label is predicted from the end of the sample before it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from memlint_runtime.packing.plan import Overflow, Strategy, plan_packing

IGNORED_LABEL = -100

Row = dict[str, Tensor]


class PackedDataset(Dataset[Row]):
    """Rows of ``max_seq_len`` tokens, each of several samples and padding at its end.

    ds: samples by index, each with `tokens` and `labels`, equally long lists of integers.
    padding_idx: token to pad with. max_packs: most rows to make, by default all.
    split_across_pack: cut samples that are too long for a row, or, under "next_fit" and "wrapped",
        wherever a row ends. Without, a sample longer than a row is a ValueError.
    strategy: as in `plan_packing`.

    A row has `tokens`, `labels` and `input_pos` ``[max_seq_len]``, and `seq_lens`
    ``[samples, and one for the padding]``, int64: what torchtune's `padded_collate_packed` takes.
    Positions restart in each sample, and go on through the padding.
    """

    def __init__(
        self,
        ds: Any,
        *,
        max_seq_len: int,
        padding_idx: int = 0,
        max_packs: int | None = None,
        split_across_pack: bool = False,
        strategy: Strategy = "bfd",
    ) -> None:
        if max_packs is not None and max_packs < 0:
            raise ValueError(f"max_packs must not be negative, got {max_packs}.")
        self.max_seq_len = max_seq_len
        self.padding_idx = padding_idx
        tokens, labels, lengths = _flat(ds)
        overflow: Overflow = "split" if split_across_pack else "error"
        if split_across_pack and strategy == "next_fit":
            strategy = "wrapped"
        self._plan = plan_packing(lengths, max_seq_len, strategy, overflow=overflow)
        self._tokens, self._labels = tokens, labels
        self._first = np.cumsum(lengths) - lengths
        bins = self._plan.num_bins
        self._rows = bins if max_packs is None else min(bins, max_packs)

    def __len__(self) -> int:
        return self._rows

    def __getitem__(self, index: int) -> Row:
        if not -self._rows <= index < self._rows:
            raise IndexError(f"row {index} of {self._rows}")
        plan, size = self._plan, self.max_seq_len
        entries = range(*plan.offsets[index % self._rows :][:2])
        pieces, positions, lengths = [], [], []
        for entry in entries:
            start, length = int(plan.starts[entry]), int(plan.lengths[entry])
            first = int(self._first[plan.bins[entry]]) + start
            pieces.append(np.arange(first, first + length))
            positions.append(np.arange(start, start + length) % size)
            lengths.append(length)
        places = np.concatenate(pieces)
        padding = size - len(places)
        last = int(positions[-1][-1])
        positions.append(np.minimum(np.arange(last + 1, last + 1 + padding), size - 1))
        return {
            "tokens": _padded(self._tokens[places], padding, self.padding_idx),
            "labels": _padded(self._labels[places], padding, IGNORED_LABEL),
            "input_pos": torch.from_numpy(np.concatenate(positions)),
            "seq_lens": torch.tensor([*lengths, padding] if padding else lengths),
        }


def _flat(ds: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Tokens and labels ``[T]`` of all samples end to end, and the samples' lengths ``[N]``."""
    tokens: list[np.ndarray] = []
    labels: list[np.ndarray] = []
    for sample in ds:
        _check(sample, len(tokens))
        tokens.append(np.asarray(sample["tokens"], dtype=np.int32))
        labels.append(np.asarray(sample["labels"], dtype=np.int64))
    if not tokens:
        raise ValueError("PackedDataset needs samples, got a data set without one.")
    lengths = np.array([len(one) for one in tokens], dtype=np.int64)
    return np.concatenate(tokens), np.concatenate(labels), lengths


def _check(sample: Any, index: int) -> None:
    names = ("tokens", "labels")
    if not isinstance(sample, Mapping) or not all(
        isinstance(sample.get(name), Sequence | np.ndarray | Tensor) for name in names
    ):
        raise ValueError(
            f"sample {index} has no lists 'tokens' and 'labels': PackedDataset takes what "
            f"torchtune's data sets yield. For rows with 'input_ids' there is pack_dataset."
        )
    sizes = [len(sample[name]) for name in names]
    if sizes[0] != sizes[1]:
        raise ValueError(f"sample {index} has {sizes[0]} tokens and {sizes[1]} labels.")


def _padded(values: np.ndarray, padding: int, value: int) -> Tensor:
    """``values`` and ``padding`` times ``value``, int64."""
    return torch.from_numpy(np.pad(values.astype(np.int64), (0, padding), constant_values=value))
