"""The table of model types: complete, nothing silently wrong, and still what comes out."""

from __future__ import annotations

import pytest
import torch
import transformers
from torch import nn

from tests.runtime import model_table, model_trials
from tests.runtime.model_trials import DOCUMENTS, Errors, Outcome, errors_between
from tests.runtime.tiny_models import tiny

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
    least = {"fused_loss": 185, "packing": 140, "shared_prompt": 140, "images": 24}
    for feature in model_table.TRIALS:
        exact = sum(verdicts.get(feature, "").startswith("exact") for verdicts in TABLE.values())
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
    assert {name: verdict.text.split(":")[0] for name, verdict in found.items()} == {
        name: text.split(":")[0] for name, text in TABLE[model_type].items()
    }


@pytest.mark.parametrize(
    ("in_float32", "in_float64", "verdict"),
    [
        ([1e-6] * 30, None, "exact"),
        # One token of 30, as the first of a completion is, or a document of one token.
        ([1e-6] * 29 + [1e-3], [1e-12] * 29 + [1e-3], "differs"),
        ([1e-6] * 29 + [float("nan")], [1e-12] * 29 + [float("nan")], "differs"),
        ([1e-6] * 29 + [1e-3], [1e-12] * 30, "exact: in float64"),
        # Rounding that shows in many tokens is no tie of a router.
        ([1e-6] * 20 + [1e-3] * 10, [1e-12] * 30, "differs"),
    ],
)
def test_a_single_token_decides(
    in_float32: list[float],
    in_float64: list[float] | None,
    verdict: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def trial(model: nn.Linear) -> Errors:
        errors = in_float32 if model.weight.dtype == torch.float32 else in_float64
        assert errors is not None
        return Errors(torch.tensor(errors), {"weight": 0.0})

    monkeypatch.setitem(model_table.TRIALS, "packing", trial)
    text = model_table._verdict(nn.Linear(2, 2), "packing").text
    assert text == verdict or text.startswith(verdict + (":" if verdict == "differs" else ";"))


def test_a_single_gradient_decides() -> None:
    values = torch.ones(3, 1)
    grads = {"a": torch.ones(100), "b": torch.ones(2), "zero": torch.zeros(2)}
    wrong = grads | {"b": torch.tensor([1.0, 1.01])}
    same = errors_between(Outcome(values, grads), Outcome(values, grads))
    assert same.within(0.0)
    # The norm over all parameters is off by a thousandth only.
    assert errors_between(Outcome(values, wrong), Outcome(values, grads)).worst_gradient > 5e-3
    del wrong["b"]
    assert errors_between(Outcome(values, wrong), Outcome(values, grads)).worst_gradient == 1.0


@pytest.mark.filterwarnings("ignore")
def test_a_state_that_leaks_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is done to a model whose layers carry a state on into the next document."""
    assert len(set(DOCUMENTS)) == len(DOCUMENTS) >= 3
    assert sum(DOCUMENTS[1:]) > 2 * DOCUMENTS[0]
    monkeypatch.setattr(model_trials, "use_variable_length_attention", lambda model: None)
    errors = model_trials.packing(tiny("mamba"))
    first, second = errors.tokens[: DOCUMENTS[0]], errors.tokens[DOCUMENTS[0] :][: DOCUMENTS[1]]
    assert float(first.max()) < 1e-5 < 1e-3 < float(second.min())
    assert not errors.within(1e-3)
