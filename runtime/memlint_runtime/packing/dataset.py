"""Moving the tokens: a tokenized dataset becomes a packed one.

What: `pack_dataset` plans over the lengths of the whole dataset, not batch by batch, then copies
each bin's tokens into a row. With `output` it writes an Arrow file batch by batch, so neither the
input, which `datasets` maps from disk, nor the result has to fit in memory.
Why: planning over the whole dataset fills bins better than planning over a thousand rows, and
gathering by plain memory copies is what makes it fast.
Cost: one copy of the tokens. Rows lie in the file by length, so training must shuffle them (every
trainer does by default).

A packed row has `input_ids`, the other token columns, and `seq_lengths`: the lengths of the
documents in it, from which collators derive position ids. On request `position_ids` and `labels`
are written too, for loops that collate on their own.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
from numpy.typing import NDArray

from memlint_runtime.packing.columns import TokenColumn, gather, is_token_column, read_column
from memlint_runtime.packing.plan import Overflow, PackingPlan, Strategy, plan_packing

if TYPE_CHECKING:
    from datasets import Dataset

IGNORED_LABEL = -100

_NOTHING_TO_PACK = (
    "pack_dataset needs rows with tokens, got {} rows without one. Check what filtered or "
    "tokenized the dataset."
)

# Columns that name the tokens to learn from; 1 keeps a token's label.
_LOSS_MASKS = ("completion_mask", "assistant_masks")

# Tokens per record batch: large enough to amortize, small enough to stay far below 2**31 offsets.
_TOKENS_PER_BATCH = 1 << 24


def pack_dataset(
    dataset: Dataset,
    capacity: int,
    *,
    strategy: Strategy = "bfd",
    overflow: Overflow = "truncate",
    columns: Sequence[str] | None = None,
    position_ids: bool = False,
    output: str | Path | None = None,
    progress: bool = True,
) -> Dataset:
    """Pack the rows of a tokenized dataset into rows of at most ``capacity`` tokens.

    dataset: a `datasets.Dataset` with `input_ids` and any number of columns that run along it
        (`labels`, `completion_mask`, ...). An `attention_mask` of ones is dropped, since handing
        one on would make the documents of a row attend to each other.
    columns: columns to keep, default all; the way to leave out a column that cannot be packed.
    position_ids: also write `position_ids` that restart in each document, and `labels` that
        are -100 where `completion_mask` or `assistant_masks` is 0 and at each document's first
        token, which the document before it must not predict.
    output: Arrow file to write and map; by default the result is held in memory.
    progress: show a progress bar while tokens are moved.

    Returns a dataset with the packed columns and `seq_lengths`. Warns when tokens are lost to
    ``overflow``. ValueError names each column that cannot be packed.
    """
    _require_map_style(dataset)
    source = _read(dataset, columns)
    plan = plan_packing(source["input_ids"].lengths, capacity, strategy, overflow=overflow)
    if plan.tokens_lost:
        total = plan.tokens_lost + plan.num_tokens
        warnings.warn(
            f"packing to {capacity} tokens lost {plan.tokens_lost:,} of {total:,} tokens "
            f'({plan.tokens_lost / total:.1%}) of sequences longer than that; overflow="split" '
            f"keeps them.",
            stacklevel=2,
        )
    batches = _packed_batches(source, plan, with_positions=position_ids)
    with _progress_bar(plan.num_tokens, progress) as advance:
        if output is None:
            settings = (capacity, strategy, overflow, sorted(source), position_ids)
            return _in_memory(batches, advance, f"{dataset._fingerprint} packed {settings}")
        return _to_file(Path(output), batches, advance)


def _require_map_style(dataset: Any) -> None:
    from datasets import Dataset

    if isinstance(dataset, Dataset):
        return
    raise ValueError(
        f"pack_dataset takes a datasets.Dataset, got {type(dataset).__name__}. Pack each split of "
        f"a DatasetDict by itself; for an iterable dataset use memlint_runtime.StreamingPacker."
    )


def _read(dataset: Dataset, names: Sequence[str] | None) -> dict[str, TokenColumn]:
    """Columns to pack, by name, rows in the dataset's order."""
    table: pa.Table = dataset.data.table
    chosen = _chosen_columns(table.column_names, names)
    # A column without a value has no type to judge it by.
    if not len(dataset) or _holds_no_value(table.schema.field("input_ids").type):
        raise ValueError(_NOTHING_TO_PACK.format(len(dataset)))
    rows = None if dataset._indices is None else dataset._indices.column(0).to_numpy()
    if bad := [name for name in chosen if not is_token_column(table.schema.field(name).type)]:
        raise ValueError(_unpackable(bad, "is not a list of numbers per row"))
    source = {name: _select(read_column(name, table[name]), rows) for name in chosen}
    lengths = source["input_ids"].lengths
    if not lengths.any():
        raise ValueError(_NOTHING_TO_PACK.format(len(dataset)))
    if bad := [n for n in chosen if not np.array_equal(source[n].lengths, lengths)]:
        raise ValueError(_unpackable(bad, "differs in length from input_ids"))
    if (mask := source.pop("attention_mask", None)) is not None:
        _require_ones(mask)
    return source


def _chosen_columns(present: Sequence[str], names: Sequence[str] | None) -> list[str]:
    """The columns to pack, `input_ids` among them; ValueError where one is absent."""
    chosen = list(present if names is None else names)
    if absent := [name for name in ["input_ids", *chosen] if name not in present]:
        raise ValueError(
            f"the dataset has no column {', '.join(map(repr, dict.fromkeys(absent)))}; it has "
            f"{', '.join(map(repr, present))}. Tokenize it first."
        )
    if "seq_lengths" in present:
        raise ValueError("the dataset has a column 'seq_lengths': it is packed already.")
    return chosen if "input_ids" in chosen else ["input_ids", *chosen]


def _holds_no_value(type_: pa.DataType) -> bool:
    """True if Arrow saw no number in a column: nulls, or lists of nulls."""
    is_null = pa.types.is_null
    return bool(is_null(type_) or (pa.types.is_list(type_) and is_null(type_.value_type)))


def _unpackable(names: Sequence[str], why: str) -> str:
    listed = ", ".join(map(repr, names))
    return (
        f"column {listed} cannot be packed: it {why}. Leave it out with columns=[...] or "
        f"dataset.remove_columns([{listed}])."
    )


def _select(column: TokenColumn, rows: NDArray[np.int64] | None) -> TokenColumn:
    if rows is None:
        return column
    chunk_of = None if column.chunk_of is None else column.chunk_of[rows]
    return TokenColumn(
        column.name, column.type, column.values, chunk_of, column.starts[rows], column.lengths[rows]
    )


def _require_ones(mask: TokenColumn) -> None:
    # Whole chunks first: reading rows one by one is only needed to tell padding from unused values.
    if all(bool(values.all()) for values in mask.values):
        return
    rows = np.arange(len(mask.lengths))
    if not gather(mask, rows, np.zeros_like(rows), mask.lengths).all():
        raise ValueError(
            "attention_mask has zeros: the rows are padded, and packing would pack the padding. "
            "Tokenize without padding."
        )


def _packed_batches(
    source: dict[str, TokenColumn], plan: PackingPlan, *, with_positions: bool
) -> Iterator[pa.RecordBatch]:
    bins_per_batch = max(1, _TOKENS_PER_BATCH // plan.capacity)
    for first in range(0, plan.num_bins, bins_per_batch):
        offsets = plan.offsets[first : first + bins_per_batch + 1]
        yield _packed_batch(source, plan, offsets, with_positions=with_positions)


def _packed_batch(
    source: dict[str, TokenColumn],
    plan: PackingPlan,
    offsets: NDArray[np.int64],
    *,
    with_positions: bool,
) -> pa.RecordBatch:
    entries = slice(int(offsets[0]), int(offsets[-1]))
    rows, starts, lengths = plan.bins[entries], plan.starts[entries], plan.lengths[entries]
    ends = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(lengths)])
    bin_ends = ends[offsets - offsets[0]]
    packed = {name: gather(column, rows, starts, lengths) for name, column in source.items()}
    if with_positions:
        packed["labels"] = _labels(packed, ends[:-1])
        packed["position_ids"] = np.arange(ends[-1]) - np.repeat(ends[:-1], lengths)
    arrays = {name: _as_lists(bin_ends, values) for name, values in packed.items()}
    arrays["seq_lengths"] = _as_lists(offsets - offsets[0], lengths.astype(np.int32))
    return pa.RecordBatch.from_pydict(arrays)


def _labels(packed: dict[str, NDArray[Any]], first_tokens: NDArray[np.int64]) -> NDArray[Any]:
    labels: NDArray[Any] = packed["labels" if "labels" in packed else "input_ids"].copy()
    for name in _LOSS_MASKS:
        if name in packed:
            labels[packed[name] == 0] = IGNORED_LABEL
    labels[first_tokens] = IGNORED_LABEL
    return labels


def _as_lists(bounds: NDArray[np.int64], values: NDArray[Any]) -> pa.ListArray:
    return pa.ListArray.from_arrays(pa.array(bounds.astype(np.int32)), pa.array(values))


def _in_memory(
    batches: Iterator[pa.RecordBatch], advance: Callable[[pa.RecordBatch], None], made_from: str
) -> Dataset:
    from datasets import Dataset
    from datasets.fingerprint import Hasher
    from datasets.table import InMemoryTable

    done = []
    for batch in batches:
        done.append(batch)
        advance(batch)
    # Left to itself, Dataset hashes every token for its cache's key: ten times the packing.
    fingerprint = Hasher.hash(made_from)
    return Dataset(InMemoryTable(pa.Table.from_batches(done)), fingerprint=fingerprint)


def _to_file(
    path: Path, batches: Iterator[pa.RecordBatch], advance: Callable[[pa.RecordBatch], None]
) -> Dataset:
    from datasets import Dataset

    writer = None
    # Written beside the target and renamed, so that a broken run leaves no half file behind.
    with tempfile.NamedTemporaryFile(dir=path.parent, suffix=".arrow", delete=False) as file:
        partial = Path(file.name)
        try:
            for batch in batches:
                if writer is None:
                    writer = pa.ipc.new_stream(file, batch.schema)
                writer.write_batch(batch)
                advance(batch)
            if writer is not None:
                writer.close()
        except BaseException:
            partial.unlink()
            raise
    partial.replace(path)
    return Dataset.from_file(str(path))


@contextmanager
def _progress_bar(tokens: int, show: bool) -> Iterator[Callable[[pa.RecordBatch], None]]:
    if not show:
        yield lambda batch: None
        return
    from tqdm.auto import tqdm  # type: ignore[import-untyped]

    with tqdm(total=tokens, desc="Packing", unit=" tokens", unit_scale=True) as bar:

        def advance(batch: pa.RecordBatch) -> None:
            bar.update(len(batch["input_ids"].values))

        yield advance
