"""What else happens to a streamed model: saving, moving, changing, failing, undoing."""

from __future__ import annotations

import copy
import io
from typing import Any

import pytest
import torch
from memlint_runtime import (
    fuse_causal_lm_loss,
    stream_frozen_weights,
    use_variable_length_attention,
)
from memlint_runtime.streaming import streamed_weights_of
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from transformers.modeling_outputs import CausalLMOutput

from tests.runtime.streaming.training import (
    VOCABULARY,
    Case,
    adapted,
    assert_same,
    base,
    one_batch,
    stream,
    train,
)

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*is deprecated and will be removed:FutureWarning"),
    pytest.mark.usefixtures("poisoned"),
]


def test_what_streams_and_what_stays() -> None:
    model = adapted(Case())
    streamed = stream(model)
    labels = [block.label for block in streamed.blocks]
    assert labels == [*(f"model.layers.{n}" for n in range(4)), "the output head"]
    names = {slot.name for block in streamed.blocks for slot in block.slots}
    assert names == {"weight"}
    assert all(slot.home.dim() == 2 for block in streamed.blocks for slot in block.slots)
    trained = {id(p) for p in model.parameters() if p.requires_grad}
    assert not any(id(s.parameter) in trained for b in streamed.blocks for s in b.slots)


def test_refusals_name_the_reason() -> None:
    model = adapted(Case())
    with pytest.raises(ValueError, match="no blocks with frozen weights"):
        stream_frozen_weights(base(Case()))
    with pytest.raises(ValueError, match="largest block"):
        stream(model, budget_bytes=10)
    with pytest.raises(ValueError, match="buffers is 1 or more"):
        stream(model, buffers=0)
    streamed = stream(model)
    with pytest.raises(ValueError, match="streamed already"):
        stream(model)
    with pytest.raises(ValueError, match="streamed: a copy"):
        copy.deepcopy(model)
    weight = model.get_base_model().model.layers[0].mlp.up_proj.base_layer.weight
    weight.requires_grad_(True)
    with pytest.raises(RuntimeError, match="was unfrozen"):
        model(**one_batch())
    weight.requires_grad_(False)
    model(**one_batch()).loss.backward()
    layer = model.get_base_model().model.layers[0].mlp.up_proj.base_layer
    layer.weight = nn.Parameter(layer.weight.clone())
    with pytest.raises(RuntimeError, match="replaced by one that is trained"):
        model(**one_batch())
    layer.weight.requires_grad_(False)
    model(**one_batch()).loss.backward()
    assert streamed_weights_of(model) is streamed


def test_gradients_that_are_differentiated_again_are_refused() -> None:
    model = adapted(Case())
    trained = [p for p in model.parameters() if p.requires_grad]
    with stream(model):
        loss = model(**one_batch()).loss
        with pytest.raises(RuntimeError, match=r"create_graph=True, or undo\(\)"):
            torch.autograd.grad(loss, trained, create_graph=True, allow_unused=True)
        torch.autograd.grad(model(**one_batch()).loss, trained, allow_unused=True)
        with torch.enable_grad():
            model(**one_batch()).loss.backward()


def test_evaluation_in_inference_mode_between_steps() -> None:
    case = Case(fused=True)
    resident, model = adapted(case), adapted(case)
    for candidate in (resident, model):
        fuse_causal_lm_loss(candidate)
    stream(model)
    for _ in range(2):
        with torch.inference_mode():
            assert torch.equal(resident(**one_batch()).loss, model(**one_batch()).loss)
        assert_same(train(resident, case, steps=1), train(model, case, steps=1))


@pytest.mark.parametrize("checkpointing", ["none", "non-reentrant", "reentrant"])
def test_generation_between_a_forward_and_its_backward(checkpointing: str) -> None:
    found = []
    for streams in (False, True):
        model = adapted(Case(checkpointing=checkpointing))
        if streams:
            stream(model)
        loss = model(**one_batch(), use_cache=False).loss
        ids = one_batch()["input_ids"]
        tokens = model.eval().generate(input_ids=ids, max_new_tokens=4, do_sample=False)
        model.train()
        loss.backward()
        found.append([tokens, *(p.grad for p in model.parameters() if p.grad is not None)])
    for one, other in zip(*found, strict=True):
        assert torch.equal(one, other)


def test_two_graphs_at_once() -> None:
    """Two losses before their backwards, and one graph differentiated twice."""
    found = []
    for streams in (False, True):
        model = adapted(Case())
        if streams:
            stream(model)
        first, second = (model(**one_batch(), use_cache=False).loss for _ in range(2))
        first.backward(retain_graph=True)
        second.backward()
        first.backward()
        found.append([p.grad for p in model.parameters() if p.grad is not None])
    for one, other in zip(*found, strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("family", ["llama", "qwen3"])
def test_packed_documents(family: str) -> None:
    ids = torch.randint(3, VOCABULARY, (1, 24), generator=torch.Generator().manual_seed(1))
    places = torch.cat([torch.arange(length) for length in (7, 12, 5)])[None]
    found = []
    for streams in (False, True):
        model = adapted(Case(family, checkpointing="non-reentrant"))
        if streams:
            stream(model)
        use_variable_length_attention(model)
        fuse_causal_lm_loss(model)
        losses = []
        for _ in range(3):
            batch = {"input_ids": ids, "labels": ids, "position_ids": places}
            loss = model(**batch, use_cache=False).loss
            loss.backward()
            losses.append(loss)
        found.append([*losses, *(p.grad for p in model.parameters() if p.grad is not None)])
    assert len(found[0]) > 20
    for one, other in zip(*found, strict=True):
        assert torch.equal(one, other)


class Opaque(Tensor):
    """A weight of bytes and scales that does not say what it is made of."""

    values: Tensor
    scales: Tensor

    def __new__(cls, values: Tensor, scales: Tensor) -> Any:
        return Tensor._make_wrapper_subclass(cls, values.shape, dtype=scales.dtype)  # type: ignore

    def __init__(self, values: Tensor, scales: Tensor) -> None:
        self.values, self.scales = values, scales

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.aten.detach.default:
            return cls(args[0].values.detach(), args[0].scales.detach())
        plain = [a.values * a.scales if isinstance(a, cls) else a for a in args]
        return func(*plain, **(kwargs or {}))


class Scaled(Opaque):
    """One that says it, as torchao's do."""

    def __tensor_flatten__(self) -> tuple[list[str], None]:
        return ["values", "scales"], None

    @staticmethod
    def __tensor_unflatten__(parts: dict[str, Tensor], *ignored: Any) -> Scaled:
        return Scaled(parts["values"], parts["scales"])


class OfScaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        values = torch.randint(-127, 127, (16, 16), dtype=torch.int8)
        weight = Scaled(values, torch.rand(16, 1) / 99)
        self.weight = nn.Parameter(weight, requires_grad=False)
        self.trained = nn.Parameter(torch.randn(16))

    def forward(self, hidden: Tensor) -> Tensor:
        return hidden + (hidden * self.trained) @ self.weight


@pytest.mark.parametrize("reentrant", [None, False, True])
def test_weights_made_of_tensors_stream_as_those(reentrant: bool | None) -> None:
    found = []
    for streams in (False, True):
        torch.manual_seed(0)
        model = nn.ModuleDict({"blocks": nn.ModuleList(OfScaled() for _ in range(3))})
        if streams:
            streamed = stream(model, min_bytes=0, buffers=1)
            names = [slot.attributes[0][1] for slot in streamed.blocks[0].slots]
            assert names == ["values", "scales"]
        hidden = torch.ones(4, 16, requires_grad=True)
        for block in model["blocks"]:  # type: ignore[attr-defined]
            if reentrant is None:
                hidden = block(hidden)
            else:
                hidden = checkpoint(block, hidden, use_reentrant=reentrant)
        hidden.square().sum().backward()
        found.append([p.grad for p in model.parameters() if p.grad is not None])
    assert len(found[0]) == 3
    for one, other in zip(*found, strict=True):
        assert torch.equal(one, other)


def test_weights_of_unknown_make_stay() -> None:
    blocks = nn.ModuleList(OfScaled() for _ in range(3))
    for block in blocks:
        block.other = nn.Parameter(torch.randn(16, 16), requires_grad=False)
        made = Opaque(block.weight.values, block.weight.scales)
        block.weight = nn.Parameter(made, requires_grad=False)
    streamed = stream(nn.ModuleDict({"blocks": blocks}), min_bytes=0)
    assert [slot.name for slot in streamed.blocks[0].slots] == ["other"]


def test_pickling_is_refused_with_the_reason() -> None:
    model = adapted(Case())
    stream(model)
    for part in (model, model.get_base_model().model.layers[0]):
        with pytest.raises(ValueError, match="streamed, which cannot be pickled"):
            torch.save(part, io.BytesIO())


def test_evaluation_and_generation_between_steps() -> None:
    case = Case()
    resident, model = adapted(case), adapted(case)
    streamed = stream(model)
    ids = one_batch()["input_ids"]
    for _ in range(2):
        assert_same(train(resident, case, steps=1), train(model, case, steps=1))
        found, wanted = (
            m.eval().generate(ids, max_new_tokens=5, do_sample=False) for m in (model, resident)
        )
        assert torch.equal(found, wanted)
        with torch.no_grad(), model.disable_adapter(), resident.disable_adapter():
            assert torch.equal(model(ids).logits, resident(ids).logits)
        assert streamed.ring.resident_bytes == 0
        model.train()
        resident.train()


def test_partly_frozen_blocks_stream_what_is_frozen() -> None:
    case = Case()
    resident, model = base(case), base(case)
    for candidate in (resident, model):
        for name, parameter in candidate.named_parameters():
            parameter.requires_grad_("layers.3" in name or "norm" in name)
    streamed = stream(model)
    assert [block.label for block in streamed.blocks[:-1]] == [
        f"model.layers.{n}" for n in range(3)
    ]
    assert_same(train(resident, case, steps=3), train(model, case, steps=3))


class Odd(nn.Module):
    """A weight used past its owner's forward, a saved parameter, an output taken from inside."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(16, 16)
        self.second = nn.Linear(16, 16)
        self.scale = nn.Parameter(torch.randn(16, 16))
        self.trained = nn.Parameter(torch.randn(16))

    def forward(self, hidden: Tensor) -> tuple[Tensor, Tensor]:
        gate = self.first(hidden * self.trained)
        mixed = gate @ self.second.weight
        return hidden + mixed.tanh() * self.scale[: hidden.shape[0]], gate


@pytest.mark.parametrize("reentrant", [None, False, True])
def test_modules_of_ones_own(reentrant: bool | None) -> None:
    def run(streamed: bool) -> list[Tensor]:
        torch.manual_seed(0)
        model = nn.ModuleDict({"blocks": nn.ModuleList(Odd() for _ in range(4))})
        for name, parameter in model.named_parameters():
            parameter.requires_grad_("trained" in name)
        if streamed:
            stream(model, min_bytes=0)
        gradients = []
        for step in range(3):
            torch.manual_seed(step)
            hidden, gates = torch.randn(8, 16, requires_grad=True), []
            for block in model["blocks"]:  # type: ignore[attr-defined]
                if reentrant is None:
                    hidden, gate = block(hidden)
                else:
                    hidden, gate = checkpoint(block, hidden, use_reentrant=reentrant)
                gates.append(gate)
            # The last block's output gets no gradient, its gate does.
            loss = torch.stack(gates).square().sum()
            loss.backward()
            gradients += [p.grad.clone() for p in model.parameters() if p.grad is not None]
            model.zero_grad()
        return gradients

    for one, other in zip(run(False), run(True), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("checkpointing", ["none", "non-reentrant"])
def test_a_loss_that_reads_the_head_itself(checkpointing: str) -> None:
    """TRL's fused head and Liger's multiply by `lm_head.weight` in the model's forward."""
    case = Case(checkpointing=checkpointing)
    gradients = []
    for streams in (False, True):
        model = adapted(case)
        causal = model.get_base_model()

        def forward(input_ids: Tensor, causal: Any = causal, **ignored: Any) -> CausalLMOutput:
            hidden = causal.model(input_ids, use_cache=False).last_hidden_state
            return CausalLMOutput(loss=(hidden @ causal.lm_head.weight.t()).logsumexp(-1).mean())

        causal.forward = forward
        if streams:
            stream(model)
        ids = one_batch()["input_ids"]
        first, second = model(input_ids=ids).loss, model(input_ids=ids.flip(0, 1)).loss
        (first + 2 * second).backward()
        gradients.append([p.grad for p in model.parameters() if p.grad is not None])
    assert gradients[0]
    assert all(map(torch.equal, *gradients))
