"""Two ranks under DDP: each streams its own copy, and both train as resident ones do."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from memlint_runtime import stream_frozen_weights
from torch.nn.parallel import DistributedDataParallel

from tests.runtime.ranks import run_ranks
from tests.runtime.streaming.schedulers import DelayedCopies
from tests.runtime.streaming.training import Case, adapted, batch


def _work(rank: int, folder: str) -> None:
    dist.init_process_group("gloo", f"file://{folder}/store", rank=rank, world_size=2)
    found = []
    for before in (None, True, False):
        model = adapted(Case())
        if before:
            stream_frozen_weights(model, copies=DelayedCopies(), min_bytes=256)
        parallel = DistributedDataParallel(model)
        if before is False:
            stream_frozen_weights(parallel, copies=DelayedCopies(), min_bytes=256)
        generator = torch.Generator().manual_seed(rank)
        optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1)
        for _ in range(3):
            with parallel.no_sync():
                parallel(**batch(generator), use_cache=False).loss.backward()
            parallel(**batch(generator), use_cache=False).loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        found.append([p.detach().clone() for p in model.parameters() if p.requires_grad])
        if before:
            ignored = parallel.parameters_to_ignore
            assert any("layers.0.mlp.up_proj.base_layer.weight" in name for name in ignored)
    torch.save(found, f"{folder}/{rank}.pt")
    dist.destroy_process_group()


def test_ddp(tmp_path: Path) -> None:
    run_ranks(_work, str(tmp_path))
    for rank in range(2):
        resident, *streamed = torch.load(tmp_path / f"{rank}.pt")
        for other in streamed:
            assert all(torch.equal(a, b) for a, b in zip(resident, other, strict=True))


pytestmark = pytest.mark.filterwarnings("ignore:.*is deprecated and will be removed:FutureWarning")
