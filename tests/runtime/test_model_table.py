"""The table of model types: complete, nothing silently wrong, and still what comes out."""

from __future__ import annotations

import pytest
import transformers

from tests.runtime import model_table

TABLE = model_table.read_table()


def test_every_type_was_tried() -> None:
    if transformers.__version__.startswith("5.23."):
        assert TABLE.keys() == set(model_table.types())


def test_nothing_is_wrong_without_a_word() -> None:
    wrong = {
        (model_type, feature): verdict
        for model_type, verdicts in TABLE.items()
        for feature, verdict in verdicts.items()
        if not verdict.startswith(("exact", "refused: ", "unknown: "))
    }
    assert not wrong
    for feature in model_table.FEATURES:
        assert sum(verdicts[feature] == "exact" for verdicts in TABLE.values()) > 60


def test_the_page_shows_the_table() -> None:
    """`python -m tests.runtime.model_table --page` writes it."""
    assert model_table.PAGE.read_text(encoding="utf-8") == model_table.page(TABLE)


def test_types_are_tried_with_every_feature() -> None:
    tried = [row for row in TABLE.values() if not model_table._unknown(row)]
    assert len(tried) >= 190
    for kind in ("qwen3_next", "qwen3_5_text"):
        # Their linear-attention layers carry a state along the row.
        assert "carry a state" in TABLE[kind]["packing"]
        assert "state cannot fork" in TABLE[kind]["shared_prompt"]


@pytest.mark.parametrize("model_type", ["llama", "gemma2", "gpt2", "mamba", "opt", "gpt_oss"])
@pytest.mark.filterwarnings("ignore")
def test_a_few_again(model_type: str) -> None:
    found = model_table.verdicts(model_type)
    assert {name: text.split(":")[0] for name, text in found.items()} == {
        name: text.split(":")[0] for name, text in TABLE[model_type].items()
    }
