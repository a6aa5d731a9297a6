"""Shared prompts where nothing is allocated: trees are read from the values that fakes keep."""

from __future__ import annotations

import pytest
import torch
from memlint_runtime import Sharing, measure_memory, shared_prompt_logprobs
from memlint_runtime.fake_numbers import FakesWithNumbers, numbers_of
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from transformers import LlamaConfig, LlamaForCausalLM

GROUPS, COMPLETIONS, PROMPT, COMPLETION = 2, 4, 120, 16


def rows(*, alike: bool = True) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Prompts and completions with masks; some prompts and one completion are padded."""
    torch.manual_seed(5)
    count = GROUPS * COMPLETIONS
    prompts = torch.randint(3, 97, (GROUPS if alike else count, PROMPT))
    prompts = prompts.repeat_interleave(COMPLETIONS, 0) if alike else prompts
    completions = torch.randint(3, 97, (count, COMPLETION))
    prompt_mask, completion_mask = torch.ones_like(prompts), torch.ones_like(completions)
    prompt_mask[:COMPLETIONS, :7] = 0
    completion_mask[3, 10:] = 0
    return prompts, prompt_mask, completions, completion_mask


def peak_of_step(*, fake: bool, alike: bool = True, budget: int | None = None) -> int:
    """Bytes at the peak of a second step; the first has looked at the model."""
    config = LlamaConfig(
        vocab_size=997, hidden_size=64, intermediate_size=128, num_hidden_layers=3,
        num_attention_heads=4, num_key_value_heads=2,
    )  # fmt: skip
    with measure_memory(fake=fake) as measured:
        model = LlamaForCausalLM(config).train()
        for name in ("first", "second"):
            with measured.phase(name):
                sharing = Sharing(token_budget=budget)
                shared_prompt_logprobs(model, *rows(alike=alike), sharing=sharing).sum().backward()
            model.zero_grad(set_to_none=True)
    peaks = {phase.name: phase.counted.total for phase in measured.report.phases}
    return peaks["second"]


@pytest.mark.parametrize("budget", [None, 100])
def test_fakes_take_what_a_real_step_takes(budget: int | None) -> None:
    expected = peak_of_step(fake=False, budget=budget)
    assert peak_of_step(fake=True, budget=budget) == pytest.approx(expected, rel=0.03)


def test_prompts_that_differ_are_counted_as_they_are() -> None:
    assert peak_of_step(fake=True, alike=False) > 2 * peak_of_step(fake=True)


def test_whole_numbers_keep_their_values() -> None:
    def computed() -> Tensor:
        torch.manual_seed(3)
        ids = torch.randint(0, 50, (4, 9))
        ids[1, 2:5] = 7
        mask = (ids % 3 == 0) & (torch.arange(9) > 2)
        return torch.cat([ids.masked_fill(mask, 0), mask.long().cumsum(1)], 1)

    with FakesWithNumbers():
        kept = numbers_of(computed())
    assert (kept == computed().numpy()).all()


def test_fakes_without_values_are_refused() -> None:
    with FakeTensorMode():
        model = LlamaForCausalLM(LlamaConfig(
            vocab_size=97, hidden_size=16, intermediate_size=16, num_hidden_layers=1,
            num_attention_heads=2, num_key_value_heads=2,
        ))  # fmt: skip
        ids = torch.randint(3, 97, (4, 30))
        with pytest.raises(ValueError, match=r"these fakes have no values: make ids and masks"):
            shared_prompt_logprobs(model, ids, torch.ones_like(ids), ids, torch.ones_like(ids))
