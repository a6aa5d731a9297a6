"""Packing: nothing lost, nothing twice, no bin too full, order inside a document kept."""

from __future__ import annotations

import pickle
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from memlint_runtime import pack_dataset, plan_packing
from memlint_runtime.packing import PackedDataset, PackingPlan, StreamingPacker
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

datasets = pytest.importorskip("datasets")

LENGTHS = st.lists(st.integers(0, 40), max_size=120)
STRATEGIES = ("bfd", "first_fit", "next_fit", "wrapped")


def rows_of(lengths: list[int]) -> dict[str, list[list[int]]]:
    """Tokens that name their sequence and place, so that every misplacement shows."""
    return {"input_ids": [[1000 * i + t for t in range(n)] for i, n in enumerate(lengths)]}


def best_fit_one_by_one(lengths: list[int], capacity: int) -> int:
    """Bins of the textbook algorithm: longest first, each into the fullest bin that holds it."""
    free: list[int] = []
    for length in sorted(lengths, reverse=True):
        fitting = [i for i, space in enumerate(free) if space >= length]
        if fitting:
            free[min(fitting, key=lambda i: free[i])] -= length
        else:
            free.append(capacity - length)
    return len(free)


def first_fit_one_by_one(lengths: list[int], capacity: int) -> list[list[int]]:
    bins: list[list[int]] = []
    for index, length in enumerate(lengths):
        for members in bins:
            if sum(lengths[i] for i in members) + length <= capacity:
                members.append(index)
                break
        else:
            bins.append([index])
    return bins


def pieces_by_sequence(plan: PackingPlan, sequences: int) -> list[list[int]]:
    taken: list[list[int]] = [[] for _ in range(sequences)]
    for sequence, start, length in zip(plan.bins, plan.starts, plan.lengths, strict=True):
        taken[sequence].extend(range(start, start + length))
    return taken


@pytest.mark.parametrize("strategy", STRATEGIES)
@given(lengths=LENGTHS, capacity=st.integers(1, 50))
def test_every_token_is_in_one_bin_and_no_bin_is_too_full(
    strategy: Any, lengths: list[int], capacity: int
) -> None:
    plan = plan_packing(lengths, capacity, strategy, overflow="split")
    taken = pieces_by_sequence(plan, len(lengths))
    assert [sorted(tokens) for tokens in taken] == [list(range(n)) for n in lengths]
    assert (plan.bin_lengths() <= capacity).all()
    assert (np.diff(plan.offsets) > 0).all()
    assert (plan.lengths > 0).all()
    assert plan.tokens_lost == 0


@given(lengths=st.lists(st.integers(1, 30), min_size=1, max_size=150), capacity=st.integers(30, 99))
def test_bfd_needs_the_bins_of_best_fit_decreasing(lengths: list[int], capacity: int) -> None:
    assert plan_packing(lengths, capacity).num_bins == best_fit_one_by_one(lengths, capacity)


@given(lengths=st.lists(st.integers(1, 30), max_size=100), capacity=st.integers(30, 60))
def test_first_fit_fills_the_earliest_bin_in_arrival_order(
    lengths: list[int], capacity: int
) -> None:
    plan = plan_packing(lengths, capacity, "first_fit")
    bins = [plan.bins[a:b].tolist() for a, b in zip(plan.offsets, plan.offsets[1:], strict=False)]
    assert bins == first_fit_one_by_one(lengths, capacity)


@given(lengths=st.lists(st.integers(1, 30), max_size=100), capacity=st.integers(30, 60))
def test_next_fit_keeps_the_order_and_opens_a_bin_only_where_it_must(
    lengths: list[int], capacity: int
) -> None:
    plan = plan_packing(lengths, capacity, "next_fit")
    assert plan.bins.tolist() == list(range(len(lengths)))
    filled = plan.bin_lengths()
    firsts = [lengths[start] for start in plan.offsets[1:-1]]
    assert all(was + first > capacity for was, first in zip(filled, firsts, strict=False))


@given(lengths=LENGTHS, capacity=st.integers(1, 50))
def test_wrapped_fills_every_bin_but_the_last(lengths: list[int], capacity: int) -> None:
    plan = plan_packing(lengths, capacity, "wrapped")
    assert (plan.bin_lengths()[:-1] == capacity).all()
    assert plan.num_bins == -(-sum(lengths) // capacity)
    assert plan.bins.tolist() == sorted(plan.bins.tolist())


@pytest.mark.parametrize("strategy", ["bfd", "first_fit", "next_fit"])
@given(lengths=LENGTHS, capacity=st.integers(1, 39))
def test_overflow_counts_what_it_loses(strategy: Any, lengths: list[int], capacity: int) -> None:
    cut = plan_packing(lengths, capacity, strategy)
    assert cut.tokens_lost == sum(max(0, n - capacity) for n in lengths)
    assert cut.num_tokens + cut.tokens_lost == sum(lengths)
    dropped = plan_packing(lengths, capacity, strategy, overflow="drop")
    assert sorted(dropped.bins) == [i for i, n in enumerate(lengths) if 0 < n <= capacity]


def test_capacity_beyond_sixteen_bits() -> None:
    lengths = np.random.default_rng(0).integers(1, 200_000, 500)
    plan = plan_packing(lengths, 262_144)
    assert sorted(plan.bins) == list(range(500))
    assert (plan.bin_lengths() <= 262_144).all()


def test_wrong_input_is_named() -> None:
    with pytest.raises(ValueError, match="the first at index 1 with 9"):
        plan_packing([3, 9], 8, overflow="error")
    with pytest.raises(ValueError, match="strategy must be one of"):
        plan_packing([3], 8, "ffd")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="got -1 at index 1"):
        plan_packing([3, -1], 8)
    with pytest.raises(ValueError, match="integers"):
        plan_packing([3.5], 8)
    with pytest.raises(ValueError, match="at least 1"):
        plan_packing([3], 0)
    for capacity in (None, "8", 8.5, float("nan")):
        with pytest.raises(ValueError, match="capacity must be a whole number"):
            plan_packing([3], capacity)  # type: ignore[arg-type]


def packed_tokens(packed: Any) -> list[int]:
    return sorted(token for row in packed["input_ids"] for token in row)


@pytest.mark.parametrize("strategy", STRATEGIES)
@settings(max_examples=30)
@given(lengths=st.lists(st.integers(1, 30), min_size=1, max_size=60), capacity=st.integers(5, 40))
def test_pack_dataset_moves_each_document_whole_and_in_order(
    strategy: Any, lengths: list[int], capacity: int
) -> None:
    columns = rows_of(lengths)
    columns["labels"] = [[-t for t in row] for row in columns["input_ids"]]
    data = datasets.Dataset.from_dict(columns)
    packed = pack_dataset(data, capacity, strategy=strategy, overflow="split", progress=False)
    assert packed_tokens(packed) == sorted(t for row in columns["input_ids"] for t in row)
    for row in packed:
        assert sum(row["seq_lengths"]) == len(row["input_ids"]) <= capacity
        assert row["labels"] == [-t for t in row["input_ids"]]
        start = 0
        for length in row["seq_lengths"]:
            document = row["input_ids"][start : start + length]
            assert document == list(range(document[0], document[0] + length))
            start += length


def test_pack_dataset_reads_chunks_selections_and_writes_a_file(tmp_path: Any) -> None:
    parts = [datasets.Dataset.from_dict(rows_of([n + i for i in range(9)])) for n in (1, 4)]
    data = datasets.concatenate_datasets(parts).shuffle(seed=3).select(range(3, 18))
    expected = sorted(t for row in data["input_ids"] for t in row)
    packed = pack_dataset(data, 20, output=tmp_path / "packed.arrow", progress=False)
    assert packed_tokens(packed) == expected
    assert packed.cache_files == [{"filename": str(tmp_path / "packed.arrow")}]
    assert [p.name for p in tmp_path.iterdir()] == ["packed.arrow"]


def test_labels_respect_masks_and_first_tokens() -> None:
    data = datasets.Dataset.from_dict(
        {"input_ids": [[5, 6, 7, 8], [9, 10]], "completion_mask": [[0, 0, 1, 1], [1, 1]]}
    )
    packed = pack_dataset(data, 6, position_ids=True, progress=False)[0]
    assert packed["labels"] == [-100, -100, 7, 8, -100, 10]
    assert packed["position_ids"] == [0, 1, 2, 3, 0, 1]
    assert packed["seq_lengths"] == [4, 2]


def test_attention_mask_of_ones_is_dropped_and_padding_refused() -> None:
    data = datasets.Dataset.from_dict({"input_ids": [[1, 2], [3]], "attention_mask": [[1, 1], [1]]})
    assert pack_dataset(data, 4, progress=False).column_names == ["input_ids", "seq_lengths"]
    padded = datasets.Dataset.from_dict(
        {"input_ids": [[1, 2], [3, 0]], "attention_mask": [[1, 1], [1, 0]]}
    )
    with pytest.raises(ValueError, match="rows are padded"):
        pack_dataset(padded, 4, progress=False)


def test_columns_that_cannot_be_packed_are_named() -> None:
    data = datasets.Dataset.from_dict(
        {"input_ids": [[1, 2], [3]], "text": ["a", "b"], "labels": [[1], [3]]}
    )
    with pytest.raises(ValueError, match="column 'text' cannot be packed"):
        pack_dataset(data, 4, progress=False)
    with pytest.raises(ValueError, match="column 'labels' cannot be packed: it differs in length"):
        pack_dataset(data, 4, columns=["labels"], progress=False)
    assert len(pack_dataset(data, 4, columns=["input_ids"], progress=False)) == 1
    with pytest.raises(ValueError, match="no column 'input_ids'"):
        pack_dataset(data.remove_columns("input_ids"), 4)
    with pytest.raises(ValueError, match="StreamingPacker"):
        pack_dataset(data.to_iterable_dataset(), 4)
    with pytest.raises(ValueError, match="got DatasetDict"):
        pack_dataset(datasets.DatasetDict(train=data), 4)


@pytest.mark.parametrize("rows", [[], [[], []]], ids=["no row", "empty rows"])
@pytest.mark.parametrize("typed", [False, True])
def test_a_dataset_without_a_token_is_named_as_such(
    rows: list[list[int]], typed: bool, tmp_path: Any
) -> None:
    data = datasets.Dataset.from_dict({"input_ids": rows, "labels": rows})
    if typed:
        numbers = datasets.List(datasets.Value("int32"))
        data = data.cast(datasets.Features(input_ids=numbers, labels=numbers))
    message = f"needs rows with tokens, got {len(rows)} rows without one"
    for output in (None, tmp_path / "packed.arrow"):
        with pytest.raises(ValueError, match=message):
            pack_dataset(data, 4, output=output, progress=False)
    assert not list(tmp_path.iterdir())


def test_a_filter_that_keeps_no_row_is_named_as_such() -> None:
    data = datasets.Dataset.from_dict(rows_of([3, 4])).select([])
    with pytest.raises(ValueError, match="got 0 rows without one"):
        pack_dataset(data, 4, progress=False)


def test_lost_tokens_are_said() -> None:
    data = datasets.Dataset.from_dict(rows_of([3, 9]))
    with pytest.warns(UserWarning, match="lost 1 of 12 tokens"):
        pack_dataset(data, 8, progress=False)


def stream_rows(count: int) -> list[dict[str, list[int]]]:
    rng = random.Random(0)
    columns = rows_of([rng.randint(1, 30) for _ in range(count)])
    return [{"input_ids": ids, "labels": ids} for ids in columns["input_ids"]]


@given(count=st.integers(0, 120), buffer_rows=st.integers(1, 40), keep=st.floats(0, 1))
def test_stream_hands_out_every_token_once(count: int, buffer_rows: int, keep: float) -> None:
    rows = stream_rows(count)
    packer = StreamingPacker(rows, 32, buffer_rows=buffer_rows, keep_below=keep)
    packed = list(packer)
    assert sorted(t for row in packed for t in row["input_ids"]) == sorted(
        t for row in rows for t in row["input_ids"]
    )
    assert all(len(r["input_ids"]) == sum(r["seq_lengths"]) <= 32 for r in packed)
    assert packed == list(packer), "the same seed gives the same rows"


def test_stream_fills_nearly_as_well_as_the_whole_dataset() -> None:
    rows = stream_rows(3000)
    whole = plan_packing([len(row["input_ids"]) for row in rows], 32).num_bins
    assert len(list(StreamingPacker(rows, 32, buffer_rows=300))) <= 1.03 * whole
    by_seed = [list(StreamingPacker(rows, 32, seed=seed)) for seed in (0, 1)]
    assert by_seed[0] != by_seed[1]


@settings(max_examples=40)
@given(stop=st.integers(0, 60), buffer_rows=st.integers(1, 50))
def test_stream_resumes_where_it_stopped(stop: int, buffer_rows: int) -> None:
    rows = stream_rows(120)
    whole = list(StreamingPacker(rows, 32, buffer_rows=buffer_rows))
    packer = StreamingPacker(rows, 32, buffer_rows=buffer_rows)
    running = iter(packer)
    stop = min(stop, len(whole) - 1)
    for _ in range(stop):
        next(running)
    resumed = StreamingPacker(rows, 32, buffer_rows=buffer_rows)
    resumed.load_state_dict(packer.state_dict())
    assert list(resumed) == whole[stop:]
    assert list(resumed) == whole, "an iteration after the resumed one starts anew"


@pytest.mark.parametrize("kind", ["list", "generator", "datasets", "torch"])
@pytest.mark.parametrize("workers", [0, 2])
def test_a_loader_s_workers_share_the_rows(kind: str, workers: int) -> None:
    rows = stream_rows(300)
    source: Any = rows
    if kind == "generator":
        source = Again(rows)
    elif kind == "datasets":
        table = {name: [row[name] for row in rows] for name in rows[0]}
        source = datasets.Dataset.from_dict(table).to_iterable_dataset(num_shards=4)
    elif kind == "torch":
        source = Shared(rows)
    found = []
    for rank in range(2):
        ranks = {"rank": rank, "ranks": 2} if kind in ("list", "generator") else {}
        packer = StreamingPacker(source, 32, buffer_rows=40, **ranks)
        loader = DataLoader(packer, batch_size=None, num_workers=workers)
        found += [token for row in loader for token in row["input_ids"]]
        if not ranks:
            break
    assert sorted(found) == sorted(token for row in rows for token in row["input_ids"])


class Again:
    """Iterates anew each time, and is nothing else."""

    def __init__(self, rows: list[dict[str, list[int]]]) -> None:
        self.rows = rows

    def __iter__(self) -> Iterator[dict[str, list[int]]]:
        return iter(self.rows)


class Shared(IterableDataset[dict[str, list[int]]]):
    """Shares its rows among workers, as torch leaves it to such a dataset."""

    def __init__(self, rows: list[dict[str, list[int]]]) -> None:
        self.rows = rows

    def __iter__(self) -> Iterator[dict[str, list[int]]]:
        worker = get_worker_info()
        start, step = (0, 1) if worker is None else (worker.id, worker.num_workers)
        return iter(self.rows[start::step])


def test_shares_and_epochs_of_a_stream_are_its_state() -> None:
    rows = stream_rows(120)
    packer = StreamingPacker(rows, 32, buffer_rows=30, rank=1, ranks=2)
    packer.set_epoch(3)
    whole = list(packer)
    packer.set_epoch(4)
    assert list(packer) != whole
    packer.set_epoch(3)
    running = iter(packer)
    for _ in range(5):
        next(running)
    resumed = StreamingPacker(rows, 32, buffer_rows=30, rank=1, ranks=2)
    resumed.load_state_dict(packer.state_dict())
    assert list(resumed) == whole[5:]
    other = StreamingPacker(rows, 32, buffer_rows=30)
    other.load_state_dict(packer.state_dict())
    with pytest.raises(ValueError, match="of share 1 of 2, this is share 0 of 1"):
        list(other)
    with pytest.raises(ValueError, match=r"rank must be in 0\.\.1, got 2"):
        StreamingPacker(rows, 32, rank=2, ranks=2)


def test_stream_refuses_what_it_cannot_pack() -> None:
    with pytest.raises(ValueError, match="'text' cannot be packed"):
        list(StreamingPacker([{"input_ids": [1], "text": "a"}], 8))  # type: ignore[dict-item]
    with pytest.raises(ValueError, match="no 'input_ids'"):
        list(StreamingPacker([{"tokens": [1]}], 8))
    with pytest.raises(ValueError, match="attention_mask has zeros"):
        list(StreamingPacker([{"input_ids": [1, 2], "attention_mask": [1, 0]}], 8))
    with pytest.warns(UserWarning, match="loses the ends"):
        list(StreamingPacker([{"input_ids": [1, 2, 3]}], 2))


@pytest.mark.parametrize(
    ("second", "message"),
    [
        (None, "row 1 of the source is NoneType"),
        ({"input_ids": [1]}, "row 1 has no column 'labels', which the rows before have"),
        ({"input_ids": [1], "labels": None}, "column 'labels' cannot be packed: it is None"),
        ({"input_ids": [1], "labels": [1], "mask": [1]}, "rows before have no column 'mask'"),
        ({"input_ids": None, "labels": [1]}, "'input_ids' of row 1 is not a flat list"),
        ({"input_ids": [[1], [2]], "labels": [1, 2]}, "'input_ids' of row 1 is not a flat list"),
    ],
)
def test_stream_names_the_row_that_differs(second: Any, message: str) -> None:
    rows = [{"input_ids": [1, 2], "labels": [1, 2], "attention_mask": [1, 1]}, second]
    for buffer_rows in (1, 10):
        with pytest.raises(ValueError, match=message):
            list(StreamingPacker(rows, 8, buffer_rows=buffer_rows, keep_below=1.0))


class GivenAway:
    """Gives one and the same iterator each time."""

    def __init__(self, rows: Any) -> None:
        self.rows = iter(rows)

    def __iter__(self) -> Any:
        return self.rows


class StartsItself:
    """An iterator whose class wrote an `__iter__` that starts anew."""

    def __init__(self, rows: Any) -> None:
        self.rows = rows

    def __iter__(self) -> Any:
        self.left = iter(self.rows)
        return self

    def __next__(self) -> Any:
        return next(self.left)


@pytest.mark.parametrize("kind", [iter, lambda rows: (row for row in rows), GivenAway])
def test_a_stream_that_is_used_up_is_not_packed_as_none(kind: Any) -> None:
    rows = stream_rows(120)
    whole = list(StreamingPacker(rows, 32, buffer_rows=30))
    packer = StreamingPacker(kind(rows), 32, buffer_rows=30)
    assert list(packer) == whole
    with pytest.raises(ValueError, match="does not start anew"):
        list(packer)
    packer.source = kind(rows)
    assert list(packer) == whole, "another source is read from its beginning"


def test_a_generator_serves_one_pass_and_a_resumed_one() -> None:
    rows = stream_rows(120)
    whole = list(StreamingPacker(rows, 32, buffer_rows=30))
    packer = StreamingPacker((row for row in rows), 32, buffer_rows=30)
    begun = iter(packer)
    assert [next(begun) for _ in range(5)] == whole[:5]
    state = packer.state_dict()
    with pytest.raises(ValueError, match=r"a generator, has been read .* a dataset, a list, or"):
        next(iter(packer))
    resumed = StreamingPacker((row for row in rows), 32, buffer_rows=30)
    resumed.load_state_dict(state)
    assert list(resumed) == whole[5:]
    with pytest.raises(ValueError, match="does not start anew"):
        list(resumed)


@pytest.mark.parametrize("kind", [list, Again, StartsItself])
def test_streams_that_start_anew_are_packed_again(kind: Any) -> None:
    packer = StreamingPacker(kind(stream_rows(120)), 32, buffer_rows=30)
    next(iter(packer))
    assert list(packer) == list(packer)
    assert list(pickle.loads(pickle.dumps(packer))) == list(packer)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_generator_is_read_again_in_a_loader_s_new_workers_alone(workers: int) -> None:
    rows = stream_rows(120)
    packer = StreamingPacker((row for row in rows), 32, buffer_rows=30)
    fork = "fork" if workers else None
    options = {"num_workers": workers, "multiprocessing_context": fork}
    loader: Any = DataLoader(packer, batch_size=None, **options)  # type: ignore[arg-type]
    tokens = sorted(token for row in rows for token in row["input_ids"])
    assert sorted(token for row in loader for token in row["input_ids"]) == tokens
    if workers:  # copies of a packer that has read nothing
        assert sorted(token for row in loader for token in row["input_ids"]) == tokens
    else:
        with pytest.raises(ValueError, match="does not start anew"):
            list(loader)


@pytest.mark.parametrize("made", [torch.tensor, np.array])
def test_rows_of_tensors_and_arrays_are_packed_to_integers(made: Any) -> None:
    rows = [{name: made(values) for name, values in row.items()} for row in stream_rows(20)]
    packed = list(StreamingPacker(rows, 32))
    assert packed == list(StreamingPacker(stream_rows(20), 32))
    assert {type(token) for row in packed for token in row["input_ids"] + row["labels"]} == {int}


SETTINGS = {"capacity": 32, "buffer_rows": 30, "overflow": "split", "keep_below": 0.9, "seed": 1}
OTHER = {"capacity": 16, "buffer_rows": 40, "overflow": "drop", "keep_below": 0.1, "seed": 2}


def stopped_in_the_second_buffer(rows: Any) -> tuple[dict[str, Any], int]:
    packer = StreamingPacker(rows, **SETTINGS)  # type: ignore[arg-type]
    for handed_out, _ in enumerate(packer, 1):
        if (state := packer.state_dict())["round"] == 1 and state["handed_out"] == 5:
            return state, handed_out
    raise AssertionError("the rows fill two buffers")


@pytest.mark.parametrize("setting", SETTINGS)
def test_stream_resumes_with_the_same_settings_alone(setting: str) -> None:
    rows = stream_rows(120)
    state, handed_out = stopped_in_the_second_buffer(rows)
    assert state["settings"] == SETTINGS
    other = StreamingPacker(rows, **{**SETTINGS, setting: OTHER[setting]})  # type: ignore[arg-type]
    was, now = (f"{setting}={values[setting]!r}" for values in (SETTINGS, OTHER))
    with pytest.raises(ValueError, match=f"a packer with {was}, this one has {now}"):
        other.load_state_dict(state)
    other.load_state_dict(StreamingPacker(rows, **SETTINGS).state_dict())  # type: ignore[arg-type]
    same = StreamingPacker(rows, **SETTINGS)  # type: ignore[arg-type]
    whole = list(same)
    earlier = {k: v for k, v in state.items() if k not in ("settings", "buffered")}
    for saved in (state, earlier):
        same.load_state_dict(saved)
        assert list(same) == whole[handed_out:]


def test_stream_refuses_what_is_no_state_of_its_source() -> None:
    rows = stream_rows(120)
    state, _ = stopped_in_the_second_buffer(rows)
    packer = StreamingPacker(rows[:40], **SETTINGS)  # type: ignore[arg-type]
    packer.load_state_dict(state)
    with pytest.raises(ValueError, match="rows into its buffer, the source now gives"):
        list(packer)
    packer.load_state_dict({**state, "buffered": None, "handed_out": 99})
    with pytest.raises(ValueError, match="had handed out 99 packed rows of its buffer"):
        list(packer)
    with pytest.raises(ValueError, match="no 'round', 'read', 'waiting', 'handed_out'"):
        packer.load_state_dict({})
    with pytest.raises(ValueError, match="got NoneType"):
        packer.load_state_dict(None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"capacity": None}, "capacity must be a whole number, got None"),
        ({"capacity": 4.5}, "capacity must be a whole number, got 4.5"),
        ({"ranks": 0}, "ranks must be at least 1, got 0"),
        ({"buffer_rows": "9"}, "buffer_rows must be a whole number"),
        ({"overflow": "cut"}, "overflow must be one of"),
        ({"keep_below": None}, "keep_below must be a number, got None"),
        ({"keep_below": 2.0}, "keep_below is a share between 0 and 1, got 2.0"),
        ({"source": None}, "needs a source of rows, got None"),
    ],
)
def test_stream_refuses_settings_that_mean_nothing(options: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        StreamingPacker(**{"source": [], "capacity": 8, **options})


def samples_of(lengths: list[int]) -> list[dict[str, list[int]]]:
    rows = rows_of(lengths)["input_ids"]
    return [{"tokens": row, "labels": [-100, *row[1:]][: len(row)]} for row in rows]


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("split", [False, True])
def test_padded_rows_hold_every_sample_once(strategy: Any, split: bool) -> None:
    lengths = [5, 9, 3, 12, 1, 7, 8, 30 if split or strategy == "wrapped" else 16, 2]
    samples = samples_of(lengths)
    packed = PackedDataset(
        samples, max_seq_len=16, padding_idx=77, split_across_pack=split, strategy=strategy
    )
    found: dict[int, int] = {}
    for row in (packed[index] for index in range(len(packed))):
        sizes = {name: len(row[name]) for name in ("tokens", "labels", "input_pos")}
        assert set(sizes.values()) == {16}
        assert int(row["seq_lens"].sum()) == 16
        filled = int((row["tokens"] != 77).sum())
        assert (row["tokens"][filled:] == 77).all()
        assert (row["labels"][filled:] == -100).all()
        for token, label, place in zip(
            row["tokens"].tolist()[:filled], row["labels"].tolist(), row["input_pos"].tolist(),
            strict=False,
        ):  # fmt: skip
            found[token] = label
            assert place == token % 1000 % 16
    expected = {t: n for one in samples for t, n in zip(one["tokens"], one["labels"], strict=True)}
    assert found == expected
    assert (packed[-1]["tokens"] == packed[len(packed) - 1]["tokens"]).all()


def test_padded_rows_refuse_what_torchtune_would_not_yield() -> None:
    few = PackedDataset(samples_of([5, 9, 3]), max_seq_len=9, max_packs=1)
    assert len(list(few)) == len(few) == 1
    with pytest.raises(ValueError, match="the first at index 1 with 9"):
        PackedDataset(samples_of([5, 9]), max_seq_len=8)
    with pytest.raises(ValueError, match="got a data set without one"):
        PackedDataset([], max_seq_len=8)
    with pytest.raises(ValueError, match="sample 0 has no lists 'tokens' and 'labels'"):
        PackedDataset([{"input_ids": [1]}], max_seq_len=8)
    with pytest.raises(ValueError, match="sample 0 has 2 tokens and 1 labels"):
        PackedDataset([{"tokens": [1, 2], "labels": [1]}], max_seq_len=8)
    with pytest.raises(ValueError, match="max_packs must not be negative"):
        PackedDataset(samples_of([5]), max_seq_len=8, max_packs=-1)
