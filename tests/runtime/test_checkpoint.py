"""Checkpointing with offload: gradients, what stays, and surviving being switched off."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from memlint_runtime import undo
from memlint_runtime.checkpoint import checkpoint_activations
from memlint_runtime.device_copies import SynchronousCopies
from memlint_runtime.fake_memory import MemorySnapshot, track_memory
from memlint_runtime.offload import ActivationOffload, offload_activations
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.modeling_layers import GradientCheckpointingLayer
from trl.models.utils import disable_gradient_checkpointing

# TRL and peft call transformers by the old names of the option, deprecated since 5.23.
pytestmark = [
    pytest.mark.filterwarnings("ignore:`gradient_checkpointing_disable` is deprecated"),
    pytest.mark.filterwarnings("ignore:`gradient_checkpointing_enable` is deprecated"),
    pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated"),
]

ROWS, TOKENS, HIDDEN, LAYERS = 2, 64, 64, 4
INPUT_BYTES = ROWS * TOKENS * HIDDEN * 4


def tiny_llama(**options: Any) -> LlamaForCausalLM:
    torch.manual_seed(0)
    config = LlamaConfig(
        hidden_size=HIDDEN,
        intermediate_size=160,
        num_hidden_layers=LAYERS,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=256,
        use_cache=False,
        **options,
    )
    return LlamaForCausalLM(config).train()


def to_host(**options: Any) -> ActivationOffload:
    return offload_activations(device="cpu", min_bytes=1024, **options)


def batch() -> Tensor:
    return torch.randint(0, 256, (ROWS, TOKENS), generator=torch.Generator().manual_seed(1))


def step(model: nn.Module) -> list[Tensor]:
    ids = batch()
    torch.manual_seed(3)
    loss: Tensor = model(input_ids=ids, labels=ids).loss
    loss.backward()
    found = [p.grad.clone() for p in model.parameters() if p.grad is not None]
    model.zero_grad()
    assert found
    return found


def assert_bit_equal(first: list[Tensor], second: list[Tensor]) -> None:
    for one, other in zip(first, second, strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"every": 2},
        {"offload": "host"},
        {"keep_attention": True},
        {"offload": "host", "every": 3},
    ],
)
@pytest.mark.parametrize("dropout", [0.0, 0.1])
def test_gradients_are_bit_equal(options: dict[str, Any], dropout: float) -> None:
    expected = step(tiny_llama(attention_dropout=dropout))
    model = tiny_llama(attention_dropout=dropout)
    if "offload" in options:
        options = {**options, "offload": to_host()}
    setting = checkpoint_activations(model, **options)
    assert_bit_equal(expected, step(model))
    if setting.offload is not None:
        layers = len(range(0, LAYERS, options.get("every", 1)))
        assert setting.offload.sent_bytes == layers * INPUT_BYTES
        assert setting.offload.pool.used_bytes == 0


def peak_under_fakes(prepare: Callable[[LlamaForCausalLM], object]) -> MemorySnapshot:
    with FakeTensorMode():
        model, ids = tiny_llama(), torch.zeros(ROWS, TOKENS, dtype=torch.long)
        prepare(model)
        with track_memory(model) as tracker:
            loss = model(ids, labels=ids).loss
            kept = tracker.current
            loss.backward()
    return kept


def test_only_inputs_stay_and_offload_takes_them() -> None:
    plain = peak_under_fakes(lambda model: None).activations
    kept = peak_under_fakes(checkpoint_activations).activations
    every = peak_under_fakes(lambda model: checkpoint_activations(model, every=2)).activations
    attention = peak_under_fakes(
        lambda model: checkpoint_activations(model, keep_attention=True)
    ).activations
    context = to_host(host="meta", copies=SynchronousCopies(), in_flight=0)
    gone = peak_under_fakes(
        lambda model: checkpoint_activations(model, offload=context)
    ).activations
    assert kept - gone == LAYERS * INPUT_BYTES
    # Beside attention's output it keeps the log-sum-exp, one fp32 number a head and token.
    assert attention - kept == LAYERS * (INPUT_BYTES + ROWS * TOKENS * 4 * 4)
    assert gone < kept < every < plain


@pytest.mark.parametrize("kwargs", [None, {}, {"use_reentrant": False}, {"offload": True}])
def test_survives_trl_switching_it_off_and_on(kwargs: dict[str, Any] | None) -> None:
    expected = step(tiny_llama())
    model = tiny_llama()
    setting = checkpoint_activations(model, offload=to_host(), every=2)
    with disable_gradient_checkpointing(model, kwargs):
        assert not any(layer.gradient_checkpointing for layer in model.model.layers)
    assert_bit_equal(expected, step(model))
    assert setting.offload is not None
    assert setting.offload.sent_bytes == 2 * INPUT_BYTES
    for name in ("gradient_checkpointing_enable", "activation_checkpointing_enable"):
        if hasattr(model, name):
            getattr(model, name)()
    step(model)
    assert setting.offload.sent_bytes == 4 * INPUT_BYTES


def test_adapters_and_frozen_bases() -> None:
    peft = pytest.importorskip("peft")

    def adapted() -> nn.Module:
        config = peft.LoraConfig(r=4, target_modules=["q_proj", "up_proj"], init_lora_weights=False)
        torch.manual_seed(5)
        wrapped: nn.Module = peft.get_peft_model(tiny_llama(), config)
        return wrapped

    expected = step(adapted())
    model = adapted()
    setting = checkpoint_activations(model, offload=to_host())
    with disable_gradient_checkpointing(model):
        pass
    assert_bit_equal(expected, step(model))
    assert setting.offload is not None
    assert setting.offload.sent_bytes == LAYERS * INPUT_BYTES


def test_a_copy_of_an_offloading_model_offloads_by_itself() -> None:
    model = tiny_llama()
    setting = checkpoint_activations(model, offload=to_host())
    expected = step(model)
    twin = copy.deepcopy(model)
    assert_bit_equal(expected, step(twin))
    copied = twin.model.layers[0]._gradient_checkpointing_func.__self__.offload
    assert setting.offload is not None
    assert copied.sent_bytes == setting.offload.sent_bytes == LAYERS * INPUT_BYTES
    assert copied.pool is not setting.offload.pool


def test_copies_of_the_model_are_set_too_and_remove_undoes_it() -> None:
    model = tiny_llama()
    setting = checkpoint_activations(model)
    twin = copy.deepcopy(model)
    twin_run = twin.model.layers[0]._gradient_checkpointing_func.__self__
    assert twin_run is not setting
    assert twin_run.model is twin
    expected = step(model)
    setting.remove()
    assert not any(layer.gradient_checkpointing for layer in model.model.layers)
    assert "gradient_checkpointing_enable" not in vars(model)
    assert_bit_equal(expected, step(model))


def test_undo_finds_the_setting_of_a_model_and_of_its_copy() -> None:
    model = tiny_llama()
    with checkpoint_activations(model):
        twin = copy.deepcopy(model)
        undo(twin)
        assert not any(layer.gradient_checkpointing for layer in twin.model.layers)
        assert all(layer.gradient_checkpointing for layer in model.model.layers)
    assert not any(layer.gradient_checkpointing for layer in model.model.layers)
    pickle.dumps(twin)
    checkpoint_activations(model)
    undo(model)
    assert not any(layer.gradient_checkpointing for layer in model.model.layers)


def test_generation_is_untouched() -> None:
    model = tiny_llama()
    ids = batch()[:1, :8]
    model.eval()
    expected = model.generate(ids, max_new_tokens=4, do_sample=False, use_cache=True)
    checkpoint_activations(model, offload=to_host())
    model.eval()
    assert torch.equal(
        expected, model.generate(ids, max_new_tokens=4, do_sample=False, use_cache=True)
    )


def test_what_cannot_be_checkpointed_is_refused() -> None:
    with pytest.raises(ValueError, match="needs a transformers model, got Linear"):
        checkpoint_activations(nn.Linear(2, 2))
    with pytest.raises(ValueError, match="every must be at least 1 layer, got 0"):
        checkpoint_activations(tiny_llama(), every=0)
    with pytest.raises(ValueError, match=r"every must be a whole number, got 1.5"):
        checkpoint_activations(tiny_llama(), every=1.5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="offload is True, False or what offload_activations"):
        checkpoint_activations(tiny_llama(), offload="yes")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"wants a model \(a torch.nn.Module\), got NoneType"):
        checkpoint_activations(None)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match='load it with "sdpa"'):
        checkpoint_activations(tiny_llama(attn_implementation="eager"), keep_attention=True)
    assert issubclass(type(tiny_llama().model.layers[0]), GradientCheckpointingLayer)
