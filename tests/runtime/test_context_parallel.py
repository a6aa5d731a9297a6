"""Under torch's context parallelism on two processes: exact where tokens are scored one by one,
refused where tokens must see each other."""

from __future__ import annotations

import warnings
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from memlint_runtime import (
    fuse_causal_lm_loss,
    shared_prompt_logprobs,
    use_variable_length_attention,
)
from torch import Tensor
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.experimental import context_parallel

from tests.runtime.float64 import judge
from tests.runtime.losses.models import tiny_batch, tiny_model
from tests.runtime.losses.plain import expected_of
from tests.runtime.ranks import run_ranks

RANKS, TOKENS = 2, 16


def batch() -> tuple[Tensor, Tensor, Tensor]:
    """Tokens, positions and shifted labels of one row, `[1, TOKENS]`."""
    ids = torch.cat(list(tiny_batch(4)["input_ids"]))[None, :TOKENS].clone()
    shifted = torch.nn.functional.pad(ids, (0, 1), value=-100)[:, 1:].contiguous()
    return ids, torch.arange(TOKENS)[None], shifted


def step(model: Any, *, rank: int, fused: bool, mesh: Any) -> tuple[Tensor, dict[str, Tensor]]:
    """Loss and gradients of the whole row, each process with its half of it."""
    ids, positions, shifted = (one.clone() for one in batch())
    with ExitStack() as stack:
        if fused:
            stack.enter_context(fuse_causal_lm_loss(model))
        stack.enter_context(
            context_parallel(mesh, buffers=[ids, positions, shifted], buffer_seq_dims=[1, 1, 1])
        )
        assert ids.shape[1] == TOKENS // RANKS
        loss = model(
            input_ids=ids, position_ids=positions, shift_labels=shifted, labels=ids,
            num_items_in_batch=float(TOKENS - 1), use_cache=False,
        ).loss  # fmt: skip
        loss.backward()
    total = loss.detach().clone()
    dist.all_reduce(total)
    gradients = {}
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None
        gradients[name] = parameter.grad.clone()
        dist.all_reduce(gradients[name])
    return total, gradients


def _work(rank: int, store: str) -> None:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=RANKS)
    try:
        mesh = init_device_mesh("cpu", (RANKS,))
        _loss_is_exact(rank, mesh)
        _attention_is_refused(mesh)
    finally:
        dist.destroy_process_group()


class _Alone(torch.nn.Module):
    """In the place of attention, whose kernels for the CPU torch does not spread: each token by
    itself."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.mix = torch.nn.Linear(width, width)

    def forward(self, hidden_states: Tensor, *_: Any, **__: Any) -> tuple[Tensor, None]:
        return self.mix(hidden_states), None


def without_attention() -> Any:
    model = tiny_model("llama").train()
    torch.manual_seed(1)
    for layer in model.model.layers:
        layer.self_attn = _Alone(model.config.hidden_size)
    return model


def _loss_is_exact(rank: int, mesh: Any) -> None:
    ids, positions, shifted = batch()
    whole = {
        "input_ids": ids, "position_ids": positions, "shift_labels": shifted, "labels": ids,
    }  # fmt: skip
    options = {"num_items_in_batch": float(TOKENS - 1), "use_cache": False}
    expected = expected_of(without_attention(), whole, **options)
    for fused in (False, True):
        judge(step(without_attention(), rank=rank, fused=fused, mesh=mesh), *expected)


def _attention_is_refused(mesh: Any) -> None:
    model = use_variable_length_attention(tiny_model("llama"))
    ids, positions, _ = batch()
    with (
        context_parallel(mesh, buffers=[ids, positions], buffer_seq_dims=[1, 1]),
        pytest.raises(ValueError, match=r"variable-length attention attends within one process"),
    ):
        model(input_ids=ids, position_ids=positions)
    model(input_ids=ids, position_ids=positions)
    model = tiny_model("llama")
    prompt, completion = ids[:, :8].repeat(2, 1), ids[:, 8:].repeat(2, 1)
    masks = torch.ones_like(prompt), torch.ones_like(completion)
    shared_prompt_logprobs(model, prompt, masks[0], completion, masks[1])
    with (
        context_parallel(mesh, buffers=[completion], buffer_seq_dims=[1]),
        pytest.raises(ValueError, match=r"a shared prompt attends within one process"),
    ):
        shared_prompt_logprobs(
            model, prompt, masks[0], completion, masks[1][:, : completion.shape[1]]
        )


def test_two_processes(tmp_path: Path) -> None:
    run_ranks(_work, str(tmp_path / "store"), ranks=RANKS)
