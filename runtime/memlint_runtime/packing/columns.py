"""List columns of an Arrow table as flat numpy arrays, and gathering pieces of them.

What: `TokenColumn` sees the values of a list column without copying; `gather` copies pieces of its
rows, in any order, into one flat array.
Why: the two Arrow ways, `take` on lists and flattening a list view, are five and two times slower.
Cost: one copy of the tokens asked for; a view object of about 100 bytes per piece while it runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
from numpy.typing import NDArray

# Views alive at once: enough to make the loop cheap, few enough to stay in the cache.
_PIECES_AT_ONCE = 1 << 14


@dataclass(frozen=True, slots=True, eq=False)
class TokenColumn:
    """A list column. Row r is ``values[chunk][starts[r]:starts[r] + lengths[r]]``.

    values: one flat array per chunk of the column.
    chunk_of: ``[rows]`` chunk that holds each row, or None when there is one chunk.
    starts, lengths: ``[rows]``.
    """

    name: str
    type: pa.DataType
    values: tuple[NDArray[Any], ...]
    chunk_of: NDArray[np.int64] | None
    starts: NDArray[np.int64]
    lengths: NDArray[np.int64]


def is_token_column(type_: pa.DataType) -> bool:
    """True if a column holds one flat list of numbers per row."""
    kinds = pa.types
    lists = (kinds.is_list, kinds.is_large_list, kinds.is_fixed_size_list)
    numbers = (kinds.is_integer, kinds.is_floating, kinds.is_boolean)
    return any(is_(type_) for is_ in lists) and any(is_(type_.value_type) for is_ in numbers)


def read_column(name: str, column: pa.ChunkedArray) -> TokenColumn:
    """Look into a column for which `is_token_column` holds; nothing is copied but booleans."""
    values, starts, lengths, chunk_of = [], [], [], []
    for index, chunk in enumerate(column.chunks):
        if chunk.null_count or chunk.values.null_count:
            raise ValueError(
                f"column {name!r} has missing values, which cannot be packed. "
                f"Remove those rows first."
            )
        if pa.types.is_fixed_size_list(chunk.type):
            width = chunk.type.list_size
            # `values` ignores the slice that a fixed-size list may be, `flatten` honours it.
            flat, bounds = chunk.flatten(), np.arange(len(chunk) + 1, dtype=np.int64) * width
        else:
            flat, bounds = chunk.values, chunk.offsets.to_numpy().astype(np.int64, copy=False)
        values.append(flat.to_numpy(zero_copy_only=not pa.types.is_boolean(flat.type)))
        starts.append(bounds[:-1])
        lengths.append(np.diff(bounds))
        chunk_of.append(np.full(len(chunk), index, dtype=np.int64))
    empty = np.zeros(0, dtype=np.int64)
    return TokenColumn(
        name,
        column.type.value_type,
        tuple(values),
        np.concatenate(chunk_of) if len(values) > 1 else None,
        np.concatenate(starts) if starts else empty,
        np.concatenate(lengths) if lengths else empty,
    )


def gather(
    column: TokenColumn,
    rows: NDArray[np.int64],
    starts: NDArray[np.int64],
    lengths: NDArray[np.int64],
) -> NDArray[Any]:
    """Tokens ``starts[j]:starts[j] + lengths[j]`` of each row ``rows[j]``, end to end.

    rows, starts, lengths: ``[E]``. Returns ``[sum(lengths)]``.
    """
    dtype = column.values[0].dtype if column.values else np.dtype(column.type.to_pandas_dtype())
    out = np.empty(int(lengths.sum()), dtype=dtype)
    begin = column.starts[rows] + starts
    end = begin + lengths
    written = 0
    for first in range(0, len(rows), _PIECES_AT_ONCE):
        part = slice(first, first + _PIECES_AT_ONCE)
        bounds = zip(begin[part].tolist(), end[part].tolist(), strict=True)
        if column.chunk_of is None:
            only = column.values[0]
            views = [only[a:b] for a, b in bounds]
        else:
            chunks = column.chunk_of[rows[part]].tolist()
            views = [column.values[c][a:b] for c, (a, b) in zip(chunks, bounds, strict=True)]
        size = int(lengths[part].sum())
        np.concatenate(views, out=out[written : written + size])
        written += size
    return out
