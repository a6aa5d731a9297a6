"""What an estimate shows: what was read, what was assumed and what that is worth, the verdict."""

from __future__ import annotations

from typing import Any

import pytest

from memlint.memory import SettingsError, estimate
from memlint.reports.memory import as_text

RUN: dict[str, Any] = {"model": "Qwen/Qwen2.5-1.5B", "trainer": "trl.SFTTrainer", "micro_batch": 4}


def test_one_line_shows_what_was_read_and_marks_what_was_not() -> None:
    text = as_text(estimate({**RUN, "method": "lora", "lora": {"r": 16}}))
    (line,) = [each for each in text.splitlines() if each.startswith("read: ")]
    for part in ("trl.SFTTrainer;", "4 x 1,024? tokens", "adapters r=16 on q_proj,v_proj", "1 GPU"):
        assert part in line
    sharded = as_text(estimate({**RUN, "sharding": "zero3", "world_size": 8}))
    assert "zero3 over 8 GPUs" in sharded


def test_what_matters_most_comes_first_with_its_worth() -> None:
    result = estimate(RUN)
    peak = result.allocated.estimate
    swings = [abs(each.peak - peak) if each.peak else 0 for each in result.assumptions]
    assert swings == sorted(swings, reverse=True)
    assert swings[0] > 0.01 * peak
    first = result.assumptions[0]
    again = estimate({**RUN, first.name: first.other})
    assert again.allocated.estimate == first.peak
    assert f"{first.name}={first.other}: " in as_text(result)


def test_what_nobody_could_read_is_named_and_widens_the_interval() -> None:
    full = {**RUN, "loss": "full_logits", "seq_len": 1024}
    known, open_ = (
        estimate(full),
        estimate({**full, "notes": {"logits_copies": "a loss of its own"}}),
    )
    assert open_.allocated.estimate == known.allocated.estimate
    assert open_.allocated.high > 1.2 * known.allocated.high
    (one,) = [each for each in open_.assumptions if each.name == "logits_copies"]
    assert one.reason == "a loss of its own"
    settled = estimate({**full, "logits_copies": 4, "notes": {"logits_copies": "a loss"}})
    assert settled.allocated.estimate <= open_.allocated.high


def test_the_verdict_is_the_intervals() -> None:
    values = {**RUN, "seq_len": 2048, "gpu": "rtx4090-24gb", "weights_dtype": "bfloat16"}
    found = [estimate({**values, "micro_batch": rows}) for rows in range(1, 96, 2)]
    words = [each.to_json()["verdict"] for each in found]
    assert list(dict.fromkeys(words)) == ["fits", "tight", "does not fit"]
    for each, word in zip(found, words, strict=True):
        assert each.gpu is not None
        assert (each.allocated.high <= each.gpu.room) is (word == "fits")
        assert (each.allocated.low > each.gpu.room) is (word == "does not fit")
        assert each.fits is (word != "does not fit")


def test_pairs_are_two_rows_and_a_classifier_has_no_vocabulary() -> None:
    reward = {**RUN, "trainer": "trl.RewardTrainer", "seq_len": 1024, "checkpointing": "none",
              "weights_dtype": "bfloat16"}  # fmt: skip
    by_hand = {**reward, "trainer": "transformers.Trainer", "micro_batch": 8, "head": "classes",
               "labels": 1, "checkpointing": "none"}  # fmt: skip
    peaks = [estimate(each).allocated.estimate for each in (reward, by_hand)]
    assert peaks[0] == pytest.approx(peaks[1], rel=0.01)
    assert estimate({**by_hand, "head": "lm"}).allocated.estimate > 1.1 * peaks[1]
    with pytest.raises(SettingsError, match="head is one of"):
        estimate({**RUN, "head": "brain"})


def test_short_labels_make_a_short_decoder() -> None:
    values = {"model": "google/flan-t5-large", "micro_batch": 8, "seq_len": 1024, "method": "full"}
    long, short = (estimate({**values, "label_len": each}) for each in (1024, 128))
    assert short.allocated.estimate < 0.8 * long.allocated.estimate


def test_rows_of_one_length_reserve_little_more_than_they_allocate() -> None:
    values = {**RUN, "trainer": "transformers.Trainer", "seq_len": 512, "loss": "full_logits"}
    fixed, varying = (estimate({**values, "fixed_length": each}) for each in (True, False))
    assert fixed.allocated.estimate == varying.allocated.estimate
    assert fixed.reserved.estimate < varying.reserved.estimate


def test_logits_that_are_kept_for_metrics_count_twice() -> None:
    values = {**RUN, "trainer": "transformers.Trainer", "evaluation": True, "eval_batch": 8,
              "seq_len": 512, "weights_dtype": "bfloat16"}  # fmt: skip
    sizes = [
        next(phase.total for phase in estimate({**values, "eval_rows": rows}).phases
             if phase.name == "evaluation")
        for rows in (8, 16)
    ]  # fmt: skip
    assert sizes[1] - sizes[0] == 2 * 8 * 512 * 151936 * 4
