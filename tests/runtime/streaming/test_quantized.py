"""A base quantized by bitsandbytes: its bytes stream, and so do the scales."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from memlint_runtime import stream_frozen_weights, undo
from peft import LoraConfig, LoraModel
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from tests.runtime.streaming.schedulers import SCHEDULERS

bnb = pytest.importorskip("bitsandbytes")

pytestmark = [
    pytest.mark.usefixtures("poisoned"),
    pytest.mark.filterwarnings("ignore:.*MatMul8bitLt.*"),
]


@pytest.mark.filterwarnings("ignore:Merge lora module to .*-bit linear:UserWarning")
@pytest.mark.parametrize("kind", ["nf4", "nf4 nested", "int8"])
@pytest.mark.parametrize("undone", [False, True])
def test_merged_adapters_stream_in_their_turn(kind: str, undone: bool) -> None:
    """PEFT puts other parameters in the place of quantized weights that it merges into."""
    merged: list[Tensor] = []
    states: list[dict[str, Tensor]] = []
    hidden = torch.randn(4, 128, generator=torch.Generator().manual_seed(0))
    for streamed in (False, True):
        torch.manual_seed(0)
        layers = nn.ModuleList(nn.Sequential(quantized(kind, 128, 128)) for _ in range(3))
        base: Any = nn.Sequential(*layers, nn.Linear(128, 2)).to("cpu")
        base.is_loaded_in_8bit, base.is_loaded_in_4bit = kind == "int8", kind != "int8"
        adapted = LoraModel(base, LoraConfig(target_modules=["0.0", "2.0"]), "default")
        for name, parameter in adapted.named_parameters():
            if "lora_B" in name:
                nn.init.normal_(parameter, std=0.1)
        if streamed:
            handle = stream_frozen_weights(adapted, blocks=list(layers), min_bytes=0)
            adapted(hidden)
        model = adapted.merge_and_unload()
        if streamed and undone:
            undo(adapted)
        with torch.no_grad():
            merged.append(model(hidden))
        if streamed and not undone:
            # What the merge made goes away with the other weights, and is saved.
            slots = [slot for block in handle.blocks for slot in block.slots]
            assert len(slots) == 3 * (3 if kind == "nf4 nested" else 2)
            assert not any(slot.is_lost for slot in slots)
            assert handle.ring.resident_bytes == 0
        states.append(model.state_dict())
    assert torch.equal(*merged)
    assert list(states[0]) == list(states[1])
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])


class Layer(nn.Module):
    """Two quantized matrices, the first with an adapter beside it."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.first, self.second = quantized(kind, 128, 256), quantized(kind, 256, 128)
        self.norm = nn.LayerNorm(128)
        self.down, self.up = nn.Linear(128, 8, bias=False), nn.Linear(8, 256, bias=False)

    def forward(self, hidden: Tensor) -> Tensor:
        entered = self.norm(hidden)
        grown = self.first(entered) + self.up(self.down(entered))
        result: Tensor = hidden + self.second(nn.functional.silu(grown))
        return result


def quantized(kind: str, fan_in: int, fan_out: int) -> nn.Module:
    if kind == "int8":
        layer: Any = bnb.nn.Linear8bitLt(fan_in, fan_out, bias=False, has_fp16_weights=False)
    else:
        layer = bnb.nn.Linear4bit(
            fan_in, fan_out, bias=False, compute_dtype=torch.bfloat16, quant_type="nf4",
            compress_statistics=kind == "nf4 nested",
        )  # fmt: skip
    return layer


def gradients(kind: str, scheduler: str | None, reentrant: bool | None) -> Any:
    torch.manual_seed(0)
    model = nn.ModuleDict({"layers": nn.ModuleList(Layer(kind) for _ in range(4))}).to("cpu")
    for name, parameter in model.named_parameters():
        parameter.requires_grad_("up" in name or "down" in name)
    streamed = None
    if scheduler is not None:
        streamed = stream_frozen_weights(model, copies=SCHEDULERS[scheduler](), min_bytes=0)
    found = []
    for step in range(3):
        torch.manual_seed(step)
        hidden = torch.randn(4, 16, 128, requires_grad=True)
        for layer in model["layers"]:  # type: ignore[attr-defined]
            if reentrant is None:
                hidden = layer(hidden)
            else:
                hidden = checkpoint(layer, hidden, use_reentrant=reentrant)
        hidden.square().mean().backward()
        found += [p.grad.clone() for p in model.parameters() if p.grad is not None]
        model.zero_grad()
    return found, streamed, model


@pytest.mark.parametrize("reentrant", [None, False, True])
@pytest.mark.parametrize("scheduler", SCHEDULERS)
@pytest.mark.parametrize("kind", ["nf4", "nf4 nested", "int8"])
def test_gradients_are_bit_equal(kind: str, scheduler: str, reentrant: bool | None) -> None:
    expected, _, resident = gradients(kind, None, reentrant)
    found, streamed, model = gradients(kind, scheduler, reentrant)
    assert found
    for one, other in zip(expected, found, strict=True):
        assert torch.equal(one, other)
    # Every weight as bytes, and its scales beside it.
    slots = [slot for block in streamed.blocks for slot in block.slots]
    assert len(slots) == 4 * 2 * (3 if kind == "nf4 nested" else 2)
    assert {slot.home.dtype for slot in slots} <= {torch.uint8, torch.int8, torch.float32}
    state, wanted = model.state_dict(), resident.state_dict()
    assert list(state) == list(wanted)
    assert all(torch.equal(state[name], wanted[name]) for name in wanted)
