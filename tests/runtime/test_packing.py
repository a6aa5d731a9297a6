"""Packing: nothing lost, nothing twice, no bin too full, order inside a document kept."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from memlint_runtime import pack_dataset, plan_packing
from memlint_runtime.packing import PackedDataset, PackingPlan

from tests.examples import examples

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
@examples(30)
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
