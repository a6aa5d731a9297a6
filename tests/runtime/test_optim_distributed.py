"""The step inside backward under FSDP2 on two processes (gloo), against one plain process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from memlint_runtime.optim import OptimizerInBackward
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor

from tests.runtime.ranks import run_ranks

RANKS, STEPS = 2, 5


def model() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(12, 20), nn.Tanh(), nn.Linear(20, 12), nn.Linear(12, 4))


def batch(step: int) -> Tensor:
    return torch.randn(2 * RANKS, 12, generator=torch.Generator().manual_seed(step))


def optimizer_of(trained: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.AdamW(trained.parameters(), lr=1e-2, weight_decay=0.1)


def train(trained: nn.Module, optimizer: torch.optim.Optimizer, rows: slice) -> list[Tensor]:
    for step in range(STEPS):
        trained(batch(step)[rows]).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    return [p.full_tensor() if isinstance(p, DTensor) else p for p in trained.parameters()]


def sharded() -> nn.Sequential:
    made = model()
    mesh = init_device_mesh("cpu", (RANKS,))
    for layer in made:
        if isinstance(layer, nn.Linear):
            fully_shard(layer, mesh=mesh)
    fully_shard(made, mesh=mesh)
    return made


def _work(rank: int, store: str) -> None:
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=RANKS)
    try:
        # Rows are summed in another order, and Adam divides small gradients by themselves.
        torch.set_default_dtype(torch.float64)
        plain = model()
        expected = train(plain, optimizer_of(plain), slice(None))
        trained: Any = sharded()
        optimizer = OptimizerInBackward(optimizer_of(trained))
        found = train(trained, optimizer, slice(2 * rank, 2 * rank + 2))
        for one, other in zip(found, expected, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-14)
        trained(batch(0)).sum().backward()
        assert all(parameter.grad is None for parameter in trained.parameters())
        with pytest.raises(RuntimeError, match="a second backward before step"):
            trained(batch(0)).sum().backward()
        whole = model()
        with pytest.raises(ValueError, match="parameters sharded by FSDP2, got 2 processes"):
            OptimizerInBackward(optimizer_of(whole))
    finally:
        dist.destroy_process_group()


def test_two_processes_train_as_one(tmp_path: Path) -> None:
    run_ranks(_work, str(tmp_path / "store"), ranks=RANKS)
