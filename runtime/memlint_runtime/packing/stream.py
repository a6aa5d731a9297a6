"""Packing a stream through a bounded buffer, for datasets that are read once or never end.

What: `StreamingPacker` holds at most `buffer_rows` sequences, packs them best fit decreasing, hands
out the bins in random order and keeps the emptiest bins' sequences for the next round.
Why: an iterable dataset has no lengths to plan over; a buffer of some ten thousand sequences fills
bins nearly as well as the whole dataset would.
Cost: the buffer's tokens in memory. Sequences leave out of order, by at most a few buffers.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np
from torch.utils.data import IterableDataset, get_worker_info

from memlint_runtime.packing.plan import Overflow, plan_packing

Row = Mapping[str, Sequence[int]]
PackedRow = dict[str, list[int]]

# Before the first buffer: its number, the rows read, the sequences that wait for it.
_START: Mapping[str, Any] = {"round": 0, "read": 0, "waiting": ()}


class StreamingPacker(IterableDataset[PackedRow]):
    """Iterates over packed rows of ``source``; the same seed and source give the same rows.

    A `torch.utils.data.IterableDataset`: for a `DataLoader`, for `Trainer` with `max_steps`. Of
    several workers each packs its own share of the rows, so that none is lost or seen twice.

    source: yields rows with `input_ids` and columns that run along it, each a list of integers.
        Iterating twice must start it anew, as a `datasets.IterableDataset` does. A source that is
        an iterable dataset itself, of torch or `datasets`, is left to share its rows among workers.
    capacity: most tokens in a packed row.
    buffer_rows: sequences held at once.
    keep_below: a bin filled less than this share waits for the next buffer (the last buffer hands
        out everything).
    rank, ranks: this process and how many pack, each its share of the rows. Leave them out under
        accelerate and `Trainer`, which share out what one process packs.

    A packed row has the columns of the source without `attention_mask`, and `seq_lengths`.
    `state_dict` between two rows and `load_state_dict` on a fresh packer resume exactly, reading
    the source again up to where it was; in a loader's workers the state is theirs, which
    torchdata's `StatefulDataLoader` collects. `set_epoch` draws another order.
    """

    def __init__(
        self,
        source: Iterable[Row],
        capacity: int,
        *,
        buffer_rows: int = 10_000,
        overflow: Overflow = "truncate",
        keep_below: float = 0.95,
        seed: int = 0,
        rank: int = 0,
        ranks: int = 1,
    ) -> None:
        if not 0 <= rank < ranks:
            raise ValueError(f"rank must be in 0..{ranks - 1}, got {rank}.")
        if buffer_rows < 1:
            raise ValueError(f"buffer_rows must be at least 1, got {buffer_rows}.")
        if not 0.0 <= keep_below <= 1.0:
            raise ValueError(f"keep_below is a share between 0 and 1, got {keep_below}.")
        self.source = source
        self.capacity = capacity
        self.buffer_rows = buffer_rows
        self.overflow: Overflow = overflow
        self.keep_below = keep_below
        self.seed = seed
        self.rank = rank
        self.ranks = ranks
        self.epoch = 0
        self._handed_out = 0
        self._position: dict[str, Any] = dict(_START)
        self._resume: dict[str, Any] | None = None

    def state_dict(self) -> dict[str, Any]:
        """Where the running iteration stands: sequences read before the current buffer, the ones
        left over from the buffer before, and the rows handed out of the current one."""
        if self._resume is not None:
            return self._resume
        where = {"handed_out": self._handed_out, "epoch": self.epoch, "share": self._share()}
        return {**self._position, **where}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from ``state`` at the next iteration; the ones after it start anew."""
        # A state of an earlier version has no share, being of one process without workers.
        plain = {"epoch": 0, "share": (0, 1)}
        self._resume = {key: {**plain, **state}[key] for key in (*_START, *plain, "handed_out")}
        self.epoch = self._resume["epoch"]

    def set_epoch(self, epoch: int) -> None:
        """Pack in the order of another epoch, the source too where it has one."""
        self.epoch = epoch
        if hasattr(self.source, "set_epoch"):
            self.source.set_epoch(epoch)

    def _share(self) -> tuple[int, int]:
        """Which of how many shares of the source's rows is packed here."""
        worker = get_worker_info()
        if worker is None or _shares_rows(self.source):
            return self.rank, self.ranks
        return self.rank * worker.num_workers + worker.id, self.ranks * worker.num_workers

    def __iter__(self) -> Iterator[PackedRow]:
        share, shares = self._share()
        start = self._resume or {**_START, "handed_out": 0, "share": (share, shares)}
        self._resume = None
        if tuple(start["share"]) != (share, shares):
            raise ValueError(
                f"the state to resume from is of share {start['share'][0]} of {start['share'][1]}, "
                f"this is share {share} of {shares}: resume with as many ranks and workers."
            )
        skip = start["handed_out"]
        number, read, waiting = start["round"], start["read"], list(start["waiting"])
        rows = islice(self.source, share, None, shares)
        skipped = sum(1 for _ in islice(rows, read))
        if skipped < read:
            raise ValueError(
                f"the state to resume from had read {read} rows, the source has {skipped}: it is "
                f"not the same source."
            )
        while True:
            self._position = {"round": number, "read": read, "waiting": list(waiting)}
            self._handed_out = skip
            fresh = [_checked(row) for row in islice(rows, self.buffer_rows - len(waiting))]
            last = len(fresh) < self.buffer_rows - len(waiting)
            read += len(fresh)
            packed, waiting = self._pack(waiting + fresh, number, last)
            for self._handed_out in range(skip + 1, len(packed) + 1):
                yield packed[self._handed_out - 1]
            number, skip = number + 1, 0
            if last:
                self._position, self._handed_out = dict(_START), 0
                return

    def _pack(
        self, rows: list[dict[str, list[int]]], number: int, last: bool
    ) -> tuple[list[PackedRow], list[dict[str, list[int]]]]:
        """Packed rows of one buffer, and the sequences that wait for the next."""
        lengths = [len(row["input_ids"]) for row in rows]
        plan = plan_packing(lengths, self.capacity, overflow=self.overflow)
        if plan.tokens_lost:
            warnings.warn(
                f"packing to {self.capacity} tokens loses the ends of sequences longer than that "
                f'({plan.tokens_lost:,} tokens in one buffer); overflow="split" keeps them.',
                stacklevel=2,
            )
        filled = plan.bin_lengths()
        ready = np.ones(plan.num_bins, dtype=bool)
        if not last:
            ready = filled >= self.keep_below * self.capacity
            if not ready.any():
                # Without this a buffer of hard cases would be planned again and again.
                ready[np.argmax(filled)] = True
            # Waiting sequences may take half the buffer, or nothing new would come in.
            waiting_rows = np.diff(plan.offsets)
            for index in np.argsort(-filled, kind="stable"):
                if waiting_rows[~ready].sum() <= self.buffer_rows // 2:
                    break
                ready[index] = True
        packed, waiting = [], []
        for index in range(plan.num_bins):
            pieces = [
                _piece(rows[plan.bins[j]], int(plan.starts[j]), int(plan.lengths[j]))
                for j in range(plan.offsets[index], plan.offsets[index + 1])
            ]
            if ready[index]:
                packed.append(_joined(pieces))
            else:
                waiting.extend(pieces)
        epoch = f"{self.epoch}/" if self.epoch else ""
        random.Random(f"{self.seed}/{epoch}{number}").shuffle(packed)
        return packed, waiting


def _shares_rows(source: Any) -> bool:
    """Whether a loader's workers get different rows of it without being told."""
    if isinstance(source, IterableDataset):
        return True
    return type(source).__module__.startswith("datasets.") and not hasattr(source, "__len__")


def _checked(row: Row) -> dict[str, list[int]]:
    if "input_ids" not in row:
        raise ValueError(
            f"a row has no 'input_ids' but {', '.join(map(repr, row))}. Tokenize first."
        )
    length = len(row["input_ids"])
    columns = {name: values for name, values in row.items() if name != "attention_mask"}
    for name, values in columns.items():
        if isinstance(values, str) or not hasattr(values, "__len__") or len(values) != length:
            raise ValueError(
                f"column {name!r} cannot be packed: it does not run along input_ids. Remove it "
                f"before packing."
            )
    if not all(row.get("attention_mask", ())):
        raise ValueError("attention_mask has zeros: tokenize without padding before packing.")
    return {name: list(values) for name, values in columns.items()}


def _piece(row: dict[str, list[int]], start: int, length: int) -> dict[str, list[int]]:
    return {name: values[start : start + length] for name, values in row.items()}


def _joined(pieces: list[dict[str, list[int]]]) -> PackedRow:
    joined = {name: [v for piece in pieces for v in piece[name]] for name in pieces[0]}
    joined["seq_lengths"] = [len(piece["input_ids"]) for piece in pieces]
    return joined
