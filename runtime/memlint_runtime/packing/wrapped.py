"""Wrapped packing: the token stream cut every ``capacity`` tokens.

What: sequences end to end in the given order; every bin but the last is exactly full.
Why: no token and no slot is wasted, the usual choice for pretraining.
Cost: sequences are cut wherever a bin ends, and what follows the cut loses its context.
Source: Raffel et al., arXiv:1910.10683.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Pieces(NamedTuple):
    """Consecutive tokens of a sequence, ``[E]`` each: ``sequence[start:start + length]``."""

    sequences: NDArray[np.int64]
    starts: NDArray[np.int64]
    lengths: NDArray[np.int64]


def wrap(lengths: NDArray[np.integer], capacity: int) -> tuple[Pieces, NDArray[np.int64]]:
    """Cut sequences of ``lengths`` ``[N]`` tokens, end to end, at multiples of ``capacity``.

    Returns the pieces in stream order and ``offsets`` ``[num_bins + 1]`` into them.
    """
    ends = np.cumsum(lengths, dtype=np.int64)
    total = int(ends[-1]) if len(ends) else 0
    cuts = np.union1d(ends, np.arange(capacity, total, capacity, dtype=np.int64))
    cuts = cuts[cuts > 0]
    stream_starts = np.concatenate([np.zeros(1, dtype=np.int64), cuts[:-1]])[: len(cuts)]
    # side="right" steps over empty sequences, which end where their successor begins.
    sequences = np.searchsorted(ends, stream_starts, side="right").astype(np.int64)
    starts = stream_starts - (ends[sequences] - lengths[sequences])
    num_bins = -(-total // capacity)
    offsets = np.searchsorted(stream_starts, np.arange(num_bins) * capacity)
    pieces = Pieces(sequences, starts.astype(np.int64), (cuts - stream_starts).astype(np.int64))
    return pieces, np.append(offsets, len(cuts)).astype(np.int64)
