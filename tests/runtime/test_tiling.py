"""The tiled MLP against the whole one: values, gradients, bytes, composition."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from memlint_runtime.checkpoint import checkpoint_activations
from memlint_runtime.fake_memory import track_memory
from memlint_runtime.offload import offload_activations
from memlint_runtime.tiling import TiledForward, tile_mlp
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils.checkpoint import checkpoint
from transformers import LlamaConfig, LlamaForCausalLM

from tests.examples import examples
from tests.runtime.float64 import in_float64, judge
from tests.runtime.replicas import replicate

D, INTERMEDIATE = 16, 48


class GatedMlp(nn.Module):
    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__()
        self.gate = nn.Linear(D, INTERMEDIATE, bias=False)
        self.up = nn.Linear(D, INTERMEDIATE)
        self.down = nn.Linear(INTERMEDIATE, D, bias=False)
        self.dropout = nn.Dropout(dropout)
        self.calls = 0

    def forward(self, hidden: Tensor) -> Tensor:
        self.calls += 1
        return self.dropout(self.down(nn.functional.silu(self.gate(hidden)) * self.up(hidden)))


class Block(nn.Module):
    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(D)
        self.mlp = GatedMlp(**options)

    def forward(self, hidden: Tensor) -> Tensor:
        return hidden + self.mlp(self.norm(hidden))


def run(block: nn.Module, hidden: Tensor) -> tuple[Tensor, list[Tensor | None]]:
    inputs = hidden.clone().requires_grad_()
    output = block(inputs)
    output.square().mean().mul(100).backward()  # a scaled loss
    found = [inputs.grad, *(p.grad for p in block.parameters())]
    block.zero_grad()
    return output.detach(), found


@given(
    shape=st.sampled_from([(1,), (7,), (32,), (2, 9), (3, 1), (2, 2, 5)]),
    tile=st.integers(1, 40),
    frozen=st.sampled_from(["nothing", "down", "all"]),
    checkpointed=st.booleans(),
)
@examples(60)
def test_values_and_gradients_equal_the_whole(
    shape: tuple[int, ...], tile: int, frozen: str, checkpointed: bool
) -> None:
    torch.manual_seed(0)
    plain = Block()
    plain.mlp.requires_grad_(frozen != "all")
    plain.mlp.down.requires_grad_(frozen == "nothing")
    tiled = copy.deepcopy(plain)
    tile_mlp(tiled, tile_tokens=tile)
    hidden = torch.randn(*shape, D)
    expected, truth = run(plain, hidden), in_float64(run, plain, hidden)
    if checkpointed:
        inner = tiled.forward
        tiled.forward = lambda h: checkpoint(inner, h, use_reentrant=False)  # type: ignore
    judge(run(tiled, hidden), expected, truth)


def test_input_without_gradient() -> None:
    torch.manual_seed(0)
    plain, hidden = GatedMlp(), torch.randn(20, D)
    tiled = copy.deepcopy(plain)
    tiled.forward = TiledForward(tiled, tiled.forward, 6)  # type: ignore[method-assign]

    def trained(mlp: nn.Module, hidden: Tensor) -> list[Tensor]:
        return list(torch.autograd.grad(mlp(hidden).square().sum(), list(mlp.parameters())))

    judge(trained(tiled, hidden), trained(plain, hidden), in_float64(trained, plain, hidden))


def test_dropout_draws_the_same_numbers_in_backward() -> None:
    """With the output linear in the input, the gradient shows the mask that backward drew."""

    class Mask(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.mlp = nn.Dropout(0.5)

        def forward(self, hidden: Tensor) -> Tensor:
            result: Tensor = self.mlp(hidden)
            return result

    mask = Mask()
    tile_mlp(mask, tile_tokens=3)
    hidden = torch.ones(10, D, requires_grad=True)
    output = mask(hidden)
    torch.randn(5)  # random numbers drawn in between
    before = torch.get_rng_state()
    output.sum().backward()
    assert torch.equal(hidden.grad, output)
    assert torch.equal(before, torch.get_rng_state())
    assert 0 < (output == 0).sum() < output.numel()


def test_autocast_holds_in_backward() -> None:
    torch.manual_seed(0)
    plain = Block()
    tiled = copy.deepcopy(plain)
    tile_mlp(tiled, tile_tokens=8)
    gradients = []
    for block in (plain, tiled):
        hidden = torch.randn(32, D, generator=torch.Generator().manual_seed(1)).requires_grad_()
        with torch.autocast("cpu", torch.bfloat16):
            output = block(hidden)
        output.float().square().sum().backward()
        gradients.append([hidden.grad, *(p.grad for p in block.parameters())])
    for one, other in zip(*gradients, strict=True):
        assert one.dtype == other.dtype
        torch.testing.assert_close(one, other, atol=0.02 * float(one.abs().max()), rtol=0)


def test_low_precision_weight_gradients_are_as_good_as_untiled() -> None:
    torch.manual_seed(0)
    exact = Block().double()
    hidden = torch.randn(512, D, dtype=torch.float64)
    plain = copy.deepcopy(exact).bfloat16()
    exact.load_state_dict(plain.state_dict())
    tiled = copy.deepcopy(plain)
    tile_mlp(tiled, tile_tokens=16)
    _, truth = run(exact, hidden.bfloat16().double())
    _, whole = run(plain, hidden.bfloat16())
    _, tiles = run(tiled, hidden.bfloat16())
    for right, one, other in zip(truth, whole, tiles, strict=True):
        assert right is not None
        assert one is not None
        assert other is not None
        assert (other - right).norm() <= 1.1 * (one - right).norm()


def test_an_outer_checkpoint_computes_the_mlp_twice_not_three_times() -> None:
    block = Block()
    tile_mlp(block, tile_tokens=8)
    hidden = torch.randn(32, D, requires_grad=True)
    output = checkpoint(block, hidden, use_reentrant=False)
    assert block.mlp.calls == 4
    output.sum().backward()
    assert block.mlp.calls == 8


def test_bytes_do_not_grow_with_the_sequence() -> None:
    def peaks(tokens: int, tile: int | None) -> int:
        with FakeTensorMode():
            block = Block()
            if tile:
                tile_mlp(block, tile_tokens=tile)
            with track_memory(block) as tracker:
                hidden = torch.empty(tokens, D, requires_grad=True)
                block(hidden).sum().backward()
        return tracker.peak.activations + tracker.peak.temporaries

    short, long = (peaks(tokens, 64) for tokens in (1024, 4096))
    per_token = (long - short) / (4096 - 1024)
    assert per_token <= 5 * D * 4 + 16  # hidden states only, none of the intermediate size
    assert peaks(4096, None) > 2.5 * long


def test_composes_with_checkpointing_and_offload_in_a_model() -> None:
    torch.manual_seed(0)
    config = LlamaConfig(
        hidden_size=32,
        intermediate_size=96,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=128,
        use_cache=False,
    )
    model = LlamaForCausalLM(config).train()
    ids = torch.randint(0, 128, (2, 40))

    def grown(model: Any) -> list[Tensor | None]:
        model.zero_grad(set_to_none=True)
        model(ids, labels=ids).loss.backward()
        return [p.grad for p in model.parameters()]

    expected, truth = grown(model), in_float64(grown, model)
    assert len(tile_mlp(model, tile_tokens=16)) == 3
    tile_mlp(model)  # again: nothing is tiled twice
    offload = offload_activations(device="cpu", min_bytes=256)
    checkpoint_activations(model, offload=offload)
    found = grown(model)
    assert offload.sent_bytes == 3 * 2 * 40 * 32 * 4
    judge(found, expected, truth)
    model.zero_grad(set_to_none=True)
    model.gradient_checkpointing = False
    for layer in model.model.layers:
        layer.gradient_checkpointing = False
    everything = offload_activations(model, device="cpu", min_bytes=256)
    with everything:
        loss = model(ids, labels=ids).loss
        loss.backward()  # inside: what backward computes again must not be sent
    judge([p.grad for p in model.parameters()], expected, truth)
    del loss
    assert everything.pool.used_bytes == 0


def test_generation_and_short_inputs_run_as_before() -> None:
    block = Block()
    tile_mlp(block, tile_tokens=8)
    with torch.no_grad():
        block(torch.randn(32, D))
    block(torch.randn(8, D))
    assert block.mlp.calls == 2
    del block.mlp.forward
    assert type(block.mlp).forward is GatedMlp.forward
    block(torch.randn(32, D))
    assert block.mlp.calls == 3


def test_what_cannot_be_tiled_is_refused() -> None:
    class SparseMoeBlock(nn.Module):
        pass

    class Routed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.mlp = SparseMoeBlock()

    class Pair(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.ffn = nn.LSTM(4, 4, batch_first=True)

    with pytest.raises(ValueError, match="mlp routes tokens to experts"):
        tile_mlp(Routed())
    with pytest.raises(ValueError, match="no submodule of Linear is called mlp"):
        tile_mlp(nn.Linear(2, 2))
    with pytest.raises(ValueError, match="tile_tokens must be at least 1 token, got 0"):
        tile_mlp(Block(), tile_tokens=0)
    with pytest.raises(ValueError, match=r"tile_tokens must be a whole number, got 1.5"):
        tile_mlp(Block(), tile_tokens=1.5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"wants a model \(a torch.nn.Module\), got NoneType"):
        tile_mlp(None)  # type: ignore[arg-type]
    (lstm,) = tile_mlp(Pair(), tile_tokens=2)
    with pytest.raises(ValueError, match="maps each token to one vector"):
        lstm(torch.randn(1, 6, 4, requires_grad=True))


def test_another_tile_size_is_refused_until_the_first_is_undone() -> None:
    block = Block()
    first = tile_mlp(block, tile_tokens=3, names="mlp")
    assert list(tile_mlp(block, names="mlp")) == list(tile_mlp(block, tile_tokens=3, names="mlp"))
    with pytest.raises(ValueError, match="mlp is tiled already, with tile_tokens=3: undo that"):
        tile_mlp(block, tile_tokens=5, names="mlp")
    first.undo()
    forward: Any = tile_mlp(block, tile_tokens=5, names="mlp")[0].forward
    assert forward.tile_tokens == 5


def test_a_name_by_itself_is_no_set_of_characters() -> None:
    # A model's own name is empty, and an empty string is within every other.
    block = Block()
    assert list(tile_mlp(block, names="mlp")) == [block.mlp]


# Where a graph goes on after what is left out of it, torch looks for a gradient.
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("dynamic", [None, True])
def test_compiled(backend: str, dynamic: bool | None) -> None:
    torch.manual_seed(0)
    block, hidden = Block(), torch.randn(2, 21, D)
    expected, truth = run(block, hidden), in_float64(run, block, hidden)
    tile_mlp(block, tile_tokens=8)
    torch.compiler.reset()
    found = run(torch.compile(block, backend=backend, dynamic=dynamic), hidden)
    judge(found, expected, truth)
    assert block.mlp.calls > 1 + 3


def test_replicas_tile_by_themselves() -> None:
    """Of `nn.DataParallel`: shallow copies of each module, whose weights are no parameters."""
    torch.manual_seed(0)
    mlp = nn.ModuleDict({"mlp": GatedMlp()})
    hidden = torch.randn(2, 21, D)
    wanted, _ = run(mlp["mlp"], hidden)
    tile_mlp(mlp, tile_tokens=8)
    copies = {name: value * 2.0 for name, value in mlp.named_parameters()}
    replica = replicate(mlp, copies)["mlp"]
    output = replica(hidden)
    assert not torch.allclose(output, wanted)
    with torch.no_grad():
        for value in mlp.parameters():
            value.mul_(2.0)
    expected, truth = run(mlp["mlp"], hidden), in_float64(run, mlp["mlp"], hidden)
    output.square().mean().mul(100).backward()
    # Each weight was doubled on its way into the replica.
    found = output.detach(), [p.grad / 2.0 for p in mlp.parameters()]
    judge(found, *((values, grown[1:]) for values, grown in (expected, truth)))


def test_an_mlp_that_views_its_input() -> None:
    """As GPT-2's does, over several sequences."""

    class Viewing(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(8, 8))

        def forward(self, hidden: Tensor) -> Tensor:
            flat = torch.mm(hidden.view(-1, 8), self.weight)
            return flat.view(*hidden.shape[:-1], 8)

    model = nn.ModuleDict({"mlp": Viewing()})
    hidden = torch.randn(3, 10, 8, requires_grad=True)

    def trained(model: Any, hidden: Tensor) -> Any:
        return torch.autograd.grad(model["mlp"](hidden).square().sum(), [hidden])

    expected, truth = trained(model, hidden), in_float64(trained, model, hidden)
    with tile_mlp(model, tile_tokens=4):
        judge(trained(model, hidden), expected, truth)
    assert "forward" not in vars(model["mlp"])
