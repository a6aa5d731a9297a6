"""First-fit bin packing in arrival order.

What: each sequence, in the order given, into the earliest bin that still holds it.
Why: keeps a curriculum or a time order roughly intact, which sorting by length destroys.
Cost: about log2(number of bins) Python steps per sequence, some seconds per million; a few per cent
more bins than best-fit decreasing.
Source: Johnson, "Near-optimal bin packing algorithms" (1973).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def first_fit(
    lengths: NDArray[np.integer], capacity: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Assign sequences of ``lengths`` ``[N]`` (each 1..capacity tokens) to bins.

    Returns ``order`` ``[N]`` and ``offsets`` ``[num_bins + 1]``: bin i holds the sequences
    ``order[offsets[i]:offsets[i + 1]]`` in arrival order.
    """
    bin_of = np.empty(len(lengths), dtype=np.int64)
    leaves = 1
    # Segment tree: node i holds the largest free space below it, children 2i and 2i + 1. Unopened
    # bins count as empty ones, so opening a bin is no special case.
    free = [capacity, capacity]
    num_bins = 0
    for index, length in enumerate(lengths.tolist()):
        if free[1] < length or num_bins == leaves:
            leaves, free = _doubled(free, leaves, capacity)
        node = 1
        while node < leaves:
            node <<= 1
            if free[node] < length:
                node += 1
        chosen = node - leaves
        bin_of[index] = chosen
        num_bins = max(num_bins, chosen + 1)
        free[node] -= length
        node >>= 1
        while node:
            left, right = free[2 * node], free[2 * node + 1]
            best = left if left >= right else right
            if free[node] == best:
                break
            free[node] = best
            node >>= 1
    offsets = np.zeros(num_bins + 1, dtype=np.int64)
    np.cumsum(np.bincount(bin_of, minlength=num_bins), out=offsets[1:])
    return np.argsort(bin_of, kind="stable"), offsets


def _doubled(free: list[int], leaves: int, capacity: int) -> tuple[int, list[int]]:
    level = free[leaves:] + [capacity] * leaves
    levels = [level]
    while len(level) > 1:
        level = [max(level[i], level[i + 1]) for i in range(0, len(level), 2)]
        levels.append(level)
    return 2 * leaves, [0] + [space for level in reversed(levels) for space in level]
