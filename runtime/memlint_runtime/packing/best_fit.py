"""Best-fit decreasing bin packing over a histogram of lengths.

What: sequences, longest first, each into the fullest bin that still holds it.
Why: equal lengths are interchangeable, so the algorithm runs on (length, free space) classes,
not on sequences; what remains per sequence is a radix sort and one scatter.
Cost: about one step per pair of classes that meet (tens of thousands, whatever the number of
sequences) and some 30 bytes of working memory per sequence.
Source: Johnson, "Near-optimal bin packing algorithms" (1973); Krell et al., arXiv:2107.02027.

N sequences, capacity in tokens.
"""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

# Free space goes to the radix sort of numpy, which it has for 16-bit keys.
_RADIX_LIMIT = 1 << 16


class _Placement(NamedTuple):
    """The same number of equal sequences put into each bin of a run of neighbours."""

    first_bin: int
    num_bins: int
    per_bin: int
    already_in_bin: int


class _Run(NamedTuple):
    """Neighbouring bins with the same history, hence the same free space."""

    first_bin: int
    num_bins: int
    filled: int


def best_fit_decreasing(
    lengths: NDArray[np.integer], capacity: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Assign sequences of ``lengths`` ``[N]`` (each 1..capacity tokens) to bins.

    Returns ``order`` ``[N]``, the sequences bin after bin, and ``offsets`` ``[num_bins + 1]``: bin
    i is ``order[offsets[i]:offsets[i + 1]]``, longest sequence first.
    """
    longest_first = _argsort_descending(lengths, capacity)
    placements, num_bins = _place(np.bincount(lengths, minlength=capacity + 1), capacity)
    return _scatter(longest_first, placements, num_bins)


def _argsort_descending(lengths: NDArray[np.integer], capacity: int) -> NDArray[np.int64]:
    key = capacity - lengths
    if capacity < _RADIX_LIMIT:
        key = key.astype(np.uint16)
    return np.argsort(key, kind="stable")


def _place(counts: NDArray[np.int64], capacity: int) -> tuple[list[_Placement], int]:
    """Run best fit on classes of equal length, longest class first."""
    runs_by_space: defaultdict[int, list[_Run]] = defaultdict(list)
    # Bit s is set when some open bin has s tokens free: the tightest fit is the lowest bit from
    # `length` on, found by integer arithmetic instead of a search tree.
    open_spaces = 0
    placements: list[_Placement] = []
    num_bins = 0
    for length in np.flatnonzero(counts)[::-1].tolist():
        remaining = int(counts[length])
        while remaining:
            fitting = open_spaces >> length
            if fitting:
                space = length + (fitting & -fitting).bit_length() - 1
                runs = runs_by_space[space]
                run = runs.pop()
                if not runs:
                    open_spaces &= ~(1 << space)
            else:
                space = capacity
                run = _Run(num_bins, -(-remaining // (capacity // length)), 0)
                num_bins += run.num_bins
            # A bin just used has the tightest space of all until the class no longer fits into it,
            # so best fit puts `fit` sequences into one bin before it touches the next.
            fit = space // length
            full = min(run.num_bins, remaining // fit)
            parts = [(run.first_bin, full, fit)]
            next_bin = run.first_bin + full
            remaining -= full * fit
            if full < run.num_bins and remaining:
                parts.append((next_bin, 1, remaining))
                next_bin += 1
                remaining = 0
            untouched = run.first_bin + run.num_bins - next_bin
            parts.append((next_bin, untouched, 0))
            for first, count, per_bin in parts:
                if not count:
                    continue
                if per_bin:
                    placements.append(_Placement(first, count, per_bin, run.filled))
                left = space - per_bin * length
                if left:
                    runs_by_space[left].append(_Run(first, count, run.filled + per_bin))
                    open_spaces |= 1 << left
    return placements, num_bins


def _scatter(
    longest_first: NDArray[np.int64], placements: list[_Placement], num_bins: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Turn placements, which follow ``longest_first``, into sequences sorted by bin."""
    first, count, per_bin, filled = np.array(placements, dtype=np.int64).reshape(-1, 4).T
    # One entry per (placement, bin): the bin, and how many sequences it receives there.
    visits = int(count.sum())
    visit_bin = np.arange(visits) + np.repeat(first - (np.cumsum(count) - count), count)
    visit_size = np.repeat(per_bin, count)
    sizes = np.bincount(visit_bin, weights=visit_size, minlength=num_bins).astype(np.int64)
    offsets = np.zeros(num_bins + 1, dtype=np.int64)
    np.cumsum(sizes, out=offsets[1:])
    first_item = np.cumsum(visit_size) - visit_size
    shift = offsets[visit_bin] + np.repeat(filled, count) - first_item
    position = np.repeat(shift, visit_size)
    position += np.arange(len(longest_first))
    order = np.empty_like(longest_first)
    order[position] = longest_first
    return order, offsets
