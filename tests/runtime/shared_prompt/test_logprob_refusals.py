"""Models and inputs that cannot share prompts are refused, with the reason."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import transformers
from memlint_runtime import shared_prompt_logprobs
from memlint_runtime.shared_prompt import Sharing, probe
from packaging.version import Version
from peft import LoraConfig, get_peft_model
from torch import Tensor, nn
from transformers import (
    AutoModelForCausalLM,
    GPT2Config,
    MambaConfig,
    ModernBertDecoderConfig,
    OPTConfig,
)

from tests.runtime.shared_prompt.models import (
    batch,
    tiny,
)
from tests.runtime.tiny_models import tiny as table_tiny

# peft asks transformers for checkpointing by a name that the newest transformers deprecates.
pytestmark = pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing.*:FutureWarning")

ALL = Sharing(min_saved_tokens=1)


def test_model_that_counts_positions_by_index_is_refused() -> None:
    """What no attribute tells: the first forward is looked at, not trusted."""
    model, inputs = tiny("llama"), batch([2])

    def by_index(module: nn.Module, args: Any) -> Any:
        hidden, positions = args
        return hidden, torch.arange(positions.shape[1]).unsqueeze(0)

    model.model.rotary_emb.register_forward_pre_hook(
        lambda module, args, kwargs: (
            (
                args,
                kwargs | {"position_ids": torch.arange(args[0].shape[1]).unsqueeze(0)},
            )
            if "position_ids" in kwargs
            else (by_index(module, args), kwargs)
        ),
        with_kwargs=True,
    )
    with pytest.raises(ValueError, match="hidden states differ by"):
        shared_prompt_logprobs(model, *inputs)
    assert model.training


def test_functional_dropout_is_seen() -> None:
    config = OPTConfig(
        vocab_size=64, hidden_size=32, word_embed_proj_dim=32, num_hidden_layers=2, ffn_dim=32,
        num_attention_heads=4, dropout=0.1, layerdrop=0.0,
    )  # fmt: skip
    with pytest.raises(ValueError, match=r"draw its dropout once.* has dropout=0\.1"):
        shared_prompt_logprobs(AutoModelForCausalLM.from_config(config).train(), *batch([2]))
    model = tiny("llama")

    def noise(module: nn.Module, inputs: Any, output: Tensor) -> Tensor:
        return nn.functional.dropout(output, 0.1, module.training)

    model.model.layers[0].mlp.register_forward_hook(noise)
    state = torch.get_rng_state()
    with pytest.raises(ValueError, match="draws at random in training mode"):
        shared_prompt_logprobs(model, *batch([2]))
    assert torch.equal(torch.get_rng_state(), state)
    shared_prompt_logprobs(model.eval(), *batch([2]))


def test_a_mask_that_is_learned_is_refused() -> None:
    """Doge adds a learned number of each key to the scores: the same for all keys while it is 0, so
    that values agree and only gradients are missing."""
    model = table_tiny("doge")
    rows = torch.tensor([[3, 4, 5, 6], [3, 4, 5, 6]])
    ends = torch.tensor([[7, 8], [9, 10]])
    given = (rows, torch.ones_like(rows), ends, torch.ones_like(ends))
    # In transformers 5.17 the model gives such rows other values too.
    before = Version(transformers.__version__) < Version("5.23")
    reason = "hidden states differ" if before else "learns a mask of its own"
    with pytest.raises(ValueError, match=reason):
        shared_prompt_logprobs(model, *given, sharing=ALL)


def test_a_forward_past_the_trunk_is_refused() -> None:
    config = OPTConfig(
        vocab_size=64, hidden_size=32, word_embed_proj_dim=32, num_hidden_layers=2, ffn_dim=32,
        num_attention_heads=4, dropout=0.0, attention_dropout=0.0, layerdrop=0.0,
    )  # fmt: skip
    with pytest.raises(ValueError, match="does not call its trunk as a whole"):
        shared_prompt_logprobs(AutoModelForCausalLM.from_config(config).train(), *batch([2]))


def test_a_head_that_is_more_than_its_weights_is_refused() -> None:
    config = ModernBertDecoderConfig(
        vocab_size=64, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
        intermediate_size=32, pad_token_id=0, embedding_dropout=0.0, mlp_dropout=0.0,
        attention_dropout=0.0,
    )  # fmt: skip
    torch.manual_seed(0)
    with pytest.raises(ValueError, match="not those of its hidden states and head"):
        shared_prompt_logprobs(AutoModelForCausalLM.from_config(config).train(), *batch([2]))


def test_an_error_of_the_device_is_no_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(probe, "through_backbone", full)
    with pytest.raises(torch.OutOfMemoryError, match=r"^CUDA out of memory$"):
        shared_prompt_logprobs(tiny("llama"), *batch([2]))


@pytest.mark.parametrize("mask", [[1, 0, 1], [0, 1, 1]])
def test_completions_padded_elsewhere_are_refused(mask: list[int]) -> None:
    """The token after the gap would be scored as if what stands there were not."""
    prompts, ends = torch.tensor([[3, 4], [3, 4]]), torch.tensor([[5, 6, 7], [6, 7, 8]])
    masks = torch.tensor([[1, 1, 0], mask])
    with pytest.raises(ValueError, match=r"right only, but row 1 .* has a token after padding"):
        shared_prompt_logprobs(tiny("llama"), prompts, torch.ones_like(prompts), ends, masks)


def test_models_and_inputs_that_cannot_be_are_refused() -> None:
    inputs = batch([2])
    model = AutoModelForCausalLM.from_config(MambaConfig(vocab_size=64, hidden_size=32))
    with pytest.raises(ValueError, match="layers that are not attention"):
        shared_prompt_logprobs(model, *inputs)
    model = AutoModelForCausalLM.from_config(
        GPT2Config(vocab_size=64, n_embd=32, n_head=4, n_layer=2)
    )
    with pytest.raises(
        ValueError, match=r"draw its dropout once instead of once a row, but .* has p=0\.1"
    ):
        shared_prompt_logprobs(model.train(), *inputs)
    dora = LoraConfig(target_modules=["lm_head"], use_dora=True)
    with pytest.raises(ValueError, match="the head's LoRA is a variant"):
        shared_prompt_logprobs(get_peft_model(tiny("llama"), dora), *inputs)
    peft = get_peft_model(tiny("llama"), LoraConfig(target_modules=["q_proj"], lora_dropout=0.05))
    with pytest.raises(ValueError, match=r"lora_dropout.*p=0\.05"):
        shared_prompt_logprobs(peft, *inputs)
    with pytest.raises(ValueError, match="transformers causal language model"):
        shared_prompt_logprobs(nn.Linear(2, 2), *inputs)
    with pytest.raises(ValueError, match=r"\[rows, P\]"):
        shared_prompt_logprobs(tiny("llama"), *inputs[:3], inputs[3][:1])


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"token_budget": 0}, "token_budget must be at least 1 token, got 0"),
        ({"token_budget": "4k"}, "token_budget must be a whole number, got '4k'"),
        ({"min_saved_tokens": -1}, "min_saved_tokens must be at least 0, got -1"),
        ({"keep_prompts": "yes"}, "keep_prompts must be True or False, got 'yes'"),
        ({"attention": "fast"}, r"attention path must be one of \('joined', .*got 'fast'"),
    ],
    ids=str,
)
def test_settings_are_checked_where_they_are_made(setting: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Sharing(**setting)


@pytest.mark.parametrize("wrong", [5, {}, {"token_budget": 10}, Sharing])
def test_what_is_no_sharing_is_refused(wrong: Any) -> None:
    with pytest.raises(TypeError, match="sharing wants an object of"):
        shared_prompt_logprobs(tiny("llama"), *batch([2]), sharing=wrong)
