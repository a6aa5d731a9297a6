"""Processes of a distributed run, forked from a server that has imported the libraries once."""

from __future__ import annotations

import multiprocessing
import os
import socket
from collections.abc import Callable
from typing import Any

import torch

LIBRARIES = (
    "torch.distributed.fsdp",
    "torch.distributed.tensor",
    "peft",
    "transformers.trainer",
    "trl.trainer.grpo_trainer",
)


def run_ranks(work: Callable[..., None], *arguments: Any, ranks: int = 2) -> None:
    """Run ``work(rank, *arguments)`` in a process for each rank.

    Raises:
        torch.multiprocessing.ProcessRaisedException: a rank failed; with its traceback.
    """
    multiprocessing.get_context("forkserver").set_forkserver_preload(list(LIBRARIES))
    torch.multiprocessing.start_processes(  # type: ignore[no-untyped-call]
        work, arguments, nprocs=ranks, start_method="forkserver"
    )


def free_port() -> int:
    """Return a port that nothing listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def set_environment(rank: int, ranks: int, port: int) -> None:
    """Set the variables that ``torch.distributed.run`` sets for this rank."""
    values = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": ranks, "LOCAL_WORLD_SIZE": ranks}
    os.environ.update({name: str(value) for name, value in values.items()})
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
