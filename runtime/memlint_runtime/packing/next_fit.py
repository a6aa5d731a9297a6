"""Next-fit bin packing: the order of the sequences is kept as it is.

What: each sequence, in the order given, into the bin that is open; where it does not fit, the bin
is closed and another opened. What torchtune's packed data set does.
Why: bins of neighbours, in the data set's own order; the same bins as torchtune.
Cost: the worst fill of the strategies, up to twice the bins of best-fit decreasing.
Source: Johnson, "Near-optimal bin packing algorithms" (1973).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def next_fit(
    lengths: NDArray[np.integer], capacity: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Assign sequences of ``lengths`` ``[N]`` (each 1..capacity tokens) to bins.

    Returns ``order`` ``[N]``, which is 0..N-1, and ``offsets`` ``[num_bins + 1]``: bin i holds the
    sequences ``offsets[i]`` to ``offsets[i + 1]``, the latter excluded.
    """
    ends = np.cumsum(lengths, dtype=np.int64)
    offsets = [0]
    while offsets[-1] < len(lengths):
        before = int(ends[offsets[-1] - 1]) if offsets[-1] else 0
        offsets.append(int(np.searchsorted(ends, before + capacity, side="right")))
    return np.arange(len(lengths), dtype=np.int64), np.array(offsets, dtype=np.int64)
