"""Streamed training equals resident training bit for bit."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from memlint_runtime import fuse_causal_lm_loss, stream_frozen_weights
from memlint_runtime.streaming.blocks import Block

from tests import streaming_exact
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
    # A reentrant checkpoint warns in a reference's pass, which has no gradients.
    pytest.mark.filterwarnings("ignore:None of the inputs have requires_grad=True:UserWarning"),
    pytest.mark.usefixtures("poisoned"),
]


@pytest.mark.draws(4)
@pytest.mark.parametrize("family", FAMILIES)
def test_ten_steps_of_each_architecture(family: str) -> None:
    """With each adapter, checkpointing and scheduler in turn."""
    number = list(FAMILIES).index(family)
    case = Case(
        family,
        dora=number % 2 == 0,
        checkpointing=streaming_exact.CHECKPOINTING[number % 3],
    )
    streamed = compare(case, list(SCHEDULERS.values())[number // 2 % 2]())
    assert streamed.ring.peak_bytes <= max(
        streamed.ring.capacity_bytes, *(block.num_bytes for block in streamed.blocks)
    )


@pytest.mark.draws(8)
@pytest.mark.parametrize("cell", streaming_exact.sample(36, seed=0), ids=str)
def test_a_share_of_all_combinations(cell: streaming_exact.Cell) -> None:
    """The whole product is `python -m tests.streaming_exact`."""
    refusal = streaming_exact.compare(cell, steps=2)
    assert refusal is None or cell.objective == "grpo"


def test_the_share_has_each_value_of_each_axis() -> None:
    cells = streaming_exact.sample(36, seed=0)
    for axis in dataclasses.fields(streaming_exact.Cell):
        wanted = {getattr(cell, axis.name) for cell in streaming_exact.CELLS}
        assert {getattr(cell, axis.name) for cell in cells} == wanted


def test_the_comparison_notices_wrong_bytes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    use = Block.use

    def wrong(self: Block) -> None:
        use(self)
        if self.index == 2 and self._flat is not None:
            self._flat[:64] = 0

    monkeypatch.setattr(Block, "use", wrong)
    cells = [cell for cell in streaming_exact.CELLS if cell.family == "llama"][:1]
    assert streaming_exact.run_cells(cells, steps=1) == 1
    printed = capsys.readouterr().out
    assert "DIFFERS llama logits LoRA none x1 untied" in printed
    assert "0 equal, 0 refused, 1 failed" in printed


@pytest.mark.draws(2)
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


@pytest.mark.draws(3)
@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("scheduler", SCHEDULERS)
@pytest.mark.parametrize("workspace", [120_000, 40_000])
def test_a_fused_loss_reads_the_head_in_tiles(workspace: int, scheduler: str, tied: bool) -> None:
    """Once a step, however small the workspace is: the hidden states' gradient is kept."""
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
    assert streamed.head_tiles.fetched_bytes == 3 * 300 * 32 * 4
    assert streamed.ring.blocks[-1].label == "the output head"
    # As a whole it never came.
    largest = streamed.blocks[0].num_bytes
    assert streamed.ring.peak_bytes <= 2 * largest


@pytest.mark.parametrize(
    ("width", "steps"), [("8B", 2), pytest.param("70B", 1, marks=pytest.mark.matrix)]
)
def test_blocks_of_real_size(width: str, steps: int) -> None:
    """Buffers of 0.4 and 1.7 GB, reused while their views are in use; more steps by command."""
    fetches = streaming_exact.compare_size(width, "at the last moment", steps, tokens=2)
    assert fetches >= 3 * steps
