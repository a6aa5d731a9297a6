"""Streamed training equals resident training bit for bit."""

from __future__ import annotations

import itertools

import pytest
import torch

from tests.runtime.streaming.schedulers import SCHEDULERS
from tests.runtime.streaming.training import FAMILIES, Case, compare

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
