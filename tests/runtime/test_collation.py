"""Flattened batches: every token in place, boundaries right, and losses as the padded ones."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from memlint_runtime import (
    PaddingFreeCollator,
    PreferenceCollator,
    sum_by_document,
    use_variable_length_attention,
)
from torch import Tensor

from tests.runtime.attention.models import documents, padded, tiny_model
from tests.runtime.float64 import in_float64, judge
from tests.runtime.losses.plain import expected_of, step


def test_flat_batch_of_rows() -> None:
    batch = PaddingFreeCollator()([{"input_ids": [5, 6, 7]}, {"input_ids": [8, 9]}])
    assert batch["input_ids"].tolist() == [[5, 6, 7, 8, 9]]
    assert batch["labels"].tolist() == [[-100, 6, 7, -100, 9]]
    assert batch["position_ids"].tolist() == [[0, 1, 2, 0, 1]]
    assert batch["cu_seq_lens_q"].tolist() == batch["cu_seq_lens_k"].tolist() == [0, 3, 5]
    assert batch["cu_seq_lens_q"].dtype == torch.int32
    assert batch["max_length_q"] == batch["max_length_k"] == 3
    assert "attention_mask" not in batch


def test_labels_masks_and_padding_of_rows() -> None:
    rows = [
        {"input_ids": [5, 6, 7], "labels": [-100, -100, 7]},
        {"input_ids": [0, 8, 9], "labels": [-100, 8, 9], "attention_mask": [0, 1, 1]},
        {"input_ids": [3, 4], "completion_mask": [1, 0]},
    ]
    batch = PaddingFreeCollator(pad_to_multiple_of=4, pad_token_id=1, return_seq_idx=True)(rows)
    assert batch["input_ids"].tolist() == [[5, 6, 7, 8, 9, 3, 4, 1]]
    assert batch["labels"].tolist() == [[-100, -100, 7, -100, 9, -100, -100, -100]]
    assert batch["cu_seq_lens_q"].tolist() == [0, 3, 5, 7, 8]
    assert batch["seq_idx"].tolist() == [[0, 0, 0, 1, 1, 2, 2, 3]]


def test_packed_rows_keep_their_documents() -> None:
    by_lengths = [{"input_ids": [1, 2, 3], "seq_lengths": [2, 1]}, {"input_ids": [4]}]
    by_positions = [{"input_ids": [1, 2, 3], "position_ids": [0, 1, 0]}, {"input_ids": [4]}]
    for rows in (by_lengths, by_positions):
        assert PaddingFreeCollator()(rows)["cu_seq_lens_q"].tolist() == [0, 2, 3, 4]


@given(lengths=st.lists(st.integers(1, 9), min_size=1, max_size=9), multiple=st.integers(1, 8))
def test_tokens_positions_and_bounds_agree(lengths: list[int], multiple: int) -> None:
    rows = [{"input_ids": list(range(10 * i, 10 * i + n))} for i, n in enumerate(lengths)]
    batch = PaddingFreeCollator(pad_to_multiple_of=multiple)(rows)
    assert batch["input_ids"].shape[1] % multiple == 0
    flat, bounds = batch["input_ids"][0], batch["cu_seq_lens_q"].tolist()
    for row, (a, b) in zip(rows, pairwise(bounds), strict=False):
        assert flat[a:b].tolist() == row["input_ids"]
        assert batch["position_ids"][0, a:b].tolist() == list(range(b - a))
    assert bounds[-1] == len(flat)
    assert batch["max_length_q"] == max(b - a for a, b in pairwise(bounds))


def test_collated_loss_is_the_padded_loss() -> None:
    model = tiny_model("llama").train()
    docs = documents(7, 3, 12)
    expected = expected_of(model, padded(docs))
    use_variable_length_attention(model)
    batch = PaddingFreeCollator(pad_to_multiple_of=16)([{"input_ids": d.tolist()} for d in docs])
    judge(step(model, batch), *expected)


def test_preference_pairs() -> None:
    rows: list[dict[str, Any]] = [
        {"prompt_ids": [1, 2], "chosen_ids": [3, 4], "rejected_ids": [5], "margin": 0.5, "id": "a"},
        {"prompt_ids": [6], "chosen_ids": [7], "rejected_ids": [8, 9], "margin": 1.0, "id": "b"},
    ]
    batch = PreferenceCollator()(rows)
    assert batch["input_ids"].tolist() == [[1, 2, 3, 4, 6, 7, 1, 2, 5, 6, 8, 9]]
    hidden = -100
    assert batch["labels"].tolist() == [
        [hidden, hidden, 3, 4, hidden, 7, hidden, hidden, 5, hidden, 8, 9]
    ]
    assert batch["cu_seq_lens_q"].tolist() == [0, 4, 6, 9, 12]
    assert batch["last_tokens"].tolist() == [3, 5, 8, 11]
    assert batch["margin"].tolist() == [0.5, 1.0]
    assert "id" not in batch


@pytest.mark.parametrize("as_number", [float, torch.tensor, np.float32, np.float64, np.array])
def test_numbers_of_pairs_are_kept_as_any_scalar(as_number: Any) -> None:
    pair = {"chosen_ids": [3], "rejected_ids": [5], "id": "a", "tags": [1, 2]}
    batch = PreferenceCollator()([{**pair, "margin": as_number(v)} for v in (0.5, 1.5)])
    assert batch["margin"].tolist() == [0.5, 1.5]
    assert batch["margin"].dtype == torch.float32
    assert not {"id", "tags"} & batch.keys()


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ([{"margin": 1.0}, {}], "'margin' must hold a number in every pair, row 1 .* no such"),
        ([{}, {"score": 1.0}], "'score' must hold a number in every pair, row 0 .* no such"),
        ([{"score": 1.0}, {"score": None}], "'score' .* row 1 of the batch has None"),
        ([{"margin": None}], "'margin' .* row 0 of the batch has None"),
    ],
)
def test_a_pair_without_its_number_is_named(columns: list[dict[str, Any]], message: str) -> None:
    rows = [{"chosen_ids": [3], "rejected_ids": [5], **more} for more in columns]
    with pytest.raises(ValueError, match=message):
        PreferenceCollator()(rows)


def test_columns_that_say_nothing_are_left_out() -> None:
    row = {
        "input_ids": [1, 2, 3],
        "token_type_ids": [0, 0, 0],
        "pixel_values": None,
        "source": "a",
        "index": 7,
        "seq_lengths": [0, 2, 1],
        "position_ids": [0, 1, 0],
    }
    assert PaddingFreeCollator()([row])["cu_seq_lens_q"].tolist() == [0, 2, 3]
    several = {**row, "position_ids": [[0, 1, 2]] * 3}
    assert PaddingFreeCollator()([several])["cu_seq_lens_q"].tolist() == [0, 2, 3]


@pytest.mark.parametrize("kind", [PaddingFreeCollator, PreferenceCollator])
def test_wrong_padding_is_named(kind: Any) -> None:
    for multiple, message in ((-8, "at least 0, got -8"), (2.5, "a whole number, got 2.5")):
        with pytest.raises(ValueError, match=f"pad_to_multiple_of must be {message}"):
            kind(pad_to_multiple_of=multiple)
    with pytest.raises(ValueError, match="needs a pad_token_id, got None"):
        kind(pad_to_multiple_of=8, pad_token_id=None)
    assert kind(pad_token_id=None).pad_to_multiple_of is None


@pytest.mark.parametrize("offsets", [[0, 2, 7], [0, 4, 2, 5], [1, 2, 5], [0, 2, 4], [2, 3], []])
def test_offsets_that_are_none_of_the_values_are_refused(offsets: list[int]) -> None:
    values = torch.ones(5)
    assert sum_by_document(values, torch.tensor([0, 2, 2, 5])).tolist() == [2, 0, 3]
    assert sum_by_document(values[1:], torch.tensor([0, 2, 5])).tolist() == [2, 2]
    with pytest.raises(ValueError, match="cu_seqlens must rise from 0 to 5"):
        sum_by_document(values, torch.tensor(offsets))


def test_preference_loss_and_rewards_as_padded() -> None:
    """Log-probabilities and last hidden states of pairs, flattened, against rows one by one."""
    model = tiny_model("llama").eval()
    rows = [
        {"prompt_ids": [11, 12, 13], "chosen_ids": [21, 22, 23, 24], "rejected_ids": [31]},
        {"prompt_ids": [41], "chosen_ids": [51, 52], "rejected_ids": [61, 62, 63]},
    ]
    pairs = [(r["prompt_ids"], r[side]) for side in ("chosen_ids", "rejected_ids") for r in rows]

    def one_by_one(model: Any) -> tuple[Tensor, Tensor]:
        sums, last = [], []
        for prompt, answer in pairs:
            out = model(torch.tensor([prompt + answer]), output_hidden_states=True)
            logps = out.logits[0].log_softmax(-1)[len(prompt) - 1 : -1]
            sums.append(logps[torch.arange(len(answer)), torch.tensor(answer)].sum())
            last.append(out.hidden_states[-1][0, -1])
        return torch.stack(sums), torch.stack(last)

    expected, truth = one_by_one(model), in_float64(one_by_one, model)
    use_variable_length_attention(model)
    batch = PreferenceCollator()(rows)
    labels, places = batch.pop("labels")[0], batch.pop("last_tokens")
    out = model(**batch, output_hidden_states=True)
    shifted = labels.roll(-1)
    shifted[-1] = -100
    logps = out.logits[0].log_softmax(-1).gather(1, shifted.clamp(min=0)[:, None])[:, 0]
    sums = sum_by_document(logps * (shifted != -100), batch["cu_seq_lens_q"])
    judge((sums, out.hidden_states[-1][0, places]), expected, truth)
    with pytest.raises(ValueError, match="are flat"):
        sum_by_document(logps[None], batch["cu_seq_lens_q"])


def test_wrong_rows_are_named() -> None:
    collate = PaddingFreeCollator()
    for rows, message in (
        ([], "at least one row"),
        ([{"text": "a"}], "no 'input_ids' but 'text'"),
        ([{"input_ids": []}], "at least one token"),
        ([{"input_ids": [1, 2], "labels": [1]}], "labels has 1 entries, input_ids has 2"),
        ([{"input_ids": [1, 2], "seq_lengths": [1]}], "add up to 1 tokens"),
        ([{"input_ids": [[1, 2]]}], "flat lists of integers"),
        (
            [{"input_ids": [1, 2, 0], "seq_lengths": [1, 2], "attention_mask": [1, 1, 0]}],
            "packed row has padding",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            collate(rows)
    for row, message in (
        ({"labels": None}, "column 'labels' of a row is None"),
        ({"labels": ["a", "b", "c"]}, "'labels' of which no tensor can be made"),
        ({"seq_lengths": [4, -1]}, "seq_lengths must not be negative"),
        ({"seq_lengths": [1, 2], "position_ids": [0, 1, 0]}, r"\[1, 2\] tokens.* of \[2, 1\]"),
        ({"attention_mask": [1, 0, 1]}, "attention_mask is 0 between tokens, at 1"),
        ({"pixel_values": torch.ones(3, 2, 2)}, "'pixel_values', which this collator would leave"),
        ({"token_type_ids": [0, 1, 1]}, "'token_type_ids', which this collator would leave"),
    ):
        with pytest.raises(ValueError, match=message):
            collate([{"input_ids": [1, 2, 3], **row}])
    with pytest.raises(ValueError, match="a row is a mapping with 'input_ids', got NoneType"):
        collate([None])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="no 'rejected_ids'"):
        PreferenceCollator()([{"chosen_ids": [1]}])
    with pytest.raises(ValueError, match="empty 'chosen_ids'"):
        PreferenceCollator()([{"chosen_ids": [], "rejected_ids": [1]}])
