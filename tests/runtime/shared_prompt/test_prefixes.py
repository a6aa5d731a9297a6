"""Rows that begin alike, at any depth: values and gradients of the plain pass over all of them."""

from __future__ import annotations

import pytest
import torch
from memlint_runtime import shared_prefix_logprobs
from memlint_runtime.integrations import modes
from memlint_runtime.shared_prompt import Sharing
from torch import Tensor

from tests.runtime.shared_prompt.models import VOCABULARY, gradients, relative_error, tiny


def conversations(left: bool = False) -> tuple[Tensor, Tensor]:
    """Rows of three levels, one that is the beginning of another, a lone one, and an empty one."""
    draw = torch.Generator().manual_seed(3)

    def turn(length: int) -> list[int]:
        return torch.randint(3, VOCABULARY, (length,), generator=draw).tolist()

    system, first, second = turn(24), turn(20), turn(21)
    rows = [
        *(system + first + turn(n) for n in (9, 4)),
        *(system + second + turn(n) for n in (6, 11)),
        system + first,
        turn(30),
        [],
    ]
    width = max(map(len, rows))
    ids, mask = torch.zeros(2, len(rows), width, dtype=torch.long)
    for at, row in enumerate(rows):
        place = slice(width - len(row), None) if left else slice(len(row))
        ids[at, place], mask[at, place] = torch.tensor(row, dtype=torch.long), 1
    return ids, mask


def plain(model: torch.nn.Module, ids: Tensor, mask: Tensor, scored: Tensor) -> Tensor:
    """Row by row, without padding."""
    result = torch.zeros(ids.shape)
    for row in range(len(ids)):
        places = mask[row].nonzero()[:, 0]
        if len(places) > 1:
            tokens = ids[row, places]
            logits = model(input_ids=tokens[None], use_cache=False).logits[0, :-1].float()
            found = logits.log_softmax(-1).gather(1, tokens[1:, None])[:, 0]
            wanted = torch.zeros(ids.shape[1]).index_put((places[1:],), found)
            result = (
                result + torch.nn.functional.one_hot(torch.tensor(row), len(ids))[:, None] * wanted
            )
    return result * scored


@pytest.mark.draws(4)
@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("chosen", [False, True])
@pytest.mark.parametrize("family", ["llama", "gemma2", "qwen3", "mixtral"])
def test_values_and_gradients_are_those_of_all_rows(family: str, chosen: bool, left: bool) -> None:
    ids, mask = conversations(left)
    every = mask.bool() & (mask.cumsum(1) > 1)
    scored = every & (torch.arange(ids.shape[1]) % 3 > 0) if chosen else every
    model = tiny(family)
    weigh = torch.randn(ids.shape, generator=torch.Generator().manual_seed(1))
    wanted = plain(model, ids, mask, scored)
    expected = gradients((wanted * weigh).sum(), model)
    found = shared_prefix_logprobs(model, ids, mask, scored=scored if chosen else None)
    torch.testing.assert_close(found, wanted, atol=3e-5, rtol=0)
    assert relative_error(gradients((found * weigh).sum(), model), expected) < 1e-4


def test_what_rows_have_in_common_is_forwarded_once() -> None:
    model = tiny("llama")
    seen: list[int] = []
    model.base_model.register_forward_pre_hook(
        lambda module, args, kwargs: seen.append(kwargs["input_ids"].shape[1]), with_kwargs=True
    )
    ids, mask = conversations()
    shared_prefix_logprobs(model, ids, mask)  # looks at the model first
    seen.clear()
    shared_prefix_logprobs(model, ids, mask)
    # The system's turn, both second ones, and what follows, less the last token of each leaf. A row
    # ends with one of the second, whose last token therefore goes with each of the others.
    assert seen == [24 + 19 + 21 + (1 + 8 + 1 + 3) + (5 + 10) + 29]


@pytest.mark.parametrize("budget", [40, 70, 1000])
def test_a_budget_changes_nothing(budget: int) -> None:
    model = tiny("llama", checkpointing=True)
    ids, mask = conversations()
    scored = mask.bool() & (mask.cumsum(1) > 44)
    wanted = plain(model, ids, mask, scored)
    sharing = Sharing(token_budget=budget)
    found = shared_prefix_logprobs(model, ids, mask, scored=scored, sharing=sharing)
    torch.testing.assert_close(found, wanted, atol=3e-5, rtol=0)
    expected = gradients(wanted.sum(), model)
    assert relative_error(gradients(found.sum(), model), expected) < 1e-4


def test_rows_without_a_mask_have_no_padding() -> None:
    model = tiny("llama")
    ids = conversations()[0]
    whole = torch.ones_like(ids)
    torch.testing.assert_close(
        shared_prefix_logprobs(model, ids), shared_prefix_logprobs(model, ids, whole)
    )


def test_refusals_name_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny("llama")
    ids, mask = conversations()
    with pytest.raises(ValueError, match="row 0 scores its first token"):
        shared_prefix_logprobs(model, ids, mask, scored=mask)
    with pytest.raises(ValueError, match="of one shape"):
        shared_prefix_logprobs(model, ids, mask[:, 1:])
    with pytest.raises(TypeError, match="sharing wants an object"):
        shared_prefix_logprobs(model, ids, mask, sharing=Sharing)  # type: ignore[arg-type]
    shared_prefix_logprobs(model, ids, mask)
    monkeypatch.setattr(modes, "_cuts_rows", lambda: True)
    with pytest.raises(ValueError, match="context parallelism has cut the rows"):
        shared_prefix_logprobs(model, ids, mask)
