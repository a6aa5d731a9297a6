"""Truncation: the right end is cut, columns stay aligned, completions do not vanish."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from memlint_runtime import truncate, truncate_prompt_and_completion, truncate_text

LIMIT = st.none() | st.integers(1, 12)


def test_whole_sequence_at_either_end() -> None:
    row = {"input_ids": [1, 2, 3, 4], "labels": [-100, 2, 3, 4], "text": "left alone"}
    assert truncate(row, max_length=3) == {"input_ids": [1, 2, 3], "labels": [-100, 2, 3]}
    cut = truncate(row, max_length=3, keep="end")
    assert cut == {"input_ids": [2, 3, 4], "labels": [2, 3, 4]}
    assert truncate(row, max_length=9)["input_ids"] == [1, 2, 3, 4]


@pytest.mark.parametrize(
    "column", [{"completion_mask": [0, 0, 0, 1]}, {"labels": [-100, -100, -100, 4]}]
)
def test_a_completion_cut_off_is_said(column: dict[str, list[int]]) -> None:
    with pytest.warns(UserWarning, match="cut off the whole completion"):
        truncate({"input_ids": [1, 2, 3, 4], **column}, max_length=2)
    assert truncate({"input_ids": [1, 2, 3, 4], **column}, max_length=2, keep="end")


@given(
    prompt=st.integers(0, 15),
    completion=st.integers(1, 15),
    limits=st.tuples(LIMIT, LIMIT, st.none() | st.integers(2, 20)),
)
def test_prompt_from_the_left_completion_from_the_right(
    prompt: int, completion: int, limits: tuple[Any, Any, Any]
) -> None:
    names = ("max_prompt_length", "max_completion_length", "max_length")
    asked = dict(zip(names, limits, strict=True))
    head, tail = list(range(prompt)), list(range(100, 100 + completion))
    parts = truncate_prompt_and_completion({"prompt_ids": head, "completion_ids": tail}, **asked)
    kept, answer = parts["prompt_ids"], parts["completion_ids"]
    assert kept == head[len(head) - len(kept) :]
    assert answer == tail[: len(answer)]
    assert answer
    assert not head or kept
    assert len(kept) <= (limits[0] or prompt)
    assert len(answer) <= (limits[1] or completion)
    assert len(kept) + len(answer) <= (limits[2] or prompt + completion)
    mask = [0] * prompt + [1] * completion
    joined = truncate_prompt_and_completion(
        {"input_ids": head + tail, "completion_mask": mask, "labels": head + tail}, **asked
    )
    assert joined["input_ids"] == joined["labels"] == kept + answer
    assert joined["completion_mask"] == [0] * len(kept) + [1] * len(answer)


def test_a_pair_shares_its_prompt() -> None:
    row = {"prompt_ids": [1, 2, 3, 4], "chosen_ids": [5, 6, 7], "rejected_ids": [8]}
    assert truncate_prompt_and_completion(row, max_length=5) == {
        "prompt_ids": [3, 4],
        "chosen_ids": [5, 6, 7],
        "rejected_ids": [8],
    }


def test_map_of_a_dataset() -> None:
    datasets = pytest.importorskip("datasets")
    data = datasets.Dataset.from_dict({"input_ids": [[1, 2, 3], [4]], "labels": [[1, 2, 3], [4]]})
    cut = data.map(truncate, fn_kwargs={"max_length": 2})
    assert cut["input_ids"][:] == cut["labels"][:] == [[1, 2], [4]]


def test_text_by_tokens() -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    backend = Tokenizer(models.WordLevel({"?": 0}, unk_token="?"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend)
    row = {"prompt": "one  two three"}
    assert truncate_text(row, tokenizer=tokenizer, max_length=2) == {"prompt": "two three"}
    start = truncate_text(row, tokenizer=tokenizer, max_length=2, keep="start")
    assert start == {"prompt": "one  two"}
    assert truncate_text(row, tokenizer=tokenizer, max_length=3) == row
    assert truncate_text(row, tokenizer=None, max_length=None) == row
    tokenizer.chat_template = "{% for m in messages %}{{ m.content }} {% endfor %}"
    talk = {"prompt": [{"role": "user", "content": "one two three"}]}
    assert truncate_text(talk, tokenizer=tokenizer, max_length=3) == talk
    with pytest.raises(ValueError, match="has 3 tokens, 2 allowed"):
        truncate_text(talk, tokenizer=tokenizer, max_length=2)
    with pytest.raises(
        ValueError, match=r"no column 'prompt' but 'chosen', 'rejected'.*limit_prompts"
    ):
        truncate_text({"chosen": "a", "rejected": "b"}, tokenizer=tokenizer, max_length=2)
    with pytest.raises(ValueError, match='"start" or "end", got \'keep_start\''):
        truncate_text(row, tokenizer=tokenizer, max_length=2, keep="keep_start")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"neither text nor a conversation.*without batched=True"):
        truncate_text({"prompt": [1, 2]}, tokenizer=tokenizer, max_length=2)
    with pytest.raises(ValueError, match="fast tokenizer"):
        truncate_text(row, tokenizer=object(), max_length=2)


def test_wrong_rows_are_named() -> None:
    both = truncate_prompt_and_completion
    with pytest.raises(ValueError, match="completion is empty"):
        both({"prompt_ids": [1], "completion_ids": []}, max_length=4)
    with pytest.raises(ValueError, match="completion is empty"):
        both({"input_ids": [1, 2], "completion_mask": [0, 0]}, max_length=4)
    with pytest.raises(ValueError, match="several turns"):
        both({"input_ids": [1, 2, 3], "completion_mask": [0, 1, 0]}, max_length=2)
    with pytest.raises(ValueError, match="a row needs prompt_ids"):
        both({"text": "a"}, max_length=4)
    with pytest.raises(ValueError, match="needs completion_ids"):
        both({"prompt_ids": [1]}, max_length=4)
    with pytest.raises(ValueError, match="at least 2 tokens, one of each part, got 1"):
        both({"prompt_ids": [1], "completion_ids": [2]}, max_length=1)
    with pytest.raises(ValueError, match="labels has 1 entries, input_ids has 2"):
        truncate({"input_ids": [1, 2], "labels": [1]}, max_length=1)
    with pytest.raises(ValueError, match="packed"):
        truncate({"input_ids": [1, 2], "seq_lengths": [2]}, max_length=1)
    with pytest.raises(ValueError, match="at least 1 token"):
        truncate({"input_ids": [1]}, max_length=0)
    with pytest.raises(ValueError, match='"start" or "end"'):
        truncate({"input_ids": [1]}, max_length=1, keep="left")  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", [None, "numpy", "torch"])
def test_a_batch_in_the_place_of_a_row_is_refused(kind: str | None) -> None:
    datasets = pytest.importorskip("datasets")
    tokens = [[1, 2, 3], [4, 5, 6]]
    joined = {"input_ids": tokens, "completion_mask": [[0, 1, 1], [0, 1, 1]]}
    data = datasets.Dataset.from_dict(joined).with_format(kind)
    pairs = datasets.Dataset.from_dict({"prompt_ids": tokens, "completion_ids": tokens})
    for cut, rows in (
        (truncate, data),
        (truncate_prompt_and_completion, data),
        (truncate_prompt_and_completion, pairs.with_format(kind)),
    ):
        with pytest.raises(ValueError, match="without batched=True"):
            rows.map(cut, batched=True, fn_kwargs={"max_length": 2})
        assert len(rows.map(cut, fn_kwargs={"max_length": 2})) == 2


@pytest.mark.parametrize("wrong", [None, "8", 8.5])
def test_a_limit_is_a_whole_number(wrong: Any) -> None:
    row = {"input_ids": [1, 2, 3], "completion_mask": [0, 1, 1]}
    with pytest.raises(ValueError, match="max_length must be a whole number"):
        truncate(row, max_length=wrong)
    for name in ("max_length", "max_prompt_length", "max_completion_length"):
        if wrong is not None:
            with pytest.raises(ValueError, match=f"{name} must be a whole number"):
                truncate_prompt_and_completion(row, **{name: wrong})
    assert truncate(row, max_length=2.0)["input_ids"] == [1, 2]  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="input_ids must be a flat list of token ids, got None"):
        truncate({"input_ids": None}, max_length=2)
