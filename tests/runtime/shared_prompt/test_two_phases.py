"""Groups over a token budget: a prompt and its branches in passes of their own."""

from __future__ import annotations

import gc
import weakref
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from memlint_runtime import (
    checkpoint_activations,
    offload_activations,
    shared_prompt_logprobs,
)
from memlint_runtime.fake_memory import track_memory
from memlint_runtime.offload import ActivationOffload
from memlint_runtime.shared_prompt import Sharing, two_phase
from peft import LoraConfig, get_peft_model
from torch import Tensor, nn
from torch.utils.checkpoint import noop_context_fn

from tests.runtime.shared_prompt.comparing import compare
from tests.runtime.shared_prompt.models import batch, checkpoint, gradients, tiny

# peft asks transformers for checkpointing by a name that the newest transformers deprecates.
pytestmark = pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing.*:FutureWarning")


@pytest.mark.draws
@pytest.mark.parametrize("checkpointing", [False, True])
@pytest.mark.parametrize("name", ["qwen2", "gemma2", "mistral with window", "mixtral"])
def test_two_phases_are_one(name: str, checkpointing: bool) -> None:
    """Groups of five and four over a budget that holds their prompt and about two completions."""
    model = tiny(name, checkpointing=checkpointing)
    compare(model, batch([5, 4, 1], prompt=20), Sharing(token_budget=20, min_saved_tokens=1))


def test_two_phases_with_lora() -> None:
    model = get_peft_model(tiny("qwen2"), LoraConfig(r=4, target_modules=["q_proj", "v_proj"]))
    for name, parameter in model.named_parameters():
        if "lora_B" in name:
            nn.init.normal_(parameter, 0.0, 0.3)
    compare(model, batch([5, 4]), Sharing(token_budget=16, min_saved_tokens=1))


@pytest.mark.parametrize("frozen", ["embeddings", "all but LoRA", "nothing"])
def test_two_phases_under_reentrant_checkpointing(frozen: str) -> None:
    # Reentrant checkpointing runs a layer without a graph: keys and values taken from inside it
    # gave no gradient to what lies before, and no error.
    model: Any = tiny("qwen2")
    if frozen == "embeddings":
        model.model.embed_tokens.weight.requires_grad_(False)
    checkpoint(model, reentrant=True)
    model.enable_input_require_grads()
    functions = [layer._gradient_checkpointing_func for layer in model.model.layers]
    if frozen == "all but LoRA":
        model = get_peft_model(model, LoraConfig(r=4, target_modules=["q_proj", "v_proj"]))
        for name, parameter in model.named_parameters():
            if "lora_B" in name:
                nn.init.normal_(parameter, 0.0, 0.3)
    compare(model, batch([5, 4], prompt=20), Sharing(token_budget=20, min_saved_tokens=1))
    layers = model.get_base_model().model.layers if frozen == "all but LoRA" else model.model.layers
    assert [layer._gradient_checkpointing_func for layer in layers] == functions


def test_two_phases_keep_no_branch(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first portion's activations are gone before the second is forwarded."""
    model, seen = tiny("llama"), []

    def watch(module: nn.Module, args: tuple[Tensor, ...], out: Tensor) -> None:
        seen.append((weakref.ref(out), out.shape[1]))

    model.model.layers[0].mlp.register_forward_hook(watch)
    inputs = batch([6], prompt=12, completion=12)
    scores = shared_prompt_logprobs(model, *inputs, sharing=Sharing(token_budget=24))
    assert len(seen) > 2
    assert all(made() is None for made, _ in seen[1:])
    scores.sum().backward()


def test_checkpointed_portions_are_computed_as_often_as_any_layer() -> None:
    model, lengths = tiny("llama", checkpointing=True), []
    inputs = batch([6], prompt=12, completion=12)
    shared_prompt_logprobs(model, *inputs)  # the first call looks at the model's numbers too
    model.model.layers[0].mlp.register_forward_pre_hook(lambda _, a: lengths.append(a[0].shape[1]))
    scores = shared_prompt_logprobs(model, *inputs, sharing=Sharing(token_budget=24))
    forwarded = list(lengths)
    assert len(forwarded) > 3
    scores.sum().backward()
    assert sorted(lengths) == sorted(2 * forwarded)


def test_checkpointed_portions_wait_in_host_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny("llama", checkpointing=True)
    inputs, sharing = batch([6], prompt=12, completion=12), Sharing(token_budget=24)
    wanted = gradients(shared_prompt_logprobs(model, *inputs, sharing=sharing).sum(), model)

    hosts: list[ActivationOffload] = []

    def on_host(model: nn.Module, device_type: str) -> ActivationOffload:
        hosts.append(offload_activations(device=device_type, min_bytes=0))
        return hosts[-1]

    monkeypatch.setattr(two_phase, "_waiting_on_host", on_host)
    seen: list[tuple[weakref.ref[Tensor], int]] = []
    hook = model.model.layers[1].register_forward_pre_hook(
        lambda _, args: seen.append((weakref.ref(args[0]), args[0].shape[1])), prepend=True
    )
    scores = shared_prompt_logprobs(model, *inputs, sharing=sharing)
    hook.remove()
    assert len(seen) > 3
    # The first is the prompt's.
    assert [made() is None for made, _ in seen] == [False] + [True] * (len(seen) - 1)
    layers_inputs = sum(tokens for _, tokens in seen[1:]) * 2 * model.config.hidden_size * 4
    assert len(hosts) == 1
    assert hosts[0].sent_bytes >= layers_inputs
    found = gradients(scores.sum(), model)
    assert all(torch.equal(found[name], grad) for name, grad in wanted.items())


@pytest.mark.parametrize("how", ["keep_attention", "context_fn", "every second layer"])
def test_portions_that_keep_more_than_inputs_are_forwarded_again(how: str) -> None:
    """Hooks cannot move to the host what a selective policy keeps of a layer."""
    model: Any = tiny("llama", implementation="sdpa")
    if how == "keep_attention":
        checkpoint_activations(model, keep_attention=True)
    elif how == "context_fn":
        checkpoint(model, context_fn=noop_context_fn)
    else:
        checkpoint_activations(model, every=2)
    model.train()
    inputs, sharing = batch([6], prompt=12, completion=12), Sharing(token_budget=24)
    shared_prompt_logprobs(model, *inputs)  # the first call looks at the model's numbers too
    lengths: list[int] = []
    hook = model.model.register_forward_pre_hook(
        lambda _, args, given: lengths.append(given["input_ids"].shape[1]), with_kwargs=True
    )
    scores = shared_prompt_logprobs(model, *inputs, sharing=sharing)
    _, *portions, _ = forwarded = list(lengths)  # the prompt; the last portion keeps its graph
    assert len(portions) > 1
    scores.sum().backward()
    hook.remove()
    assert sorted(lengths) == sorted([*forwarded, *portions])
    compare(model, inputs, sharing)


def test_a_model_s_host_memory_goes_with_it() -> None:
    model = tiny("llama")
    host = two_phase._waiting_on_host(model, "cuda")
    assert two_phase._waiting_on_host(model, "cuda") is host
    assert model in two_phase._HOSTS
    gone = weakref.ref(model)
    del model
    gc.collect()
    assert gone() is None
    assert isinstance(two_phase._waiting_on_host(tiny("llama"), "cpu"), nullcontext)


def test_portions_fill_the_budget() -> None:
    """What a row's last token would take is not set aside, since it is not forwarded."""
    model, lengths = tiny("llama"), []
    shared_prompt_logprobs(model, *batch([2]))  # the first call looks at the model's numbers too
    model.model.layers[0].mlp.register_forward_hook(lambda *a: lengths.append(a[2].shape[1]))
    prompts = torch.arange(3, 15).repeat(6, 1)
    ends = torch.arange(72).view(6, 12) % 50 + 3
    inputs = (prompts, torch.ones_like(prompts), ends, torch.ones_like(ends))
    shared_prompt_logprobs(model, *inputs, sharing=Sharing(token_budget=24))
    assert lengths == [11, 24, 24, 24]  # the last prompt token goes with each completion


def test_two_phases_hold_a_portion_of_the_activations() -> None:
    model, inputs = tiny("llama"), batch([24], prompt=30, completion=40)
    shared_prompt_logprobs(model, *inputs)
    peaks = {}
    for budget in (None, 120):
        model.zero_grad(set_to_none=True)
        with track_memory(model) as tracker:
            sharing = Sharing(token_budget=budget)
            shared_prompt_logprobs(model, *inputs, sharing=sharing).sum().backward()
        peaks[budget] = tracker.peak.activations
    assert peaks[120] < 0.35 * peaks[None]
