"""The page of public names: complete, and each of its examples runs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import memlint_runtime
import pytest
import torch
from memlint_runtime import compat, cross_entropy, token_logprobs, undo
from memlint_runtime.former_names import takes_former_names

from tests.runtime.test_trainer_adapters import tiny_llama

PAGE = (Path(__file__).parents[2] / "docs" / "runtime.md").read_text(encoding="utf-8")
START, *SECTIONS = re.split(r"\n### `(\w+)`\n", PAGE)
EXAMPLES = dict(zip(SECTIONS[::2], SECTIONS[1::2], strict=True))


def code_of(text: str) -> str:
    found = re.search(r"```python\n(.*?)```", text, re.DOTALL)
    assert found is not None
    return found[1]


def test_every_public_name_has_an_example() -> None:
    assert set(EXAMPLES) == {*memlint_runtime.__all__, *compat.__all__}
    assert f"gives {len(memlint_runtime.__all__)} names" in PAGE


@pytest.mark.draws(1)
@pytest.mark.filterwarnings("ignore:.*deprecated:FutureWarning")  # trl's own defaults
@pytest.mark.parametrize("name", EXAMPLES)
def test_example_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    example = code_of(EXAMPLES[name])
    assert re.search(rf"\b{name}\b", example)
    torch.manual_seed(0)
    exec(compile(code_of(START) + example, f"{name} of the page", "exec"), {"__name__": "page"})


@pytest.mark.parametrize("name", compat.__all__)
def test_former_names_are_found_where_they_were(name: str) -> None:
    assert getattr(memlint_runtime, name) is getattr(compat, name)
    assert name not in memlint_runtime.__all__


def test_unknown_names_are_no_attributes() -> None:
    for module in (memlint_runtime, compat):
        with pytest.raises(AttributeError, match="no attribute 'nothing'"):
            module.nothing  # noqa: B018


def test_arguments_by_their_former_names() -> None:
    hidden, weight = torch.randn(5, 4), torch.randn(7, 4)
    target, bias = torch.randint(0, 7, (5,)), torch.randn(7)
    given: Any = {"hidden_TD": hidden, "weight_VD": weight, "target_T": target, "bias": bias}
    for function in (token_logprobs, cross_entropy):
        named = function(input=hidden, linear_weight=weight, target=target, linear_bias=bias)
        torch.testing.assert_close(function(**given), named)
    with pytest.raises(TypeError, match="hidden_TD is input by another name"):
        token_logprobs(input=hidden, **given)
    assert takes_former_names({"old": "new"})(lambda new: new)(old=3) == 3  # type: ignore[call-arg]


def test_a_handle_undoes_its_own_change_alone() -> None:
    model = tiny_llama()
    first, second = memlint_runtime.tile_mlp(model), memlint_runtime.fuse(model)
    undo(second)
    assert not second.active
    assert first in vars(model)["memlint_patches"]
    with pytest.raises(AttributeError, match="no attribute 'sent_bytes'"):
        second.sent_bytes  # noqa: B018
