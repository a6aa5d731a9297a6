"""Packing a stream: every row once, in all workers and ranks, resumed where it stopped."""

from __future__ import annotations

import pickle
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from memlint_runtime import plan_packing
from memlint_runtime.packing import StreamingPacker
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from tests.examples import examples
from tests.runtime.test_packing import rows_of

datasets = pytest.importorskip("datasets")


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


@examples(40)
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
