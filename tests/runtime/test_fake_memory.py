"""Memory by kind under fakes: against arithmetic, and against torch's own tracker."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from memlint_runtime.fake_memory import MemorySnapshot, track_memory
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed._tools.mem_tracker import MemTracker
from torch.utils.checkpoint import checkpoint
from transformers import LlamaConfig, LlamaForCausalLM

FLOAT = 4  # bytes


def tiny_llama() -> LlamaForCausalLM:
    config = LlamaConfig(
        hidden_size=64,
        intermediate_size=160,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=512,
        use_cache=False,
    )
    return LlamaForCausalLM(config)


class Stack(nn.Module):
    """L linear layers of width H with ReLU; checkpointed one by one if asked."""

    def __init__(self, layers: int, width: int, *, checkpointed: bool = False) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Sequential(nn.Linear(width, width, bias=False), nn.ReLU()) for _ in range(layers)
        )
        self.checkpointed = checkpointed

    def forward(self, hidden: Tensor) -> Tensor:
        for layer in self.layers:
            if self.checkpointed:
                hidden = checkpoint(layer, hidden, use_reentrant=False)
            else:
                hidden = layer(hidden)
        return hidden


def test_training_step_equals_arithmetic() -> None:
    """One linear layer without bias: every kind is known to the byte."""
    with FakeTensorMode():
        layer = nn.Linear(100, 50, bias=False)
        optimizer = torch.optim.SGD(layer.parameters(), lr=0.1, momentum=0.9, foreach=False)
        weight, given, made = 50 * 100 * FLOAT, 7 * 100 * FLOAT, 7 * 50 * FLOAT
        with track_memory(layer, optimizer) as tracker:
            assert tracker.current == MemorySnapshot(weight, parameters=weight)
            inputs = torch.empty(7, 100)
            loss = layer(inputs).sum()
            alive = given + FLOAT
            assert tracker.current.activations == alive  # the layer's output is freed: not needed
            loss.backward()
            assert tracker.current == MemorySnapshot(
                weight * 2 + alive, parameters=weight, gradients=weight, activations=alive
            )
            optimizer.step()
            assert tracker.current.optimizer_states == weight
            optimizer.zero_grad()
            assert tracker.current.gradients == 0
            del inputs, loss
            assert tracker.current == MemorySnapshot(
                weight * 2, parameters=weight, optimizer_states=weight
            )
    assert tracker.phases["forward"].activations == given + made + FLOAT


def test_views_count_once_and_freed_storages_count_no_more() -> None:
    with FakeTensorMode(), track_memory() as tracker:
        base = torch.empty(1000)
        parts = [base[:500], base.view(10, 100), base.expand(5, 1000), base.detach()]
        assert tracker.current.total == 1000 * FLOAT
        del base
        assert tracker.current.total == 1000 * FLOAT
        del parts
        assert tracker.current == MemorySnapshot()
    assert tracker.peak.total == 1000 * FLOAT


def test_real_tensors_count_like_fake_ones() -> None:
    def step() -> MemorySnapshot:
        model = Stack(3, 16)
        with track_memory(model) as tracker:
            model(torch.ones(8, 16)).sum().backward()
        return tracker.peak

    real = step()
    with FakeTensorMode():
        assert step() == real


@pytest.mark.parametrize("checkpointed", [False, True])
def test_full_fine_tune_agrees_with_torch(checkpointed: bool) -> None:
    def steps(
        model: LlamaForCausalLM,
        optimizer: torch.optim.Optimizer,
        ids: Tensor,
        between_steps: Callable[[], object] = lambda: None,
    ) -> None:
        for _ in range(2):
            model(ids, labels=ids).loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            between_steps()

    def build() -> tuple[LlamaForCausalLM, torch.optim.Optimizer, Tensor]:
        model = tiny_llama()
        if checkpointed:
            for layer in model.model.layers:
                run = layer.forward
                layer.forward = lambda *a, _run=run, **k: checkpoint(
                    _run, *a, use_reentrant=False, **k
                )
        optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
        return model, optimizer, torch.zeros(2, 128, dtype=torch.long)

    with FakeTensorMode():
        model, optimizer, ids = build()
        with track_memory(model, optimizer) as ours:
            steps(model, optimizer, ids)
    with FakeTensorMode():
        model, optimizer, ids = build()
        theirs = MemTracker()
        theirs.track_external(model, optimizer, ids)
        with theirs:
            steps(model, optimizer, ids, between_steps=theirs.reset_mod_stats)
    snapshot: dict[Any, int] = theirs.get_tracker_snapshot("peak")[torch.device("cpu")]
    by_kind = {getattr(kind, "value", kind): size for kind, size in snapshot.items()}
    assert ours.peak.total == by_kind["Total"]
    assert ours.peak.parameters == by_kind["Parameter"] + by_kind["Buffer"]
    assert ours.peak.gradients == by_kind["Gradient"]
    assert ours.peak.optimizer_states == by_kind["Optstate"]
    # They call the batch "other" and, in a recomputed layer, one hidden state temporary.
    hidden_state = 2 * 128 * 64 * FLOAT
    ours_moved = ours.peak.activations - by_kind["Activation"] - by_kind["Other"]
    assert ours_moved in ({0, hidden_state} if checkpointed else {0})
    assert by_kind["Temp"] - ours.peak.temporaries == ours_moved


def test_frozen_base_has_gradients_and_states_for_the_adapter_only() -> None:
    with FakeTensorMode():
        model = nn.Sequential(nn.Linear(64, 64, bias=False), nn.Linear(64, 8, bias=False))
        model[0].requires_grad_(False)
        optimizer = torch.optim.AdamW(model[1].parameters(), foreach=False)
        with track_memory(model, optimizer) as tracker:
            model(torch.empty(4, 64)).sum().backward()
            assert tracker.current.gradients == 64 * 8 * FLOAT
            optimizer.step()
            assert tracker.current.optimizer_states == 2 * 64 * 8 * FLOAT + FLOAT
        assert tracker.peak.parameters == (64 * 64 + 64 * 8) * FLOAT


def test_checkpointing_keeps_only_inputs_of_layers() -> None:
    layers, width, rows = 6, 32, 16
    hidden = rows * width * FLOAT
    kept = {}
    with FakeTensorMode():
        for checkpointed in (False, True):
            model = Stack(layers, width, checkpointed=checkpointed)
            with track_memory(model) as tracker:
                inputs = torch.empty(rows, width)
                output = model(inputs)
                kept[checkpointed] = tracker.current.activations
                output.sum().backward()
            del inputs, output
    # ReLU saves its output, which is the next layer's input; both ways keep L + 1 hidden states.
    assert kept[False] == kept[True] == (layers + 1) * hidden

    class Wide(Stack):
        def forward(self, hidden: Tensor) -> Tensor:
            def layer(x: Tensor) -> Tensor:
                return x.sin().cos().exp().tanh()

            for _ in self.layers:
                hidden = checkpoint(layer, hidden, use_reentrant=False)
            return hidden

    with FakeTensorMode(), track_memory(record_timeline=True) as tracker:
        inputs = torch.empty(rows, width, requires_grad=True)
        output = Wide(layers, width)(inputs)
        assert tracker.current.activations == (layers + 1) * hidden
        loss = output.sum()
        loss.backward()
    # Recomputed intermediates of a layer are activations again, not temporaries.
    recomputed = [event.memory for event in tracker.timeline if event.phase == "backward"]
    assert max(memory.activations for memory in recomputed) // hidden == layers + 1 + 3


class SumOfSquares(torch.autograd.Function):
    """Saves one tensor, uses a large temporary, returns a scalar."""

    @staticmethod
    def forward(ctx: Any, values: Tensor) -> Tensor:
        large = values.repeat(10)
        kept = values * 2
        ctx.save_for_backward(kept)
        return (large.square().sum() / 10).clone()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        (kept,) = ctx.saved_tensors
        return grads[0] * kept


def test_custom_function_temporaries_are_not_activations() -> None:
    num_bytes = 1000 * FLOAT
    with FakeTensorMode(), track_memory() as tracker:
        values = torch.empty(1000, requires_grad=True)
        result = SumOfSquares.apply(values)
        peak = tracker.peak
        loss = result * 1
        assert tracker.current.activations == 2 * num_bytes + 2 * FLOAT
        assert tracker.current.temporaries == 0
        loss.backward()
    assert peak.activations == num_bytes  # the input
    assert peak.temporaries >= 20 * num_bytes


def test_without_gradients_all_is_temporary() -> None:
    with FakeTensorMode():
        model = Stack(4, 32)
        with track_memory(model) as tracker, torch.no_grad():
            model(torch.empty(8, 32))
    assert tracker.peak.activations == 0
    # The batch, a layer's input, the linear map's output and ReLU's.
    assert tracker.peak.temporaries == 4 * 8 * 32 * FLOAT


def test_phases_are_told_apart_or_named() -> None:
    with FakeTensorMode():
        model = Stack(2, 32)
        optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
        with track_memory(model, optimizer, record_timeline=True) as tracker:
            with tracker.phase("scoring"), torch.no_grad():
                model(torch.empty(100, 32))
            model(torch.empty(4, 32)).sum().backward()
            optimizer.step()
    assert list(tracker.phases) == ["forward", "scoring", "backward", "optimizer"]
    assert tracker.phases["scoring"].temporaries == 4 * 100 * 32 * FLOAT
    assert tracker.phases["optimizer"].gradients == 2 * 32 * 32 * FLOAT
    assert tracker.peak == max(tracker.phases.values(), key=lambda snapshot: snapshot.total)
    assert max(event.memory.total for event in tracker.timeline) == tracker.peak.total
    assert all(
        event.memory.total == sum(_kinds(event.memory).values()) for event in tracker.timeline
    )


def test_other_devices_count_nothing() -> None:
    with FakeTensorMode(), track_memory() as tracker:
        here = torch.empty(100)
        there = torch.empty(100, device="meta").copy_(here)
        assert tracker.current.total == 100 * FLOAT
        here = torch.empty(100).copy_(there)
        assert tracker.current.total == 100 * FLOAT
        del here


def test_leaves_no_hooks_behind() -> None:
    with FakeTensorMode():
        model = Stack(1, 8)
        with track_memory(model) as tracker:
            model(torch.empty(2, 8)).sum().backward()
        seen = replace(tracker.peak)
        model(torch.empty(200, 8)).sum().backward()
        assert tracker.peak == seen
        for parameter in model.parameters():
            assert not parameter._post_accumulate_grad_hooks


def _kinds(memory: MemorySnapshot) -> dict[str, int]:
    return {name: getattr(memory, name) for name in MemorySnapshot.__slots__ if name != "total"}
