"""Batches of a token budget, with equal work for every rank.

What: `TokenBudgetSampler` groups rows into micro-batches of at most so many tokens and shares the
micro-batches of an optimizer step among the ranks so that their sums of squared lengths are close.
Why: a fixed number of rows makes the longest rows set the peak memory and the short ones waste the
step; in a step of many ranks, all wait for the one with the longest documents, whose attention
costs the square of their length.
Cost: some seconds per million rows and epoch, on every rank. Rows of a step are drawn at random;
how many a batch has varies.
Source: greedy number partitioning, Graham, "Bounds on multiprocessing timing anomalies" (1969).
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray
from torch.utils.data import Sampler

from memlint_runtime.quantities import amount, token_counts, whole_number

__all__ = ["TokenBudgetSampler", "balance_by_squares"]


class TokenBudgetSampler(Sampler[list[int]]):
    """Batch sampler: lists of row indices with at most ``token_budget`` tokens each.

    lengths: tokens of each row. ranks, rank: processes that train, and this one; None gives the
    batches of all, dealt one by one, to a loader that accelerate prepares, which shards it (with
    `DataLoaderConfiguration(even_batches=False)`); `batch_trainer_by_tokens` gives it to a
    `Trainer`. micro_batches: batches a rank takes per optimizer step (gradient accumulation).
    Every rank gets the same number of batches; where the last rows do not fill a step of one row
    each, they are dropped with ``drop_last`` and repeated without. ``set_epoch`` draws another
    order; the same seed, epoch and arguments give the same batches.

    ValueError when a row alone is over the budget, since no batch could hold it, for lengths that
    are negative or no whole numbers, and for a budget that is no number of 1 or more.
    """

    def __init__(
        self,
        lengths: Sequence[int] | NDArray[np.integer],
        token_budget: int,
        *,
        rank: int | None = 0,
        ranks: int = 1,
        micro_batches: int = 1,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        self.lengths = token_counts(lengths)
        amount("token_budget", token_budget, 1, "token")
        ranks = whole_number("ranks", ranks, 1)
        if rank is not None and whole_number("rank", rank, 0) >= ranks:
            raise ValueError(f"rank must be in 0..{ranks - 1}, got {rank}.")
        micro_batches = whole_number("micro_batches", micro_batches, 1)
        if len(self.lengths) and (longest := int(self.lengths.max())) > token_budget:
            raise ValueError(
                f"row {int(self.lengths.argmax())} has {longest} tokens, more than the budget of "
                f"{token_budget}. Truncate the rows or raise the budget."
            )
        self.token_budget = token_budget
        self.rank = rank
        self.ranks = ranks
        self.micro_batches = micro_batches
        self.seed = whole_number("seed", seed, 0)
        self.drop_last = drop_last
        self.epoch = 0
        self._planned: tuple[int, list[list[int]]] | None = None

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __iter__(self) -> Iterator[list[int]]:
        return iter(self._batches())

    def __len__(self) -> int:
        return len(self._batches())

    def _batches(self) -> list[list[int]]:
        """This rank's batches of the epoch; kept, as loaders ask for their number and for them."""
        if self._planned is None or self._planned[0] != self.epoch:
            if self.rank is None:
                batches = [batch for step in self._steps() for batch in step]
            else:
                batches = [
                    step[micro * self.ranks + self.rank]
                    for step in self._steps()
                    for micro in range(self.micro_batches)
                ]
            self._planned = (self.epoch, batches)
        return self._planned[1]

    def _steps(self) -> Iterator[list[list[int]]]:
        """For each optimizer step its batches, neighbours of about the same work."""
        bins = self.ranks * self.micro_batches
        order = np.random.default_rng((self.seed, self.epoch)).permutation(len(self.lengths))
        ends = np.cumsum(self.lengths[order])
        start = 0
        while len(order) - start >= bins:
            before = int(ends[start - 1]) if start else 0
            fitting = np.searchsorted(ends, before + bins * self.token_budget, side="right")
            rows = order[start : max(int(fitting), start + bins)]
            members = balance_by_squares(self.lengths[rows], bins, self.token_budget)
            while members is None:
                # Uneven rows leave room that no row fits; a few fewer always fit, and one row for
                # each batch does at the latest.
                rows = rows[: max(bins, min(len(rows) - 1, int(len(rows) * 0.98)))]
                members = balance_by_squares(self.lengths[rows], bins, self.token_budget)
            yield [rows[batch].tolist() for batch in members]
            start += len(rows)
        if start < len(order) and not self.drop_last:
            yield [[int(row)] for row in np.resize(order[start:], bins)]


def balance_by_squares(
    lengths: NDArray[np.int64], bins: int, token_budget: int
) -> list[list[int]] | None:
    """Spread rows over ``bins`` with close sums of squared lengths, none over the budget.

    Returns the rows of each bin, least work first, or None where a row found no bin with room.
    """
    heap = [(0, token_budget, index) for index in range(bins)]
    members: list[list[int]] = [[] for _ in range(bins)]
    for row in np.argsort(-lengths, kind="stable").tolist():
        length = int(lengths[row])
        without_room = []
        while heap and heap[0][1] < length:
            without_room.append(heapq.heappop(heap))
        if not heap:
            return None
        work, room, index = heap[0]
        heapq.heapreplace(heap, (work + length * length, room - length, index))
        members[index].append(row)
        for entry in without_room:
            heapq.heappush(heap, entry)
    return [members[index] for _, _, index in sorted(heap)]
