"""Responses found by what stands before them: against a plain search, and in a real trainer."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from memlint_runtime import DataCollatorForCompletionOnlyLM
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

HIDDEN = -100
TEXTS = [
    "### Human: what is it?\n### Assistant: it is a thing."
    "\n\n### Human: and now?\n### Assistant: no.",
    "what is what, and what is not\n\n### Answer:\nthe answer is nothing at all",
    "a word\n### Answer: b word",
]


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerFast:
    """Byte-level BPE with merges over line ends, so that templates depend on what is around."""
    trained = Tokenizer(models.BPE())
    trained.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    trained.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=300,
        special_tokens=["<pad>", "<eos>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    trained.train_from_iterator(TEXTS * 20, trainer)
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=trained, pad_token="<pad>", eos_token="<eos>"
    )


class Ids:
    """A tokenizer as far as templates of ids need one."""

    def __init__(self, padding_side: str = "right", pad: int | None = 0) -> None:
        self.padding_side = padding_side
        self.pad_token_id = pad
        self.eos_token_id = 99


def plain(row: Sequence[int], response: list[int], instruction: list[int] | None) -> list[int]:
    """Labels by a loop over the tokens, as one would write them by hand."""
    labels = [HIDDEN] * len(row)

    def stands(template: list[int], at: int) -> bool:
        return list(row[at : at + len(template)]) == template

    begins = [at + len(response) for at in range(len(row)) if stands(response, at)]
    if instruction is None:
        for at in range(begins[-1] if begins else len(row), len(row)):
            labels[at] = row[at]
        return labels
    starts = [at for at in range(len(row)) if stands(instruction, at)]
    if not begins or not starts:
        return labels
    learning = False
    for at, token in enumerate(row):
        learning = learning or at in begins
        if at in starts:
            learning = False
        if learning:
            labels[at] = token
    return labels


def by_offsets(
    tokenizer: PreTrainedTokenizerFast, text: str, response: str, instruction: str | None = None
) -> list[int]:
    """Labels by where each token begins in the text; one across a template's end is part of it."""
    encoded = tokenizer(text, return_offsets_mapping=True)
    labels = []
    for token, (start, end) in zip(encoded["input_ids"], encoded["offset_mapping"], strict=True):
        begin = text.rfind(response, 0, start)
        if instruction is None:
            begin = text.rfind(response)
        begin += len(response) if begin >= 0 else 0
        stop = -1 if instruction is None else text.rfind(instruction, 0, end + len(instruction) - 1)
        learned = begin > 0 and start >= begin and stop < begin
        labels.append(token if learned else HIDDEN)
    return labels


ROWS = st.lists(st.lists(st.integers(1, 4), min_size=1, max_size=14), min_size=1, max_size=4)
TEMPLATE = st.lists(st.integers(1, 4), min_size=1, max_size=2) | st.just([1, 2, 3, 4, 1, 2])


@given(ROWS, TEMPLATE, TEMPLATE | st.none(), st.booleans(), st.sampled_from([None, 4]))
def test_labels_are_those_of_a_plain_search(
    rows: list[list[int]],
    response: list[int],
    instruction: list[int] | None,
    left: bool,
    multiple: int | None,
) -> None:
    collator = DataCollatorForCompletionOnlyLM(
        response,
        instruction,
        tokenizer=Ids("left" if left else "right"),
        pad_to_multiple_of=multiple,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        batch = collator([{"input_ids": row} for row in rows])
    width = batch["input_ids"].shape[1]
    assert width % (multiple or 1) == 0
    for at, row in enumerate(rows):
        kept = slice(width - len(row), None) if left else slice(len(row))
        assert batch["input_ids"][at, kept].tolist() == row
        assert batch["labels"][at, kept].tolist() == plain(row, response, instruction)
        assert batch["attention_mask"][at].sum() == batch["attention_mask"][at, kept].sum()
        assert batch["attention_mask"][at].sum() == len(row)
        assert (batch["labels"][at] != HIDDEN).sum() <= len(row)


@pytest.mark.filterwarnings("ignore:no ")
def test_padding_free_batch_has_the_same_labels() -> None:
    rows = [[1, 2, 7, 8], [3, 2, 9], [5, 5, 5]]
    padded = DataCollatorForCompletionOnlyLM([2], tokenizer=Ids())(rows)
    flat = DataCollatorForCompletionOnlyLM([2], tokenizer=Ids(), padding_free=True)(rows)
    assert flat["labels"][0].tolist() == [
        *[HIDDEN, HIDDEN, 7, 8],
        *[HIDDEN, HIDDEN, 9],
        *[HIDDEN] * 3,
    ]
    assert (flat["labels"] != HIDDEN).sum() == (padded["labels"] != HIDDEN).sum()
    assert flat["position_ids"].tolist() == [[0, 1, 2, 3, 0, 1, 2, 0, 1, 2]]
    assert "attention_mask" not in flat


def test_what_is_hidden_stays_hidden_and_other_marks_are_used() -> None:
    rows = [
        {"input_ids": [1, 2, 7, 8], "labels": [1, 2, 7, HIDDEN]},
        {"input_ids": [1, 2, 7, 0], "attention_mask": [1, 1, 1, 0]},
    ]
    collator = DataCollatorForCompletionOnlyLM([2], tokenizer=Ids(), ignore_index=-1)
    batch = collator(rows)
    assert batch["labels"].tolist() == [[-1, -1, 7, -1], [-1, -1, 7, -1]]
    assert batch["attention_mask"].tolist() == [[1, 1, 1, 1], [1, 1, 1, 0]]


def test_a_response_learns_the_padding_token_only_if_asked() -> None:
    rows = [[1, 2, 7, 99], [2, 99]]
    collator = DataCollatorForCompletionOnlyLM([2], tokenizer=Ids(pad=None))
    batch = collator(rows)
    assert batch["input_ids"].tolist() == [[1, 2, 7, 99], [2, 99, 99, 99]]
    assert batch["labels"].tolist() == [[HIDDEN, HIDDEN, 7, HIDDEN], [HIDDEN] * 4]
    collator = DataCollatorForCompletionOnlyLM(
        [2], tokenizer=Ids(pad=None), learn_padding_token=True
    )
    batch = collator(rows)
    assert batch["labels"].tolist() == [[HIDDEN, HIDDEN, 7, 99], [HIDDEN, 99, HIDDEN, HIDDEN]]


def test_row_without_a_template_is_hidden_with_a_warning() -> None:
    collator = DataCollatorForCompletionOnlyLM([2], tokenizer=Ids())
    with pytest.warns(UserWarning, match="nothing is learned from it.*Give the templates as text"):
        batch = collator([[1, 2, 7], [1, 3, 7]])
    assert batch["labels"].tolist() == [[HIDDEN, HIDDEN, 7], [HIDDEN] * 3]


def test_template_is_found_where_it_is_tokenized_otherwise(
    tokenizer: PreTrainedTokenizerFast,
) -> None:
    template = "\n### Answer:"
    ids = tokenizer(TEXTS[2])["input_ids"]
    alone = tokenizer.encode(template, add_special_tokens=False)
    windows = [ids[at : at + len(alone)] for at in range(len(ids))]
    assert alone not in windows, "the text must be tokenized across the template's borders"
    batch = DataCollatorForCompletionOnlyLM(template, tokenizer=tokenizer)([ids])
    assert batch["labels"][0].tolist() == by_offsets(tokenizer, TEXTS[2], template)
    assert (batch["labels"] != HIDDEN).any()


def test_every_turn_is_learned_however_its_template_is_tokenized(
    tokenizer: PreTrainedTokenizerFast,
) -> None:
    ids = tokenizer(TEXTS[0])["input_ids"]
    templates = ("\n### Assistant:", "### Human:")
    labels = DataCollatorForCompletionOnlyLM(*templates, tokenizer=tokenizer)([ids])["labels"]
    assert labels[0].tolist() == by_offsets(tokenizer, TEXTS[0], *templates)
    runs = (labels[0] != HIDDEN).int().diff() == 1
    assert int(runs.sum()) == 2, "both turns are learned"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"tokenizer": None}, "needs a tokenizer"),
        ({"mlm": True}, "mlm must be False"),
        ({"return_tensors": "np"}, "return_tensors"),
        ({"response_template": []}, "response_template must be text or a flat list"),
    ],
)
def test_mistakes_are_named(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        DataCollatorForCompletionOnlyLM(**{"response_template": [2], "tokenizer": Ids(), **given})


def test_packed_rows_are_refused() -> None:
    collator = DataCollatorForCompletionOnlyLM([2], tokenizer=Ids())
    with pytest.raises(ValueError, match="2 packed sequences"):
        collator([{"input_ids": [1, 2, 3, 4], "seq_lengths": [2, 2]}])


def test_no_token_to_pad_with() -> None:
    tokenizer = Ids(pad=None)
    tokenizer.eos_token_id = None  # type: ignore[assignment]
    with pytest.raises(ValueError, match=r"set tokenizer\.pad_token"):
        DataCollatorForCompletionOnlyLM([2], tokenizer=tokenizer)([[1, 2, 3]])


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore:.*pin_memory.*:UserWarning")
def test_sft_trainer_learns_the_responses(
    tokenizer: PreTrainedTokenizerFast, tmp_path: Path
) -> None:
    datasets = pytest.importorskip("datasets")
    trl = pytest.importorskip("trl")
    texts = [f"### Human: what {n}?\n### Assistant: it is {n}." for n in ("a", "bb", "c c", "dd")]
    seen: list[dict[str, Any]] = []

    class Watching(DataCollatorForCompletionOnlyLM):
        def __call__(self, rows: Any) -> dict[str, Any]:
            batch = super().__call__(rows)
            seen.append(batch)
            return batch

    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
    )
    template = "\n### Assistant:"
    torch.manual_seed(0)
    trainer = trl.SFTTrainer(
        LlamaForCausalLM(config),
        args=trl.SFTConfig(
            str(tmp_path),
            max_steps=3,
            per_device_train_batch_size=2,
            use_cpu=True,
            bf16=False,
            report_to="none",
            save_strategy="no",
            logging_steps=1,
            dataset_num_proc=None,
        ),
        train_dataset=datasets.Dataset.from_dict({"text": texts}),
        processing_class=tokenizer,
        data_collator=Watching(template, tokenizer=tokenizer),
    )
    before = trainer.model.lm_head.weight.detach().clone()
    trainer.train()

    assert trainer.state.global_step == 3
    assert not torch.equal(before, trainer.model.lm_head.weight)
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    assert len(losses) == 3
    assert all(0 < loss < 20 for loss in losses)
    assert len(seen) >= 3
    for batch in seen:
        for ids, labels in zip(batch["input_ids"], batch["labels"], strict=True):
            text = tokenizer.decode(ids[ids != tokenizer.pad_token_id])
            assert text.endswith("<eos>")
            expected = by_offsets(tokenizer, text, template)
            assert labels.tolist() == expected + [HIDDEN] * (len(ids) - len(expected))
