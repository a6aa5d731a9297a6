"""Fused losses on two processes (gloo): gradients of the whole batch, one gather of the head."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from memlint_runtime import fuse_causal_lm_loss, token_logprobs
from memlint_runtime.losses.output_head import gather
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.debug import CommDebugMode

from tests.runtime.float64 import in_float64, judge
from tests.runtime.losses.models import tiny_batch, tiny_model
from tests.runtime.losses.plain import expected_of, make_problem, plain_statistics
from tests.runtime.ranks import run_ranks

RANKS = 2
ITEMS = 48.0  # the two ranks' losses are averaged, so each divides by half of this


def whole_step(family: str) -> tuple[Any, Any]:
    """One process, all rows, transformers' own loss: in float32, and in float64."""
    return expected_of(tiny_model(family), tiny_batch(4), num_items_in_batch=ITEMS)


def rank_step(model: Any, rank: int) -> Tensor:
    batch = {name: values[2 * rank : 2 * rank + 2] for name, values in tiny_batch(4).items()}
    loss: Tensor = model(**batch, num_items_in_batch=ITEMS / RANKS).loss
    loss.backward()
    return loss.detach()


def gradients_of(model: nn.Module) -> dict[str, Tensor]:
    found = {}
    for name, parameter in model.named_parameters():
        if parameter.grad is not None:
            grad = parameter.grad
            found[name.removeprefix("module.")] = (
                grad.full_tensor() if isinstance(grad, DTensor) else grad
            )
    return found


def ddp(rank: int, family: str) -> None:
    expected, truth = whole_step(family)
    model = tiny_model(family)
    # Before wrapping and after it: both must do.
    wrapped = nn.parallel.DistributedDataParallel(model)
    with fuse_causal_lm_loss(wrapped):
        mine = rank_step(wrapped, rank)
    dist.all_reduce(mine)
    judge((mine / RANKS, gradients_of(wrapped)), expected, truth)


def fsdp(rank: int, family: str, own_unit: bool, fuse_first: bool) -> None:
    expected, truth = whole_step(family)
    gathers = {}
    for fused in (True, False):
        model = tiny_model(family)
        handle = fuse_causal_lm_loss(model) if fused and fuse_first else None
        mesh = init_device_mesh("cpu", (RANKS,))
        for layer in model.model.layers:
            fully_shard(layer, mesh=mesh)
        if own_unit:
            fully_shard(model.lm_head, mesh=mesh)
        fully_shard(model, mesh=mesh)
        if fused and not fuse_first:
            handle = fuse_causal_lm_loss(model)
        with CommDebugMode() as counter:
            rank_step(model, rank)
        gathers[fused] = {str(name): count for name, count in counter.comm_counts.items()}
        judge(gradients_of(model), expected[1], truth[1])
        if handle is not None:
            handle.undo()
    assert sum(gathers[True].values()) > 0
    assert gathers[True] == gathers[False]


def sharded_weight_outside_its_module(rank: int) -> None:
    problem = make_problem()
    mesh = init_device_mesh("cpu", (RANKS,))
    whole = nn.Linear(16, 101, bias=False)
    whole.weight = nn.Parameter(problem.weight.detach().clone())
    sharded = fully_shard(whole, mesh=mesh)
    weight = gather(sharded.weight)
    assert weight is not None
    half = slice(0, 18) if rank == 0 else slice(18, 37)
    token_logprobs(problem.hidden[half], weight, problem.target[half]).sum().backward()

    def plain(hidden: Tensor, weight: Tensor) -> Tensor:
        scores = plain_statistics(hidden, weight, problem.target)[0]
        return torch.autograd.grad(scores.sum(), weight)[0]

    expected = plain(problem.hidden, problem.weight)
    truth = in_float64(plain, problem.hidden, problem.weight)
    assert sharded.weight.grad is not None
    assert isinstance(sharded.weight.grad, DTensor)
    # Averaged over ranks, as FSDP and DDP do.
    judge(sharded.weight.grad.full_tensor() * RANKS, expected, truth)


def _work(rank: int, store: str) -> None:
    """All cases in one pair of processes: starting them takes longer than the cases."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=RANKS)
    try:
        for name, (function, arguments) in CASES.items():
            try:
                function(rank, *arguments)
            except BaseException as error:
                error.add_note(f"in the case {name}")
                raise
    finally:
        dist.destroy_process_group()


CASES: dict[str, tuple[Callable[..., None], tuple[Any, ...]]] = {
    "ddp": (ddp, ("llama",)),
    "ddp_tied": (ddp, ("qwen2_tied",)),
    "fsdp_root": (fsdp, ("llama", False, True)),
    "fsdp_own_unit_fused_late": (fsdp, ("llama", True, False)),
    "fsdp_own_unit": (fsdp, ("llama", True, True)),
    "fsdp_softcap": (fsdp, ("gemma2_softcap", False, True)),
    "fsdp_tied": (fsdp, ("qwen2_tied", False, False)),
    "sharded_weight": (sharded_weight_outside_its_module, ()),
}


def test_two_processes(tmp_path: Path) -> None:
    run_ranks(_work, str(tmp_path / "store"), ranks=RANKS)
