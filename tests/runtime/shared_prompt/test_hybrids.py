"""Layers that carry a state along the row: each completion begins with its prompt's, in float32."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from memlint_runtime import shared_prompt_logprobs, undo, use_variable_length_attention
from memlint_runtime.recurrent import find_state_layers, finding
from memlint_runtime.recurrent.running import SegmentedForward
from memlint_runtime.shared_prompt import Sharing
from memlint_runtime.shared_prompt.logprobs import reason_against
from peft import LoraConfig, get_peft_model
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM, MambaConfig, PreTrainedModel

from tests.runtime.attention.models import HYBRIDS
from tests.runtime.shared_prompt.comparing import ALL, compare
from tests.runtime.shared_prompt.models import VOCABULARY, batch, checkpoint
from tests.runtime.shared_prompt.test_trainers import (
    DPOConfig,
    DPOTrainer,
    GRPOConfig,
    GRPOTrainer,
    TrlDPOTrainer,
    TrlGRPOTrainer,
    side_by_side,
    trained,
)
from tests.runtime.shared_prompt.training import saved

pytestmark = pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing.*:FutureWarning")

TWO_PHASES = Sharing(token_budget=20, min_saved_tokens=1)


def tiny(name: str, *, checkpointing: bool = False) -> PreTrainedModel:
    """Three layers, the last with a state again, and weights that let the plain pass be exact."""
    settings: dict[str, Any] = {**HYBRIDS[name], "vocab_size": VOCABULARY, "num_hidden_layers": 3}
    if "layer_types" in settings:
        settings["layer_types"] = [*settings["layer_types"], settings["layer_types"][0]]
    torch.manual_seed(0)
    config = AutoConfig.for_model(name, **settings)
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager")
    for parameter in model.parameters():
        nn.init.normal_(parameter, 0.0, 0.15 if parameter.dim() > 1 else 0.1)
    if checkpointing:
        checkpoint(model)
    return model.float().train()


@pytest.mark.draws
@pytest.mark.parametrize("checkpointing", [False, True])
@pytest.mark.parametrize("name", HYBRIDS)
def test_equal_to_the_repeated_prompt(name: str, checkpointing: bool) -> None:
    model = tiny(name, checkpointing=checkpointing)
    compare(model, batch([3, 2, 1]))
    # Shorter than the convolution sees; and completions of a single token.
    compare(model, batch([3, 4], prompt=2, completion=2))


@pytest.mark.draws
@pytest.mark.parametrize("checkpointing", [False, True])
@pytest.mark.parametrize("name", sorted(HYBRIDS.keys() & {"qwen3_5_text", "bamba", "lfm2"}))
def test_two_phases_are_one(name: str, checkpointing: bool) -> None:
    model = tiny(name, checkpointing=checkpointing)
    compare(model, batch([5, 4], prompt=20), TWO_PHASES)
    compare(model, batch([3], prompt=3, completion=30), TWO_PHASES)


def test_reentrant_checkpointing() -> None:
    model = tiny("qwen3_5_text")
    checkpoint(model, reentrant=True)
    model.enable_input_require_grads()
    compare(model, batch([3, 2]))
    compare(model, batch([5], prompt=20), TWO_PHASES)


@pytest.mark.parametrize("name", sorted(HYBRIDS.keys() & {"qwen3_5_text", "bamba", "lfm2"}))
def test_trees_of_depth_three_with_nodes_of_one_token(name: str) -> None:
    system, width = list(range(10, 21)), 24
    prompts = [system + [30 + t] * (1 + 3 * t) for t in range(2) for _ in range(3)]
    ends = [[40, 41, 42, 43, 50 + c, 51, 52][: 5 + c] for _ in range(2) for c in range(3)]
    ends[1] = [40, 55, 56]
    prompt_ids = torch.tensor([[0] * (width - len(p)) + p for p in prompts])
    completion_ids = torch.tensor([e + [0] * (8 - len(e)) for e in ends])
    inputs = (prompt_ids, (prompt_ids > 0).long(), completion_ids, (completion_ids > 0).long())
    model = tiny(name)
    compare(model, inputs)
    compare(model, inputs, Sharing(min_saved_tokens=10))


def test_routers_loss() -> None:
    compare(tiny("qwen3_next"), batch([4, 2]), aux=True)


@pytest.mark.parametrize("checkpointing", [False, True])
def test_lora_on_the_projections_of_the_state(checkpointing: bool) -> None:
    model = tiny("qwen3_5_text", checkpointing=checkpointing)
    targets = ["in_proj_qkv", "out_proj", "q_proj"]
    peft = get_peft_model(model, LoraConfig(r=4, target_modules=targets, init_lora_weights=False))
    if checkpointing:
        peft.enable_input_require_grads()
    for budget in (None, 20):
        compare(peft, batch([5], prompt=20), Sharing(token_budget=budget, min_saved_tokens=1))


@pytest.mark.parametrize("name", ["qwen3_5_text", "bamba"])
@pytest.mark.parametrize("budget", [None, 20])
def test_layers_that_take_no_state_read_each_row_from_its_start(
    name: str, budget: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(finding, "_INITIAL", ())
    model = tiny(name)
    compare(model, batch([5, 1], prompt=20), Sharing(token_budget=budget, min_saved_tokens=1))
    layer = find_state_layers(model).modules[0]
    assert not vars(layer)["forward"].continued


def _detaching(own: Callable[..., Any]) -> Callable[..., Any]:
    def forward(hidden_states: Any, cache_params: Any = None, **kwargs: Any) -> Any:
        if cache_params is not None:
            cache_params.given = {k: v.detach() for k, v in cache_params.given.items()}
        return own(hidden_states, cache_params=cache_params, **kwargs)

    return forward


def test_a_kernel_that_gives_its_state_no_gradient_is_found_out() -> None:
    """Its values are right and its training would not be: rows are read from their start then."""
    model = tiny("qwen3_5_text")
    for layer in find_state_layers(model).modules:
        vars(layer)["forward"] = _detaching(layer.forward)
    compare(model, batch([3, 2]), unpatched=tiny("qwen3_5_text"))
    layers = find_state_layers(model).modules
    assert [vars(layer)["forward"].continued for layer in layers] == [False, False]


def test_packing_over_shared_prompts_trusts_no_state_that_failed() -> None:
    """In either order, and when packing is undone."""
    for packed_first in (False, True):
        model = tiny("qwen3_5_text")
        for layer in find_state_layers(model).modules:
            vars(layer)["forward"] = _detaching(layer.forward)
        if packed_first:
            use_variable_length_attention(model)
        shared_prompt_logprobs(model, *batch([2]))
        if not packed_first:
            use_variable_length_attention(model)
            compare(model, batch([3, 2]), unpatched=tiny("qwen3_5_text"))
            undo(model)
            compare(model, batch([3, 2]), unpatched=tiny("qwen3_5_text"))
        layer = find_state_layers(model).modules[0]
        assert not SegmentedForward(layer).continued


def test_a_layer_that_reads_ahead_is_refused() -> None:
    model = tiny("qwen3_5_text")
    for layer in find_state_layers(model).modules:
        own = layer.forward
        vars(layer)["forward"] = lambda hidden_states, own=own, **kwargs: own(
            hidden_states + hidden_states.mean(1, keepdim=True), **kwargs
        )
    with pytest.raises(ValueError, match="outputs of its Qwen3_5GatedDeltaNet layers differ"):
        shared_prompt_logprobs(model, *batch([2]))


def test_generating_is_the_model_s_own_and_copies_score_by_themselves() -> None:
    model = tiny("qwen3_5_text").eval()
    inputs = batch([2])
    ask = {"max_new_tokens": 6, "do_sample": False, "eos_token_id": None}
    before = model.generate(inputs[0], attention_mask=inputs[1], **ask)
    scores = shared_prompt_logprobs(model, *inputs, sharing=ALL)
    assert torch.equal(model.generate(inputs[0], attention_mask=inputs[1], **ask), before)
    twin = copy.deepcopy(model)
    for parameter in twin.parameters():
        parameter.data.mul_(0.5)
    compare(twin, inputs)
    assert torch.equal(shared_prompt_logprobs(model, *inputs, sharing=ALL), scores)
    layer = find_state_layers(pickle.loads(pickle.dumps(model))).modules[0]
    assert isinstance(vars(layer)["forward"], SegmentedForward)
    assert vars(layer)["forward"].module is layer


@pytest.mark.draws(1)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("trainer", ["grpo", "dpo"])
def test_trained_as_trl_trains_it(trainer: str, tmp_path: Path) -> None:
    path = saved(tiny("qwen3_5_text"), tmp_path / "model")
    theirs, ours, config = {
        "grpo": (TrlGRPOTrainer, GRPOTrainer, GRPOConfig),
        "dpo": (TrlDPOTrainer, DPOTrainer, DPOConfig),
    }[trainer]
    made = [trained(kind, config, path, tmp_path / "out") for kind in (theirs, ours)]
    side_by_side(*made)


def test_a_scan_that_is_not_told_is_refused() -> None:
    config = MambaConfig(vocab_size=VOCABULARY, hidden_size=32, state_size=8, num_hidden_layers=2)
    assert reason_against(AutoModelForCausalLM.from_config(config), training=False)
