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
from types import FunctionType
from typing import Any, get_args

import numpy as np
from torch.utils.data import IterableDataset, get_worker_info

from memlint_runtime.packing.plan import Overflow, plan_packing
from memlint_runtime.quantities import amount, holds_rows, whole_number

Row = Mapping[str, Sequence[int]]
PackedRow = dict[str, list[int]]

# Before the first buffer: its number, the rows read, the sequences that wait for it.
_START: Mapping[str, Any] = {"round": 0, "read": 0, "waiting": ()}

_SPENT = (
    "the source, a {}, has been read by an earlier pass and does not start anew: its rows would be "
    "lost. Give the packer a dataset, a list, or an object of a class whose __iter__ starts anew."
)


class StreamingPacker(IterableDataset[PackedRow]):
    """Iterates over packed rows of ``source``; the same seed and source give the same rows.

    A `torch.utils.data.IterableDataset`: for a `DataLoader`, for `Trainer` with `max_steps`. Of
    several workers each packs its own share of the rows, so that none is lost or seen twice.

    source: yields rows with `input_ids` and columns that run along it, each a list of integers
        (or a tensor or array of them). Iterating twice must start it anew, as a
        `datasets.IterableDataset` does: a generator serves for one pass alone. A source that is
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

    ValueError for a row that cannot be packed or has other columns than the first, for a second
    pass over a source that does not start anew, and for the state of a packer with other settings
    or of another source, as far as that shows.
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
        capacity = whole_number("capacity", capacity, 1, "token")
        buffer_rows = whole_number("buffer_rows", buffer_rows, 1)
        ranks, rank = whole_number("ranks", ranks, 1), whole_number("rank", rank, 0)
        if rank >= ranks:
            raise ValueError(f"rank must be in 0..{ranks - 1}, got {rank}.")
        if overflow not in get_args(Overflow):
            raise ValueError(f"overflow must be one of {get_args(Overflow)}, got {overflow!r}.")
        amount("keep_below", keep_below, 0)
        if keep_below > 1.0:
            raise ValueError(f"keep_below is a share between 0 and 1, got {keep_below}.")
        if source is None:
            raise ValueError("a packer needs a source of rows, got None.")
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
        self._read_from: Any = None  # the source that gave a row, in this pass or an earlier one

    def state_dict(self) -> dict[str, Any]:
        """Where the running iteration stands: sequences read before the current buffer and for it,
        the ones left over from the buffer before, the rows handed out of the current one, and the
        settings that decide the order."""
        if self._resume is not None:
            return {**self._resume, "settings": self._settings()}
        where = {"handed_out": self._handed_out, "epoch": self.epoch, "share": self._share()}
        return {**self._position, **where, "settings": self._settings()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from ``state`` at the next iteration; the ones after it start anew.

        ValueError for anything but a packer's state, and where the packer of the state had another
        capacity, `buffer_rows`, `overflow`, `keep_below` or seed.
        """
        if not isinstance(state, Mapping):
            raise ValueError(f"a state is what state_dict returns, got {type(state).__name__}.")
        needed = (*_START, "handed_out")
        if absent := [key for key in needed if key not in state]:
            raise ValueError(
                f"the state has no {', '.join(map(repr, absent))}: load what state_dict of a "
                f"StreamingPacker returned."
            )
        # Where no row was read or handed out, another packer loses and repeats none.
        if any(state[key] for key in needed):
            _require_settings(state.get("settings", {}), self._settings())
        # A state of an earlier version has no share, being of one process without workers.
        plain = {"epoch": 0, "share": (0, 1), "buffered": None}
        self._resume = {key: {**plain, **state}[key] for key in (*needed, *plain)}
        self.epoch = self._resume["epoch"]

    def _settings(self) -> dict[str, Any]:
        """What decides which rows are packed together, and their order."""
        names = ("capacity", "buffer_rows", "overflow", "keep_below", "seed")
        return {name: getattr(self, name) for name in names}

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
        rows = self._rows(share, shares, read)
        columns = frozenset(waiting[0]) if waiting else None
        while True:
            self._position = {"round": number, "read": read, "waiting": list(waiting)}
            self._handed_out = skip
            fresh: list[dict[str, list[int]]] = []
            for row in islice(rows, self.buffer_rows - len(waiting)):
                place = share + shares * (read + len(fresh))
                fresh.append(_checked(row, place, columns))
                columns = columns or frozenset(fresh[-1])
            self._position["buffered"] = len(fresh)
            last = len(fresh) < self.buffer_rows - len(waiting)
            read += len(fresh)
            packed, waiting = self._pack(waiting + fresh, number, last)
            if skip:
                _require_same_source(start.get("buffered"), len(fresh), skip, len(packed))
            for self._handed_out in range(skip + 1, len(packed) + 1):
                yield packed[self._handed_out - 1]
            number, skip = number + 1, 0
            if last:
                self._position, self._handed_out = dict(_START), 0
                return

    def _rows(self, share: int, shares: int, read: int) -> Iterator[Row]:
        """The share's rows after the first ``read``. ValueError where the source has not as many,
        or where an earlier pass has used it up."""
        again = self._read_from is self.source
        if again and _serves_once(self.source):
            raise ValueError(_SPENT.format(type(self.source).__name__))
        found = 0
        for found, row in enumerate(islice(self.source, share, None, shares), 1):
            self._read_from = self.source
            if found > read:
                yield row
        if again and not found:
            raise ValueError(_SPENT.format(type(self.source).__name__))
        if found < read:
            raise ValueError(
                f"the state to resume from had read {read} rows, the source has {found}: it is "
                f"not the same source."
            )

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


def _serves_once(source: Any) -> bool:
    """True if nothing can start it anew: an iterator, unless its class wrote an `__iter__` itself,
    which may. Where that one does not either, the pass that finds no row tells."""
    if not isinstance(source, Iterator):
        return False
    own = type(source).__iter__
    return not isinstance(own, FunctionType) or own is Iterator.__iter__


def _shares_rows(source: Any) -> bool:
    """True if a loader's workers get different rows of it without being told."""
    if isinstance(source, IterableDataset):
        return True
    return type(source).__module__.startswith("datasets.") and not hasattr(source, "__len__")


def _require_settings(before: Mapping[str, Any], here: Mapping[str, Any]) -> None:
    """Raise where a state's packer had other settings; an earlier version's state names none."""
    other = [name for name in here if name in before and before[name] != here[name]]
    if other:
        was = ", ".join(f"{name}={before[name]!r}" for name in other)
        now = ", ".join(f"{name}={here[name]!r}" for name in other)
        raise ValueError(
            f"the state to resume from is of a packer with {was}, this one has {now}: rows would "
            f"be lost or seen twice. Resume with the same settings."
        )


def _require_same_source(buffered: int | None, read: int, skip: int, packed: int) -> None:
    """Raise where the buffer that a state was taken in cannot have been this one."""
    if buffered is not None and buffered != read:
        raise ValueError(
            f"the state to resume from had read {buffered} rows into its buffer, the source now "
            f"gives {read}: it is not the same source."
        )
    if skip > packed:
        raise ValueError(
            f"the state to resume from had handed out {skip} packed rows of its buffer, the source "
            f"now gives {packed}: it is not the same source."
        )


def _checked(row: Row, place: int, columns: frozenset[str] | None) -> dict[str, list[int]]:
    """The row's columns without `attention_mask`; ``columns`` are those of the rows before it."""
    _require_tokens(row, place)
    ids = row["input_ids"]
    found = {name: values for name, values in row.items() if name != "attention_mask"}
    if columns is not None:
        _require_columns(found, place, columns)
    for name, values in found.items():
        if isinstance(values, str) or not hasattr(values, "__len__") or len(values) != len(ids):
            what = "is None" if values is None else "does not run along input_ids"
            raise ValueError(
                f"column {name!r} cannot be packed: it {what} in row {place}. Fill it, or remove "
                f"the column before packing."
            )
    if not all(row.get("attention_mask", ())):
        raise ValueError(
            f"attention_mask has zeros in row {place}: tokenize without padding before packing."
        )
    return {name: _listed(values) for name, values in found.items()}


def _listed(values: Any) -> list[int]:
    """As a list of integers, of a tensor or array too, whose elements are tensors themselves."""
    listed: list[int] = values.tolist() if hasattr(values, "tolist") else list(values)
    return listed


def _require_tokens(row: Row, place: int) -> None:
    if not hasattr(row, "items"):
        raise ValueError(
            f"row {place} of the source is {type(row).__name__}, not a mapping with 'input_ids'. "
            f"Tokenize first."
        )
    if "input_ids" not in row:
        raise ValueError(
            f"row {place} has no 'input_ids' but {', '.join(map(repr, row))}. Tokenize first."
        )
    ids = row["input_ids"]
    if isinstance(ids, str) or not hasattr(ids, "__len__") or holds_rows(ids):
        raise ValueError(
            f"'input_ids' of row {place} is not a flat list of token ids. Tokenize first, and give "
            f"the packer rows, not batches of them."
        )


def _require_columns(row: Row, place: int, columns: frozenset[str]) -> None:
    if odd := sorted(columns ^ row.keys()):
        name = odd[0]
        lacking = f"row {place} has" if name in columns else "the rows before have"
        having = "the rows before have" if name in columns else f"row {place} has"
        raise ValueError(
            f"{lacking} no column {name!r}, which {having}: packed together, it would be lost. "
            f"Give every row the same columns."
        )


def _piece(row: dict[str, list[int]], start: int, length: int) -> dict[str, list[int]]:
    return {name: values[start : start + length] for name, values in row.items()}


def _joined(pieces: list[dict[str, list[int]]]) -> PackedRow:
    joined = {name: [v for piece in pieces for v in piece[name]] for name in pieces[0]}
    joined["seq_lengths"] = [len(piece["input_ids"]) for piece in pieces]
    return joined
