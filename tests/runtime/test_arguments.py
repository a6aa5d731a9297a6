"""Options put into arguments of either class: what was said stays said."""

from __future__ import annotations

from pathlib import Path

import pytest
from memlint_runtime import extend_arguments
from transformers import TrainingArguments

trl = pytest.importorskip("trl")

# TRL's own default is what transformers warns about.
pytestmark = pytest.mark.filterwarnings("ignore:`gradient_checkpointing` is deprecated")


def test_plain_arguments_become_the_trainers_own(tmp_path: Path) -> None:
    plain = TrainingArguments(
        str(tmp_path), learning_rate=3e-4, use_cpu=True, report_to="none", hub_token="secret"
    )
    own = extend_arguments(plain, trl.SFTConfig, max_length=77, packing=True)
    assert type(own) is trl.SFTConfig
    assert (own.max_length, own.packing, own.learning_rate) == (77, True, 3e-4)
    assert own.hub_token == "secret"
    assert own.output_dir == str(tmp_path)


def test_own_arguments_are_kept_and_changed(tmp_path: Path) -> None:
    own = trl.SFTConfig(str(tmp_path), max_length=5, use_cpu=True, bf16=False, report_to="none")
    same = extend_arguments(own, trl.SFTConfig, max_length=None, dataset_text_field="body")
    assert same is own
    assert (own.max_length, own.dataset_text_field) == (5, "body")


def test_no_arguments_are_the_defaults(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    made = extend_arguments(None, trl.SFTConfig, max_length=9, use_cpu=True, bf16=False)
    assert type(made) is trl.SFTConfig
    assert made.max_length == 9


def test_mistakes_are_named(tmp_path: Path) -> None:
    other = trl.DPOConfig(str(tmp_path), use_cpu=True, bf16=False, report_to="none")
    with pytest.raises(ValueError, match="SFTConfig has no max_seq_length"):
        extend_arguments(None, trl.SFTConfig, max_seq_length=9)
    with pytest.raises(ValueError, match="got DPOConfig, which has"):
        extend_arguments(other, trl.SFTConfig, max_length=9)
    with pytest.raises(ValueError, match="plain TrainingArguments, got 'out'"):
        extend_arguments("out", trl.SFTConfig, max_length=9)
