"""Offloaded activations: gradients bit-equal to those of the plain backward."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from memlint_runtime import fuse_causal_lm_loss
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from transformers import LlamaForCausalLM

from tests.examples import examples
from tests.runtime.offloading.models import assert_bit_equal, batch, gradients, offload, tiny_llama

# peft asks transformers by the old name of the option, deprecated since 5.23.
pytestmark = pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated")


def layers_checkpointed(model: LlamaForCausalLM) -> LlamaForCausalLM:
    for layer in model.model.layers:
        run = layer.forward
        layer.forward = lambda *a, _run=run, **k: checkpoint(_run, *a, use_reentrant=False, **k)
    return model


def with_fused_loss(model: LlamaForCausalLM) -> LlamaForCausalLM:
    fuse_causal_lm_loss(model)
    return model


def with_lora(model: LlamaForCausalLM) -> nn.Module:
    peft = pytest.importorskip("peft")
    config = peft.LoraConfig(r=4, target_modules=["q_proj", "down_proj"], init_lora_weights=False)
    wrapped: nn.Module = peft.get_peft_model(model, config)
    return wrapped


VARIANTS: dict[str, Callable[[], nn.Module]] = {
    "plain": tiny_llama,
    "eager attention with dropout": lambda: tiny_llama(
        attn_implementation="eager", attention_dropout=0.1
    ),
    "tied head": lambda: tiny_llama(tie_word_embeddings=True),
    "checkpointed": lambda: layers_checkpointed(tiny_llama()),
    "fused loss": lambda: with_fused_loss(tiny_llama()),
    "fused loss, checkpointed": lambda: with_fused_loss(layers_checkpointed(tiny_llama())),
    "adapter": lambda: with_lora(tiny_llama()),
    "checkpointed adapter": lambda: with_lora(layers_checkpointed(tiny_llama())),
}


@pytest.mark.draws
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"budget_bytes": 50_000},
        {"prefetch_bytes": 0},
        {"prefetch": 0, "prefetch_bytes": 0, "in_flight": 0},
    ],
)
@pytest.mark.parametrize("autocast", [False, True])
@pytest.mark.parametrize("variant", VARIANTS)
def test_gradients_of_a_model_are_bit_equal(
    variant: str, autocast: bool, options: dict[str, int]
) -> None:
    model, ids = VARIANTS[variant](), batch()

    def loss() -> Tensor:
        torch.manual_seed(2)
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            result: Tensor = model(input_ids=ids, labels=ids).loss
        return result

    plain = loss()
    plain.backward()
    expected = gradients(model)
    context = offload(model, **options)
    with context:
        sent = loss()
    assert context.sent_bytes > 0
    assert torch.equal(plain, sent)
    sent.backward()
    assert_bit_equal(expected, gradients(model))
    del sent
    assert context.pool.used_bytes == 0
    assert context.resident_bytes == 0


def inplace_activation(x: Tensor, w: Tensor) -> Tensor:
    return (x @ w).relu_().mul(2).sigmoid_() @ w


def views(x: Tensor, w: Tensor) -> Tensor:
    first, second = (x @ w).chunk(2, dim=-1)
    return first.tanh() * second.transpose(0, 1).exp().transpose(0, 1) * first


def expanded(x: Tensor, w: Tensor) -> Tensor:
    row = (x @ w).mean(0, keepdim=True).expand(50, -1)
    return row * row.sin() * x[:1].expand(50, -1).exp()


def strided(x: Tensor, w: Tensor) -> Tensor:
    y = (x @ w).t()[::2, 1::3]
    return y.exp() * y.flip(0).as_strided((4, 4), (8, 1), 3).exp().mean()


def same_storage_other_types(x: Tensor, w: Tensor) -> Tensor:
    y = torch.view_as_complex((x @ w).reshape(x.shape[0], -1, 2).contiguous())
    return (y * y.conj()).real * y.abs()


def slice_of_large(x: Tensor, w: Tensor) -> Tensor:
    y = x @ w
    return y[-1:].exp() * y[0].sin()


@pytest.mark.parametrize(
    "compute",
    [inplace_activation, views, expanded, strided, same_storage_other_types, slice_of_large],
)
def test_gradients_of_awkward_tensors_are_bit_equal(
    compute: Callable[[Tensor, Tensor], Tensor],
) -> None:
    torch.manual_seed(0)
    x, w = torch.randn(48, 48, requires_grad=True), torch.randn(48, 48, requires_grad=True)
    expected = torch.autograd.grad(compute(x, w).square().sum(), [x, w])
    context = offload(min_bytes=0)
    with context:
        result = compute(x, w).square().sum()
    actual = torch.autograd.grad(result, [x, w])
    assert context.sent_bytes > 0
    for one, other in zip(expected, actual, strict=True):
        assert torch.equal(one, other)


OPERATIONS: list[Callable[[Tensor], Tensor]] = [
    lambda x: x.sin(),
    lambda x: x * x,
    lambda x: x.clone().relu_(),
    lambda x: torch.cat(x.chunk(3, 1)[::-1], 1) * x,
    lambda x: x[:1].expand_as(x) * x.t().t(),
    lambda x: checkpoint(lambda y: y.tanh().mul(y).cos(), x, use_reentrant=False),
    lambda x: torch.nn.functional.dropout(x, 0.2) + x[::2].exp().mean(),
    lambda x: nn.functional.layer_norm(x, (x.shape[1],)),
    lambda x: x.softmax(-1).detach() * x,
]


@given(
    picks=st.lists(st.integers(0, len(OPERATIONS) - 1), min_size=1, max_size=12),
    rows=st.integers(1, 40),
    min_bytes=st.sampled_from([0, 300, 3000]),
    budget=st.sampled_from([None, 0, 2000, 20_000, 10**9]),
    prefetch=st.integers(0, 4),
    in_flight=st.integers(0, 4),
)
@examples(80)
def test_gradients_of_random_graphs_are_bit_equal(
    picks: list[int], rows: int, min_bytes: int, budget: int | None, prefetch: int, in_flight: int
) -> None:
    def compute(x: Tensor) -> Tensor:
        torch.manual_seed(7)
        for pick in picks:
            x = OPERATIONS[pick](x)
        return x.square().sum()

    x = torch.randn(rows, 24, generator=torch.Generator().manual_seed(rows), requires_grad=True)
    (expected,) = torch.autograd.grad(compute(x), x)
    context = offload(
        min_bytes=min_bytes,
        budget_bytes=budget,
        prefetch=prefetch,
        prefetch_bytes=0,
        in_flight=in_flight,
    )
    with context:
        loss = compute(x)
    assert budget is None or context.resident_bytes <= budget
    (actual,) = torch.autograd.grad(loss, x)
    assert torch.equal(expected.view(torch.int32), actual.view(torch.int32))  # NaN included
    del loss
    assert (context.pool.used_bytes, context.resident_bytes) == (0, 0)
