"""Shared against repeated prompts: log-probabilities, entropies and every gradient, in float32."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import torch
from memlint_runtime import shared_prompt_logprobs
from memlint_runtime.shared_prompt import Sharing, probe
from peft import LoraConfig, get_peft_model
from torch import nn
from transformers import (
    AutoModelForCausalLM,
    Qwen2MoeConfig,
)

from tests.runtime.shared_prompt.comparing import ALL, compare, weights_like
from tests.runtime.shared_prompt.models import (
    CONFIGS,
    MOE,
    batch,
    checkpoint,
    gradients,
    relative_error,
    repeated,
    tiny,
)

# peft asks transformers for checkpointing by a name that the newest transformers deprecates.
pytestmark = pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing.*:FutureWarning")


@pytest.mark.draws
@pytest.mark.parametrize("checkpointing", [False, True])
@pytest.mark.parametrize("name", CONFIGS)
def test_equal_to_the_repeated_prompt(name: str, checkpointing: bool) -> None:
    compare(tiny(name, checkpointing=checkpointing), batch([3, 2, 1]))


@pytest.mark.parametrize("checkpointing", [False, True])
def test_attention_sinks_with_lora_and_in_two_phases(checkpointing: bool) -> None:
    model = tiny("gpt-oss", checkpointing=checkpointing)
    compare(model, batch([5], prompt=20), Sharing(token_budget=20, min_saved_tokens=1))
    adapter = LoraConfig(r=4, target_modules=["q_proj", "v_proj"], init_lora_weights=False)
    peft = get_peft_model(model, adapter)
    for name, parameter in peft.named_parameters():
        parameter.requires_grad_("lora_" in name or name.endswith("sinks"))
    for budget in (None, 20):
        compare(peft, batch([5], prompt=20), Sharing(token_budget=budget, min_saved_tokens=1))


def test_sinks_of_another_shape_are_refused() -> None:
    model: Any = tiny("gpt-oss")
    for layer in model.model.layers:
        layer.self_attn.sinks = nn.Parameter(torch.zeros(1, 4, 1, 1))
    with pytest.raises(ValueError, match=r"sinks of shape \(1, 4, 1, 1\)"):
        shared_prompt_logprobs(model, *batch([2]))


@pytest.mark.parametrize("group", [1, 2, 4, 8, 16])
def test_groups_of_any_size(group: int) -> None:
    compare(tiny("qwen2"), batch([group]))


@pytest.mark.parametrize("name", MOE)
def test_router_loss_counts_what_the_repeated_batch_counts(name: str) -> None:
    compare(tiny(name), batch([4, 2]), aux=True)


def test_router_loss_over_several_passes_is_the_batch_s() -> None:
    compare(
        tiny("mixtral"), batch([4, 2, 3]), Sharing(token_budget=40, min_saved_tokens=1), aux=True
    )


def test_padding_on_either_side_is_no_padding() -> None:
    model = tiny("llama")
    compare(model, batch([2, 3]), temperature=0.7)
    left, right = (
        shared_prompt_logprobs(model, *batch([2, 3], side=side)) for side in ("left", "right")
    )
    assert torch.equal(left, right)


def test_reentrant_checkpointing() -> None:
    model = tiny("llama")
    checkpoint(model, reentrant=True)
    model.enable_input_require_grads()
    compare(model, batch([3, 2]))


@pytest.mark.parametrize("checkpointing", [False, True])
@pytest.mark.parametrize("head", [[], ["lm_head"]])
def test_lora(head: list[str], checkpointing: bool) -> None:
    model = tiny("qwen3", checkpointing=checkpointing)
    targets = ["q_proj", "v_proj", "up_proj", *head]
    peft = get_peft_model(model, LoraConfig(r=4, target_modules=targets))
    for name, parameter in peft.named_parameters():
        if "lora_B" in name:
            nn.init.normal_(parameter, 0.0, 0.3)
    if checkpointing:
        peft.enable_input_require_grads()
    compare(peft, batch([3, 2, 1]))


@pytest.mark.parametrize("name", ["llama", "gemma2"])
def test_trees_of_depth_three_and_more(name: str) -> None:
    """A system prompt, two tasks under it, completions that begin alike."""
    system, width = [5] * 3 + list(range(10, 21)), 24
    prompts = [system + [30 + t] * (3 + t) for t in range(2) for _ in range(3)]
    ends = [[40, 41, 42, 43, 50 + c, 51, 52][: 5 + c] for _ in range(2) for c in range(3)]
    prompt_ids = torch.tensor([[0] * (width - len(p)) + p for p in prompts])
    completion_ids = torch.tensor([e + [0] * (8 - len(e)) for e in ends])
    inputs = (prompt_ids, (prompt_ids > 0).long(), completion_ids, (completion_ids > 0).long())
    model = tiny(name)
    compare(model, inputs)
    compare(model, inputs, Sharing(min_saved_tokens=10))


@pytest.mark.parametrize("attention", ["joined", "blockwise", "dense"])
def test_every_attention_path_by_force(attention: str) -> None:
    compare(tiny("llama"), batch([3, 2]), Sharing(attention=attention, min_saved_tokens=1))  # type: ignore[arg-type]


def test_several_rows_by_budget() -> None:
    model, inputs = tiny("llama"), batch([2, 3, 1, 4])
    compare(model, inputs, Sharing(token_budget=45, min_saved_tokens=1))


def test_mask_that_drops_a_whole_completion() -> None:
    inputs = batch([3, 2])
    inputs[3][1] = 0
    inputs[3][3:] = 0
    compare(tiny("llama"), inputs)


def test_nothing_to_score_gives_zero_gradients_not_none() -> None:
    model, inputs = tiny("llama"), batch([3])
    inputs[3].zero_()
    logprobs = shared_prompt_logprobs(model, *inputs)
    grads = gradients(logprobs.sum(), model)
    assert grads.keys() == {name for name, _ in model.named_parameters()}
    assert all(float(g.abs().max()) == 0 for g in grads.values())


@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
def test_model_is_as_before(implementation: str) -> None:
    model, inputs = tiny("qwen2", implementation=implementation), batch([2, 2])
    ids, mask = inputs[0], inputs[1]
    model.eval()
    with torch.no_grad():
        before = model(input_ids=ids, attention_mask=mask).logits
        shared_prompt_logprobs(model, *inputs)
        after = model(input_ids=ids, attention_mask=mask).logits
    assert torch.equal(before, after)
    assert model.config._attn_implementation == implementation
    assert "forward" not in vars(model)


def test_setting_goes_back_after_checkpointed_backward() -> None:
    model, inputs = tiny("qwen2", checkpointing=True, implementation="sdpa"), batch([2, 2])
    shared_prompt_logprobs(model, *inputs).sum().backward()
    assert model.config._attn_implementation == "sdpa"
    assert model.model._shared_prompt_switch.displaced == []


def test_bf16_errs_no_more_than_the_repeated_prompt() -> None:
    inputs = batch([4, 4])
    exact = repeated(tiny("llama"), *inputs)[0]
    model = tiny("llama").bfloat16()
    plain = (repeated(model, *inputs)[0] - exact).norm()
    ours = (shared_prompt_logprobs(model, *inputs, sharing=ALL) - exact).norm()
    assert ours < 1.5 * plain


@pytest.mark.parametrize("sharing", [ALL, Sharing(token_budget=24, min_saved_tokens=1)])
@pytest.mark.parametrize("name", ["llama", "qwen3", "gemma2"])
def test_autocast_errs_no_more_than_the_repeated_prompt(name: str, sharing: Sharing) -> None:
    """Master weights in float32, whose norms leave queries and keys in float32."""
    inputs = batch([4, 3] * 4)  # one token rounds as it likes
    model = tiny(name, checkpointing=True)
    exact = repeated(model, *inputs)[0]
    weigh = weights_like(exact)
    wanted = gradients((exact * weigh).sum(), model)
    with torch.autocast("cpu", torch.bfloat16):
        theirs = repeated(model, *inputs)[0]
        ours = shared_prompt_logprobs(model, *inputs, sharing=sharing)
    assert (ours - exact).norm() < 1.5 * (theirs - exact).norm()
    plain = gradients((theirs * weigh).sum(), model)
    found = gradients((ours * weigh).sum(), model)
    distance = {
        which: sum(float((grads[n] - wanted[n]).square().sum()) for n in wanted)
        for which, grads in (("plain", plain), ("ours", found))
    }
    assert distance["ours"] < 2.25 * distance["plain"]


def test_scaled_loss_scales_gradients() -> None:
    model, inputs = tiny("llama"), batch([3])
    plain = gradients(shared_prompt_logprobs(model, *inputs, sharing=ALL).sum(), model)
    scaled = gradients(shared_prompt_logprobs(model, *inputs, sharing=ALL).sum() * 1024, model)
    assert relative_error(scaled, {n: g * 1024 for n, g in plain.items()}) < 1e-6


def moe_with_a_window_in_its_mask(window: int) -> Any:
    config = Qwen2MoeConfig(
        vocab_size=64, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, intermediate_size=32, moe_intermediate_size=16,
        shared_expert_intermediate_size=16, num_experts=4, num_experts_per_tok=2, pad_token_id=0,
        sliding_window=window, use_sliding_window=True, layer_types=["sliding_attention"] * 2,
    )  # fmt: skip
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager")
    for parameter in model.parameters():
        nn.init.normal_(parameter, 0.0, 0.3 if parameter.dim() > 1 else 0.1)
    return model.train()


def test_windows_in_the_mask_alone() -> None:
    inputs = batch([3, 2], prompt=14, completion=9)
    compare(moe_with_a_window_in_its_mask(23), inputs)
    model = moe_with_a_window_in_its_mask(12)
    assert probe.window_not_told(model) == 12
    assert model.config.sliding_window == 12
    with pytest.raises(ValueError, match="sliding window of 12 tokens in its mask alone"):
        shared_prompt_logprobs(model, *inputs)
    for told in ("mistral with window", "gemma2", "gemma3"):
        assert probe.window_not_told(tiny(told)) is None


def test_choice_and_rho_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    model, inputs = tiny("llama"), batch([4])
    with caplog.at_level(logging.INFO, "memlint_runtime.shared_prompt"):
        shared_prompt_logprobs(model, *inputs, sharing=ALL)
        shared_prompt_logprobs(model, *inputs, sharing=ALL)
    (told,) = caplog.messages
    assert "attention joined" in told
    assert "rho" in told


def test_a_budget_that_is_not_kept_is_announced_once(caplog: pytest.LogCaptureFixture) -> None:
    model, inputs = tiny("mixtral"), batch([5], prompt=20)
    sharing = Sharing(token_budget=20, min_saved_tokens=1)
    with caplog.at_level(logging.WARNING, "memlint_runtime.shared_prompt"):
        for _ in range(2):
            shared_prompt_logprobs(model, *inputs, sharing=sharing)
        assert not caplog.messages
        for _ in range(2):
            shared_prompt_logprobs(model, *inputs, sharing=sharing, aux_loss=True)
    (told,) = caplog.messages
    assert "is forwarded whole, over token_budget=20" in told


def test_phases_are_left_out_where_gradients_must_come_in_one_order(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """As under ZeRO-2, where one process in phases and one whole would add up other gradients."""
    model, inputs = tiny("llama"), batch([5], prompt=20)
    for place, parameter in enumerate(model.parameters()):
        parameter.param_idx_in_group = place
    with caplog.at_level(logging.INFO, "memlint_runtime.shared_prompt"):
        compare(model, inputs, Sharing(token_budget=20, min_saved_tokens=1))
    assert "is forwarded whole, over token_budget=20" in caplog.messages[0]
    assert "DeepSpeed's ZeRO reduces gradients" in caplog.messages[0]


def test_completions_of_no_tokens_have_no_scores() -> None:
    prompts, ends = torch.tensor([[3, 4], [3, 4]]), torch.zeros(2, 0, dtype=torch.long)
    scores = shared_prompt_logprobs(
        tiny("llama"), prompts, torch.ones_like(prompts), ends, torch.ones_like(ends)
    )
    assert scores.shape == (2, 0)
