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
        if not verdict.startswith(("exact", "refused: ", "unknown: ", "not tried: "))
    }
    assert not wrong
    least = {"fused_loss": 180, "packing": 130, "shared_prompt": 130, "images": 20}
    for feature in model_table.FEATURES:
        exact = sum(verdicts.get(feature) == "exact" for verdicts in TABLE.values())
        assert exact >= least[feature], feature


def test_the_page_shows_the_table() -> None:
    """`python -m tests.runtime.model_table --page` writes it."""
    assert model_table.PAGE.read_text(encoding="utf-8") == model_table.page(TABLE)


def test_types_are_tried_with_every_feature() -> None:
    tried = [row for row in TABLE.values() if not model_table._unknown(row)]
    assert len(tried) >= 190
    for kind in ("qwen3_next", "qwen3_5_text", "olmo_hybrid", "bamba", "lfm2"):
        # Their layers carry a state along the row, which is handed from a prompt to each answer.
        assert (TABLE[kind]["packing"], TABLE[kind]["shared_prompt"]) == ("exact", "exact")
    for kind in ("qwen2_5_vl", "qwen3_vl", "llava"):
        assert TABLE[kind]["images"] == "exact"
    assert "both ways" in TABLE["gemma3"]["images"]


@pytest.mark.parametrize("model_type", ["llama", "gemma2", "mamba", "opt", "gpt_oss", "qwen3_vl"])
@pytest.mark.filterwarnings("ignore")
def test_a_few_again(model_type: str) -> None:
    found = model_table.verdicts(model_type)
    assert {name: text.split(":")[0] for name, text in found.items()} == {
        name: text.split(":")[0] for name, text in TABLE[model_type].items()
    }
