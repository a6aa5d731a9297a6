"""Streamed training equals resident training bit for bit."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from accelerate import init_empty_weights
from memlint_runtime import fuse_causal_lm_loss, stream_frozen_weights
from peft import LoraConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

from tests.runtime.streaming.schedulers import SCHEDULERS
from tests.runtime.streaming.training import (
    FAMILIES,
    Case,
    adapted,
    assert_same,
    compare,
    train,
)

pytestmark = [
    # peft and the tests call options by the names of all versions, deprecated since 5.23.
    pytest.mark.filterwarnings("ignore:.*is deprecated and will be removed:FutureWarning"),
    pytest.mark.usefixtures("poisoned"),
]

# Each adapter with each checkpointing, every copy late or at once in turn.
WAYS = [
    (dora, checkpointing, list(SCHEDULERS)[number % 2])
    for number, (dora, checkpointing) in enumerate(
        itertools.product([False, True], ["none", "reentrant", "non-reentrant"])
    )
]


@pytest.mark.parametrize(("dora", "checkpointing", "scheduler"), WAYS)
@pytest.mark.parametrize("family", FAMILIES)
def test_ten_steps_of_each_architecture(
    family: str, dora: bool, checkpointing: str, scheduler: str
) -> None:
    case = Case(family, dora=dora, checkpointing=checkpointing)
    streamed = compare(case, SCHEDULERS[scheduler]())
    assert streamed.ring.peak_bytes <= max(
        streamed.ring.capacity_bytes, *(block.num_bytes for block in streamed.blocks)
    )


@pytest.mark.parametrize("scheduler", SCHEDULERS)
@pytest.mark.parametrize("checkpointing", ["none", "reentrant", "non-reentrant"])
@pytest.mark.parametrize("offload", [False, True])
@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("tied", [False, True])
def test_everything_together(
    tied: bool, fused: bool, offload: bool, checkpointing: str, scheduler: str
) -> None:
    case = Case(
        checkpointing=checkpointing,
        accumulate=2,
        offload=offload,
        fused=fused,
        changes={"tie_word_embeddings": tied},
    )
    compare(case, SCHEDULERS[scheduler](), steps=3)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("dora", [False, True])
def test_half_precision(dtype: torch.dtype, fused: bool, dora: bool) -> None:
    for scheduler in SCHEDULERS.values():
        compare(Case(dtype=dtype, fused=fused, dora=dora), scheduler(), steps=5)


@pytest.mark.parametrize("buffers", [1, 2, 3, 100])
def test_any_number_of_buffers(buffers: int) -> None:
    streamed = compare(Case(), SCHEDULERS["at the last moment"](), steps=3, buffers=buffers)
    layer, head = streamed.blocks[0].num_bytes, streamed.blocks[-1].num_bytes
    assert streamed.ring.peak_bytes <= max(buffers * layer, head)
    # Forward and backward share the turn at the top.
    if buffers == 2:
        assert streamed.ring.order.surprises == 0


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("scheduler", SCHEDULERS)
@pytest.mark.parametrize(("workspace", "reads"), [(120_000, 1), (40_000, 2)])
def test_a_fused_loss_reads_the_head_in_tiles(
    workspace: int, reads: int, scheduler: str, tied: bool
) -> None:
    """Once, or where the workspace cannot keep the hidden states' gradients, once more."""
    case = Case(changes={"tie_word_embeddings": tied, "vocab_size": 300})
    gradients = []
    for copies in (None, SCHEDULERS[scheduler]()):
        model = adapted(case)
        fuse_causal_lm_loss(model, workspace_bytes=workspace)
        streamed = None
        if copies is not None:
            streamed = stream_frozen_weights(model, copies=copies, min_bytes=256)
        gradients.append(train(model, case, steps=3, length=200))
    assert_same(*gradients)
    assert streamed is not None
    assert streamed.head_tiles is not None
    assert streamed.head_tiles.fetched_bytes == 3 * reads * 300 * 32 * 4
    assert streamed.ring.blocks[-1].label == "the output head"
    # As a whole it never came.
    largest = streamed.blocks[0].num_bytes
    assert streamed.ring.peak_bytes <= 2 * largest


WIDTHS = {
    "8B": {"hidden_size": 4096, "intermediate_size": 14336, "heads": 32},
    "70B": {"hidden_size": 8192, "intermediate_size": 28672, "heads": 64},
}


@pytest.mark.parametrize("width", WIDTHS)
def test_blocks_of_real_size(width: str) -> None:
    """Two layers in bf16: buffers of 0.4 and 1.7 GB, reused while their views are in use."""
    sizes = WIDTHS[width]
    config = LlamaConfig(
        hidden_size=sizes["hidden_size"], intermediate_size=sizes["intermediate_size"],
        num_hidden_layers=2, num_attention_heads=sizes["heads"], num_key_value_heads=8,
        vocab_size=256,
    )  # fmt: skip
    previous = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    try:
        torch.manual_seed(0)
        with init_empty_weights():
            model: Any = LlamaForCausalLM(config)
        model.to_empty(device="cpu")
        # Drawing normal numbers takes longer than the test: a short row of them, repeated.
        draw = torch.randn(65521) * 0.02
        for parameter in model.parameters():
            count = parameter.numel()
            repeated = draw.repeat(-(-count // draw.numel()))[:count].view(parameter.shape)
            parameter.data.copy_(repeated if parameter.dim() > 1 else torch.ones(count))
        model.model.rotary_emb = LlamaRotaryEmbedding(config)
    finally:
        torch.set_default_dtype(previous)
    lora = LoraConfig(r=8, target_modules=["q_proj", "down_proj"], init_lora_weights=False)
    model = get_peft_model(model, lora)
    ids = torch.arange(8)[None]

    def gradients() -> list[torch.Tensor]:
        model(input_ids=ids, labels=ids, use_cache=False).loss.backward()
        found = [p.grad.clone() for p in model.parameters() if p.grad is not None]
        model.zero_grad()
        return found

    expected = gradients()
    # One buffer: each block takes the other's place, forward and backward.
    streamed = stream_frozen_weights(model, copies=SCHEDULERS["at the last moment"](), buffers=1)
    for _ in range(2):
        for one, other in zip(expected, gradients(), strict=True):
            assert torch.equal(one, other)
    assert streamed.ring.fetches >= 6
