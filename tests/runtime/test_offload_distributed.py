"""Offloading under FSDP2: sharded and gathered weights stay, gradients are bit-equal."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from memlint_runtime.offload import offload_activations
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor

D, ROWS = 64, 48


@pytest.fixture
def one_process(tmp_path: Path) -> Iterator[None]:
    store = dist.FileStore(str(tmp_path / "store"), 1)
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        yield
    finally:
        dist.destroy_process_group()


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(D, 3 * D, bias=False)
        self.down = nn.Linear(3 * D, D, bias=False)

    def forward(self, hidden: Tensor) -> Tensor:
        result: Tensor = hidden + self.down(nn.functional.silu(self.up(hidden)))
        return result


def step(model: nn.Module, hidden: Tensor, offload: object = None) -> tuple[list[Tensor], int]:
    context = offload_activations(model, device="cpu", min_bytes=1024)
    if offload:
        with context:
            loss = model(hidden).square().mean()
    else:
        loss = model(hidden).square().mean()
    loss.backward()
    found = []
    for parameter in model.parameters():
        gradient = parameter.grad
        assert gradient is not None
        found.append(gradient.full_tensor() if isinstance(gradient, DTensor) else gradient)
    del loss
    assert context.pool.used_bytes == 0
    return found, context.sent_bytes


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")
@pytest.mark.parametrize("reshard", [True, False])
def test_gathered_weights_stay(one_process: None, reshard: bool) -> None:
    torch.manual_seed(0)
    plain = nn.Sequential(Block(), Block(), Block())
    sharded = copy.deepcopy(plain)
    hidden = torch.randn(ROWS, D, requires_grad=True)
    mesh = init_device_mesh("cpu", (1,))
    for block in sharded:
        fully_shard(block, mesh=mesh, reshard_after_forward=reshard)
    fully_shard(sharded, mesh=mesh)
    assert all(isinstance(parameter, DTensor) for parameter in sharded.parameters())
    expected, sent_plain = step(plain, hidden, offload=True)
    actual, sent_sharded = step(sharded, hidden, offload=True)
    for one, other in zip(expected, actual, strict=True):
        assert torch.equal(one, other)
    # For each block: its input, and silu's input and output. Not one weight.
    assert sent_plain == sent_sharded == 3 * (ROWS * D + 2 * ROWS * 3 * D) * 4
